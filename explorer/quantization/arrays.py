"""Names for the arrays that kernels take and give."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Blocks: TypeAlias = NDArray[np.uint8]
"""Stored blocks: uint8 [blocks, bytes of a block], C-contiguous."""

Weights: TypeAlias = NDArray[np.float32]
"""Decoded weights: float32 [blocks, weights of a block], C-contiguous."""
