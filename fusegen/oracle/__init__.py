"""Independent readings of texts and operators: by NumPy, in many digits, on hard rows."""
