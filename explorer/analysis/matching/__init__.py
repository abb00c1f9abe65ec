"""Tensors of two models that belong together, across formats, fusions and permutations."""
