"""Names of generated functions. Written by `pytest tests/test_names.py --update-names`."""

from __future__ import annotations

_BESIDE = """
    above absorb across add_up after again ahead all_strips along arrays arrived at await_blocks
    await_chunk await_group bar bar_of bars before begin behind below best best_of_peaks
    best_of_vectors bit block blockDim blockIdx block_reduce block_reduce_again blocks
    blocks_of_a_row bytes chunk clamped clear cluster_reduce col column column_of column_t
    columns combine contributing count count_best cut deal_best down each_list edge edge_item
    edge_of end end_group entry equal exp_narrow exp_times exp_times_narrow fabs fabsf
    fetch_chunk fetch_group fg finish finite first first_column first_item first_live first_row
    first_tile for_arriving for_chunks for_chunks_early for_columns for_group for_held for_items
    for_some for_tile found free from gather greatest greatest_item gridDim grid_reduce group
    guess guess_threshold head head_of held_at held_live here high i identity inner isfinite
    isinf isnan item item_of_bit items key_at keys keys_of known known_values lane lane_mask
    lanes lanes_reduce last last_of_row least leave_pieces live live_vectors llabs load_along
    load_columns load_items load_vector low max may_guess meet_cluster memory merge merge_rows
    merged min mine more moved n_cols n_cols_wide n_inner n_live n_rows n_vectors next offer
    offer_element orders other outer own own_entries own_entry own_state parity part
    part_of_state partial_states parts peak pending_items pending_pairs per_group phase piece
    pieces pivots place place_of pragma prelude publish r raise rank reach reach_of reaching
    reaching_items read_held read_items read_stash rebase refill rest rings room rounded_columns
    rounded_rows row row_of row_step rows rows_at_a_time rsqrt rsqrtf scratch seen settle share
    shared slice slices slot some sort squares stage start stash state states
    states_outer_stride states_stride step store_items strip strip_reduce strip_reduce_cluster
    strip_reduce_grid strip_reduce_last strips tail take take_tile team teams tell_count term
    terms threadIdx tickets ties tile tile_numbers tile_rows tile_state tile_step to to_boundary
    together turn unroll value_of vector vectors_per_group visit wanted_of_sample warp warps
    whole word
"""

_ENDINGS = """
    1 a anchor apart at bar batch begin best body bytes candidates column copied count dealt
    divisor early edge entry expected first found fresh guessed held i in is item items kept key
    keys known lanes last late lists lopsided m map mine next of offered orders out outer own
    partial peak peaks pending place ratio reach ring row rows same sampled shift slots sorted
    start stash step stored stride tile turned value vector wanted weight
"""

BESIDE = frozenset(_BESIDE.split())
"""What they call their own beside users' values: a user's name that is one gets an underscore."""

ENDINGS = frozenset(_ENDINGS.split())
"""What they derive from a name, word by word: x_row, x_kept_stride, top_key_of."""
