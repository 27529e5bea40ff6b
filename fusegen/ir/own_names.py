"""Names of generated functions. Written by `pytest tests/test_names.py --update-names`."""

from __future__ import annotations

_BESIDE = """
    above abreast_columns absorb across add_dots add_terms add_up after again ahead ahead_number
    aligned all_strips along any_of_row any_row any_unusual any_unusual_column arrays arrived
    ask ask_items async_proxy_fence at await_all await_blocks await_chunk await_group band
    band_rows bands bar bar_of barriers_ready bars batch_rows before begin behind below best
    best_of_groups best_of_peaks best_of_team bit block blockDim blockIdx block_reduce
    block_reduce_again blocks blocks_of_a_row bring_beside bring_vectors bring_words bytes chunk
    clamped clamped_real clear cluster_reduce col collect collect_best column column_of
    column_stages column_t columns combine complete contributing copies_commit copies_wait
    copy_chunks copy_rows copy_stored copy_tiles count counts cut down each_list edge edge_item
    edge_of end end_group end_item entry equal exp2_narrow exp2_term exp_narrow exp_term
    exp_times exp_times_narrow exp_times_term fabs fabsf factor fetch_chunk fetch_group fg
    find_items finish finished finite first first_at first_column first_column_of_lane
    first_edge first_greatest first_item first_live first_number first_row first_row_of_lane
    first_tile float2 fmaf fold_tiles for_arriving for_arriving_together for_chunks
    for_chunks_ahead for_chunks_early for_columns for_group for_held for_items for_some for_tile
    found free from gather gather_slices give_out given greatest greatest_item gridDim
    grid_reduce group guess guess_threshold head head_of held_at held_live here high i identity
    in_runs in_sixteens inner isfinite isinf isnan item item_of_bit item_stages items j
    keep_items key key_at keys keys_of known known_values lane lane_column lane_mask lane_row
    lanes lanes_least lanes_reduce last last_of_row leads least leave_pieces list list_memory
    live live_vectors llabs load load_along load_columns load_items load_shifted load_vector
    look_again lost low make_float2 make_room make_uint4 max may_guess meet_cluster meet_team
    memory merge merge_rows merged min mine more moved n_cols n_cols_wide n_inner n_live n_rows
    n_vectors near next none_better number numbers of_all of_batch of_columns of_row of_rows
    offer offer_element opaque order_in_cluster orders other outer own own_entries own_state
    own_weights owner owns parity part part_of part_of_state partial_states parts passed past
    peak pending pending_items pending_pairs per_group phase pick piece pieces pivots place
    place_of power_factor pragma prelude product publish put_in_order r raise rank ranked reach
    reach_in_cluster reach_of reaching reaching_items read read_held read_items read_stash
    rebase reference refill registers_down registers_up resident rest rings room rounded_columns
    rounded_rows row row_number row_of row_of_step row_of_team row_stages row_step row_tile rows
    rows_abreast rows_at_a_time rows_that_come rsqrt rsqrtf run run_of_block runs scratch seen
    settle share shared shift_items slice slices slot so_far some some_lost sort split splits
    spread_step squares stage stages start stash state states states_alone states_outer_stride
    states_stride step store store_items store_two store_words stored stored_stages strip
    strip_reduce strip_reduce_cluster strip_reduce_grid strip_reduce_last strips summed
    summed_stages tables tail take take_best take_rounded take_tile tangents_of tanh_narrow team
    teams tell_count term term_edge term_items terms threadIdx tickets ties tile tile_numbers
    tile_of_block tile_rows tile_state tile_step tiles to to_boundary together told turn turns
    two uint4 unroll unusual unusual_columns value_of value_of_score vector vectors_of
    vectors_per_group visit wanted_of_sample warp warp_row warp_states warps which whole word
    word_of words
"""

_ENDINGS = """
    1 a again all alone anchor apart at band bar batch before begin behind best body bytes c
    candidates collected column columns copied count dealt divisor each early edge entry
    expected factor first found fresh from greatest guessed half held i in is item items kept
    key keys known lanes last late lists lopsided low m made map met mine next noted numbers of
    offered orders out outer own partial parts peak peaks pending picked place radius ratio
    reach rest ring room rounded row rows same sampled scores share shift sixteens slots sorted
    start stash step stored stride sum summed tile turned unusual value values vector wanted
    weight
"""

_ARRAYS = """
    batch blocks_of_a copy give keep last_of n of shift
"""

BESIDE = frozenset(_BESIDE.split())
"""What they call their own beside users' values: a user's name that is one gets an underscore."""

ENDINGS = frozenset(_ENDINGS.split())
"""What they derive from a name, word by word: x_row, x_kept_stride, top_key_of."""

ARRAYS = frozenset(_ARRAYS.split())
"""What they would derive names of their own from, were it an array: n_rows, load_items."""
