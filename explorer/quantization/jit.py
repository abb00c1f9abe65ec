"""How kernels are compiled, and the few bit-level operations that Numba lacks.

Only kernel modules import this one, because importing Numba takes a fifth of a second. There is no
``fastmath``: it lets the compiler fuse a multiplication and an addition, which changes bits.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any, TypeVar

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a kernel on its first call: the GIL released, the machine code kept on disk."""
    compiled: Function = numba.njit(nogil=True, cache=True)(function)
    return compiled


def inlined(function: Function) -> Function:
    """Compile a helper of kernels into each of its callers."""
    compiled: Function = numba.njit(inline="always")(function)
    return compiled


@intrinsic  # type: ignore[untyped-decorator]
def float32_of_bits(_context: Any, _bits: Any) -> Any:
    """Return the float32 whose bits are the given uint32."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), generate


@intrinsic  # type: ignore[untyped-decorator]
def bits_of_float32(_context: Any, _value: Any) -> Any:
    """Return the bits of a float32 as a uint32."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.uint32(types.float32), generate


@intrinsic  # type: ignore[untyped-decorator]
def _float32_of_half_native(_context: Any, _half: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), generate


@inlined
def _float32_of_half_portable(half: Any) -> Any:
    bits = numba.uint32(half)
    magnitude = (bits & numba.uint32(0x7FFF)) << numba.uint32(13)
    if bits & numba.uint32(0x7C00) == numba.uint32(0x7C00):
        magnitude |= numba.uint32(0x7F800000)
    else:
        # 2^112 moves the exponent from half's bias to float32's, and is exact for subnormals too.
        magnitude = bits_of_float32(float32_of_bits(magnitude) * numba.float32(2.0**112))
    return float32_of_bits(magnitude | ((bits & numba.uint32(0x8000)) << numba.uint32(16)))


def _converts_halves() -> bool:
    """Tell whether the processor converts half floats; without, LLVM calls a missing function."""
    if platform.machine().lower() in {"aarch64", "arm64"}:
        return True
    return bool(llvm.get_host_cpu_features().get("f16c", False))


float32_of_half = _float32_of_half_native if _converts_halves() else _float32_of_half_portable
"""Return the float32 equal to the IEEE half float whose bits are the given uint16."""
