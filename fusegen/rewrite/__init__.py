"""Graph → graph: nodes made by rewriting, and exponents taken apart."""
