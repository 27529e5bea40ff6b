"""Random calls on anything that runs them, held against NumPy in float64.

    texts, vectors    pipelines, what each takes, and its definition (oracles) in float64
    values            rows that are hard: ties, infinities, no numbers, ends of the range
    layouts           arrays anywhere in memory whose every other byte is watched
    draws             an attack: all that a seed and a number decide
    engines           who runs it: the CPU, the emulator, a GPU; with any schedule that is offered
    judge             what differs, and where

`python -m tests.attack --seed 0 --engine emulated`; `--one NUMBER` runs one attack alone.
"""
