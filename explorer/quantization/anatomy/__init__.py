"""What a block is made of: codes, scales and minima, for looking into a quantization.

Decoders give weights and are exact to the bit; here the same blocks are taken apart, for code
histograms, scale distributions, the error that rounding to a step implies, and the block
microscope. One module for each family of tensor types, loaded when first needed.
"""

from explorer.quantization.anatomy.contract import Anatomy, BlockField
from explorer.quantization.anatomy.registry import anatomy, has_anatomy

__all__ = ["Anatomy", "BlockField", "anatomy", "has_anatomy"]
