"""Blocks to float32: one module for each family of tensor types, loaded when first needed."""
