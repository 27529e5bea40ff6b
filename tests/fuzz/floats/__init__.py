"""A fuzz of what floats make of accepted merges: random texts, hard rows, every tree."""
