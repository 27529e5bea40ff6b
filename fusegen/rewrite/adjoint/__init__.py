"""Reverse mode on graphs: adjoints of a pipeline's operations, as row sums and elementwise text."""
