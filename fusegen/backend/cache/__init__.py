"""What survives the process: derivations, sources and compiled kernels, in a private folder."""
