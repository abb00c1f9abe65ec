"""How kernels are compiled, and the few bit-level operations that Numba lacks.

Only kernel modules import this one, because importing Numba takes a fifth of a second. There is no
``fastmath``: it lets the compiler fuse a multiplication and an addition, which changes bits.

How to write a kernel that becomes vector instructions: index ``blocks[b, offset + i]`` directly (a
slice in a loop over blocks counts references); give the innermost loop a constant length that is a
multiple of 8; let it read and write consecutive elements; turn a code into a float by
``f32(i32(code))``, for Numba widens integers to 64 bits, and half as many of those fit into a
register; add a high bit to a code by a test (``if byte & bit: code += 16``), which is one masked
instruction.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import pickle
import platform
from collections.abc import Callable, Iterator
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils, event
from numba.core.caching import FunctionCache, IndexDataCacheFile, UserProvidedCacheLocator
from numba.core.compiler import Compiler
from numba.extending import intrinsic

from explorer.quantization.kernel_cache import (
    choose_kernel_cache,
    count_compilation,
    kernel_folder,
    read_sealed,
    seal,
)

Function = TypeVar("Function", bound=Callable[..., Any])

f32 = numba.float32
i8 = numba.int8
i32 = numba.int32
u8 = numba.uint8
u16 = numba.uint16
u32 = numba.uint32
u64 = numba.uint64

choose_kernel_cache()
numba.config.reload_config()  # some module may have imported Numba before this one

# Without this, LLVM replaces a loop of 16 or 32 rounds by as many copies of its body before it
# looks for loops to vectorize, and finds none: Q8_0 then decodes at 2.2 instead of 7.8 G weights/s.
# It holds for all code that Numba compiles in this process, which is ours. LLVM ends the process at
# an option that it does not know, so only versions that were tried get it (14: Numba 0.60).
_TRIED_LLVM: Final = range(14, 23)
if llvm.llvm_version_info[0] in _TRIED_LLVM:
    llvm.set_option("explorer", "-unroll-full-max-count=4")


class _Compilations(event.Listener):  # type: ignore[misc]
    """Counts compilations, so that the window can say why it waits; loading from disk is none."""

    def on_start(self, _event: Any) -> None:
        count_compilation(1)

    def on_end(self, _event: Any) -> None:
        count_compilation(-1)


event.register("numba:compile", _Compilations())


class _ArraysApart(Compiler):  # type: ignore[misc]
    """Numba's compiler, with the promise that no two arrays given to a kernel overlap.

    Else LLVM guards each loop with a comparison of addresses, and gives short loops up: NVFP4 then
    decodes at 1.2 instead of 5.6 G weights/s.
    """

    def define_pipelines(self) -> Any:
        self.state.flags.noalias = True
        return super().define_pipelines()


def kernel(function: Function) -> Function:
    """Compile a kernel on its first call: the GIL released, the machine code kept on disk.

    Arrays that the kernel writes must not overlap any other that it is given.
    """
    compiled: Any = numba.njit(no_cfunc_wrapper=True, **_OPTIONS)(function)
    # Where no folder can be written, each process compiles for itself.
    with contextlib.suppress(RuntimeError, OSError):
        compiled._cache = _KernelCache(function)
    kept: Function = compiled
    return kept


# Raised by reading a pickle that was cut short or overwritten ("The Python Library", pickle)
_DAMAGED: Final = (
    *(pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError),
    *(KeyError, TypeError, ValueError),
)


_BINARY: Final = getattr(os, "O_BINARY", 0)  # of Windows


class _SealedFiles(IndexDataCacheFile):  # type: ignore[misc]
    """A kernel's files, each ending in a digest that is checked before anything is unpickled.

    A file that is not what was written is removed, as if it had never been there.
    """

    def save(self, key: Any, data: Any) -> None:
        """Keep machine code under a name that is made of what it is for.

        Numba numbers its files: two processes that save at once give one number to two, and load
        machine code for other types of arrays.
        """
        overloads = self._load_index()
        digest = blake2b(repr(key).encode(), digest_size=8).hexdigest()
        name = overloads[key] = self._data_name(int(digest, 16))
        self._save_data(name, data)
        self._save_index(overloads)

    def _load_index(self) -> Any:
        content = read_sealed(Path(self._index_path))
        if content is None:
            return {}
        file = io.BytesIO(content)
        if pickle.load(file) != self._version:
            return {}
        stamp, overloads = pickle.load(file)
        return overloads if stamp == self._source_stamp else {}

    def _load_data(self, name: str) -> Any:
        content = read_sealed(Path(self._data_path(name)))
        return None if content is None else pickle.loads(content)

    @contextlib.contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        content = io.BytesIO()
        yield content
        temporary = f"{filepath}.tmp.{uuid4().hex[:16]}"
        try:
            descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _BINARY, 0o600)
            with open(descriptor, "wb") as file:
                file.write(content.getvalue())
                file.write(seal(Path(filepath), content.getvalue()))
                file.flush()
                os.fsync(file.fileno())  # else a power failure may leave the name without the bytes
            os.replace(temporary, filepath)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


def _locator() -> Any:
    """Return what names a kernel's folder: Numba's class, or that of a frozen program."""
    module, _, name = (numba.config.CACHE_LOCATOR_CLASSES or "").rpartition(".")
    return getattr(import_module(module), name) if module else UserProvidedCacheLocator


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """Numba's, but one that fails costs time and nothing else.

    A full disk, a folder that became read-only or was removed, and a file that a power failure cut
    short would else be an error of the call that compiles.
    """

    def __init__(self, function: Any) -> None:
        """Find the kernel's folder; a RuntimeError, if it has none that is safe."""
        name = _locator().get_suitable_cache_subpath(inspect.getfile(function))
        folder = kernel_folder(name)
        super().__init__(function)
        locator = self._impl.locator
        if Path(self._cache_path) != folder:  # Numba has found another, which nobody guards
            raise RuntimeError(f"{folder} cannot be written")
        self._cache_file = _SealedFiles(
            self._cache_path, self._impl.filename_base, locator.get_source_stamp()
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was kept, or None; see `numba.core.caching`."""
        try:
            return super().load_overload(sig, target_context)
        except (OSError, *_DAMAGED):
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, if that can be."""
        try:
            super().save_overload(sig, data)
        except OSError:
            return
        except _DAMAGED:  # the index, which is read before it is written: begin a new one
            with contextlib.suppress(OSError):
                self.flush()
                super().save_overload(sig, data)


_OPTIONS: Final = {
    "nogil": True,
    "error_model": "numpy",  # 1 / 0 is infinity, as in C and in NumPy; no test before each division
    "pipeline_class": _ArraysApart,
}
_OF_KERNELS: Final = {"no_cfunc_wrapper": True, "no_cpython_wrapper": True, **_OPTIONS}

routine: Callable[[Function], Function] = numba.njit(**_OF_KERNELS)
"""Compile a part of kernels that they call: one with loops, which is vectorized on its own.

As with kernels, arrays that it writes must not overlap any other that it is given.
"""

inlined: Callable[[Function], Function] = numba.njit(forceinline=True, **_OF_KERNELS)
"""Compile a helper of kernels, which LLVM then puts into each of its callers.

Numba's own ``inline="always"`` does it earlier, with the same speed in the end, and takes a fifth
longer to compile.
"""


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
    bits = u32(half)
    magnitude = (bits & u32(0x7FFF)) << u32(13)
    if bits & u32(0x7C00) == u32(0x7C00):
        magnitude |= u32(0x7F800000)
    else:
        # 2^112 moves the exponent from half's bias to float32's, and is exact for subnormals too.
        magnitude = bits_of_float32(float32_of_bits(magnitude) * f32(2.0**112))
    return float32_of_bits(magnitude | ((bits & u32(0x8000)) << u32(16)))


def _converts_halves() -> bool:
    """Return whether the processor converts half floats; if not, LLVM calls a missing function."""
    if numba.config.CPU_NAME or numba.config.CPU_FEATURES:
        return False  # the user has Numba compile for another processor
    if platform.machine().lower() in {"aarch64", "arm64"}:
        return True
    return bool(llvm.get_host_cpu_features().get("f16c", False))


float32_of_half = _float32_of_half_native if _converts_halves() else _float32_of_half_portable
"""Return the float32 equal to the IEEE half float whose bits are the given uint16."""


def _little_endian(bits: int) -> Any:
    # One typed call, where `blocks[b, offset] | blocks[b, offset + 1] << 8` is a dozen: compiling
    # all decoders takes a quarter less time. LLVM makes one load of it.
    number = ir.IntType(bits)

    @intrinsic  # type: ignore[untyped-decorator]
    def read(_context: Any, blocks: Any, _b: Any, _offset: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            array, b, offset = arguments
            view = context.make_array(blocks)(context, builder, array)
            value = ir.Constant(number, 0)
            for i in range(bits // 8):
                place = [b, builder.add(offset, context.get_constant(types.intp, i))]
                byte = cgutils.get_item_pointer(context, builder, blocks, view, place)
                byte = builder.zext(builder.load(byte), number)
                value = builder.or_(value, builder.shl(byte, ir.Constant(number, 8 * i)))
            return value

        unsigned = types.Integer.from_bitwidth(bits, signed=False)
        return unsigned(blocks, types.intp, types.intp), generate

    return read


u16_at = _little_endian(16)
"""u16_at(blocks, b, offset): the little-endian uint16 at a byte offset of block `b`."""

u32_at = _little_endian(32)
"""u32_at(blocks, b, offset): the little-endian uint32 at a byte offset of block `b`."""


@inlined
def half_at(blocks: Any, b: Any, offset: Any) -> Any:
    """Return the half float at a byte offset of block `b`, widened to float32."""
    return float32_of_half(u16_at(blocks, b, offset))


@intrinsic  # type: ignore[untyped-decorator]
def _half_of_float32_native(_context: Any, _value: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.fptrunc(arguments[0], ir.HalfType()), ir.IntType(16))

    return types.uint16(types.float32), generate


@inlined
def _half_of_float32_portable(value: Any) -> Any:
    bits = bits_of_float32(value)
    magnitude = bits & u32(0x7FFFFFFF)
    if magnitude > u32(0x7F800000):  # NaN: a quiet one, with the upper bits of its payload
        half = u32(0x7E00) | ((magnitude >> u32(13)) & u32(0x3FF))
    elif magnitude >= u32(0x477FF000):  # 65520, where the next number up would be 65536
        half = u32(0x7C00)
    elif magnitude < u32(0x38800000):  # below 2^-14: in steps of 2^-24, by an addition that rounds
        half = bits_of_float32(float32_of_bits(magnitude) * f32(2.0**24) + f32(2.0**23))
        half -= u32(0x4B000000)
    else:
        even = (magnitude >> u32(13)) & u32(1)
        half = (magnitude - u32(0x38000000) + u32(0xFFF) + even) >> u32(13)
    return u16(half | ((bits >> u32(16)) & u32(0x8000)))


half_of_float32 = _half_of_float32_native if _converts_halves() else _half_of_float32_portable
"""Return the bits of the IEEE half float nearest to a float32, as a uint16; ties to even."""


@inlined
def set_u16(blocks: Any, b: Any, offset: Any, number: Any) -> None:
    """Store a uint16 at a byte offset of block `b`, little-endian."""
    blocks[b, offset] = u8(number & u16(255))
    blocks[b, offset + 1] = u8(number >> u16(8))


@inlined
def set_half(blocks: Any, b: Any, offset: Any, value: Any) -> Any:
    """Store a float32 as a half float, and return what was stored."""
    half = half_of_float32(value)
    set_u16(blocks, b, offset, half)
    return float32_of_half(half)
