"""Float32 to blocks: one module for each family of tensor types, loaded when first needed.

The layouts are drawn in the modules of the same names in `explorer.quantization.decoders`.
"""
