"""Where kernels run: hardware facts, sources, the user's arrays, and what is kept on disk."""
