"""What users write: values, functions, monoids of their own, and what a trace sees of a text."""
