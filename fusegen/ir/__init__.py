"""The languages, as frozen data: types, operations, graphs, monoids, derivations, kernels."""
