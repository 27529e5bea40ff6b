"""From graph, derivation and fusion to kernels: the last pass before text."""
