"""Kernels as text: expressions through printers, structure through Jinja templates."""
