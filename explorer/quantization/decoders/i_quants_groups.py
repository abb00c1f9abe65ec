"""What kernels of IQ types share: the contract, reading half-bytes, signs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from explorer.quantization.jit import f32, i32, inlined, u32

Walk: TypeAlias = Callable[[Any, Any, Any, Any], None]
"""A kernel of an IQ type: walk(blocks, out, scales, book).

`out` is float32 [blocks, weights]. `scales` is None, and `out` gets the weights; or `scales` is
float32 [blocks, scales of a block] and gets them, and `out` gets the levels. `book` is what
`code_book` returns. As in all kernels, shapes are the caller's promise.
"""


@inlined
def nibble_at(blocks: Any, b: Any, offset: Any, k: Any) -> Any:
    """Return half-byte k, low halves first, of the bytes of block `b` from an offset on."""
    return (u32(blocks[b, offset + (k >> 1)]) >> u32(4 * (k & 1))) & u32(15)


@inlined
def signed(level: Any, signs: Any, i: Any) -> Any:
    """Return a level as float32, with a minus if bit i of `signs` is set."""
    value = f32(i32(level))
    if u32(signs) & u32(u32(1) << u32(i)):
        value = -value
    return value
