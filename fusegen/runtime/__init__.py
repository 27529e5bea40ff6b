"""Compiling, caching and running kernels; taking arrays in and handing them back."""
