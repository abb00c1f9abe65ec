"""How kernels are compiled, and the few bit-level operations that Numba lacks.

Only kernel modules import this one, because importing Numba takes a fifth of a second. There is no
``fastmath``: it lets the compiler fuse a multiplication and an addition, which changes bits.

How to write a kernel that becomes vector instructions: give the innermost loop a constant length
that is a multiple of 8, and let it count from 0 (a sum that may be negative is tested at each
index); let it read and write consecutive elements; turn a code into a float by ``f32(i32(code))``,
for Numba widens integers to 64 bits, and half as many of those fit into a register; add a high bit
to a code by a test (``if byte & bit: code += 16``), which is one masked instruction; write
``n = i32(n + i32(test))``, not ``n += i32(test)``, which Numba adds in 64 bits.
"""

from __future__ import annotations

import contextlib
import pickle
import platform
import sys
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final, TypeVar

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils, event
from numba.core.caching import FunctionCache
from numba.core.compiler import Compiler, CompileResult
from numba.core.serialize import dumps
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from explorer.parallel import collector_paused
from explorer.private_folder import PrivateFolder
from explorer.quantization.kernel_cache import (
    MAX_BYTES,
    SUFFIX,
    choose_kernel_folder,
    count_compilation,
    source_digest,
)

Function = TypeVar("Function", bound=Callable[..., Any])

f32 = numba.float32
i8 = numba.int8
i32 = numba.int32
u8 = numba.uint8
u16 = numba.uint16
u32 = numba.uint32
u64 = numba.uint64

_FOLDER: Final = choose_kernel_folder()
_SOURCES: Final = source_digest()

# Without this, LLVM replaces a loop of 16 or 32 rounds by as many copies of its body before it
# looks for loops to vectorize, and finds none: Q8_0 then decodes at 2.2 instead of 7.8 G weights/s.
# It holds for all code that Numba compiles in this process, which is ours. LLVM ends the process at
# an option that it does not know, so only versions that were tried get it (14: Numba 0.60).
_TRIED_LLVM: Final = range(14, 23)
if llvm.llvm_version_info[0] in _TRIED_LLVM:
    llvm.set_option("explorer", "-unroll-full-max-count=4")


class _Compilations(event.Listener):  # type: ignore[misc]
    """Counts compilations, so that the window can say why it waits; loading from disk is none.

    Python's collector of cycles would take a twelfth of their time.
    """

    def __init__(self) -> None:
        self._pauses: list[contextlib.AbstractContextManager[None]] = []

    def on_start(self, _event: Any) -> None:
        count_compilation(1)
        pause = collector_paused()
        pause.__enter__()
        self._pauses.append(pause)

    def on_end(self, _event: Any) -> None:
        self._pauses.pop().__exit__(None, None, None)
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
    if _FOLDER is not None:
        compiled._cache = _KernelCache(function, _FOLDER)
    kept: Function = compiled
    return kept


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """Machine code in files that are named by all that it depends on, the types of arrays included.

    A cache that fails costs time and nothing else: a full disk, a folder that became read-only or
    was removed, a file that is damaged.
    """

    def __init__(self, function: Any, folder: PrivateFolder) -> None:
        # not Numba's own, which would look for a folder that nobody guards
        self._py_func = function
        self._folder = folder

    @property
    def cache_path(self) -> str:
        """The folder, for Numba's statistics."""
        return str(self._folder.path)

    def flush(self) -> None:
        """Keep what is there: its name says what it is for."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was kept, or None; see `numba.core.caching`."""
        target_context.refresh()
        try:
            content = self._folder.read(self._file_name(sig, target_context.codegen()), MAX_BYTES)
            if content is None:
                return None
            loaded = CompileResult._rebuild(target_context, *pickle.loads(content))
        except (OSError, *_DAMAGED):
            return None
        # what a kernel that calls it would need: none does, and it is half of what a kernel takes
        loaded.library._shared_module = None
        return loaded

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, if that can be."""
        if not data.library.has_dynamic_globals:  # addresses of this process
            with contextlib.suppress(OSError):
                self._folder.write(self._file_name(sig, data.codegen), dumps(data._reduce()))

    def _file_name(self, sig: Any, codegen: Any) -> str:
        key = (numba.__version__, sys.version_info, _SOURCES, sig, codegen.magic_tuple())
        digest = blake2b(repr(key).encode(), digest_size=16).hexdigest()
        function = self._py_func
        name = f"{function.__module__}.{function.__qualname__}".translate(_NOT_IN_NAMES)
        return f"{name}-{digest}{SUFFIX}"


# Of all decoders, whatever the arrays are made of that the program gives them.
_BLOCKS: Final = types.Array(types.uint8, 2, "C", readonly=True)
_WEIGHTS: Final = types.Array(types.float32, 2, "C")


def address_of(decoder: Any) -> int | None:
    """Return where a decoder's machine code lies, for `decode_piece`; None if it is no kernel."""
    if not hasattr(decoder, "get_compile_result"):
        return None
    decoder.compile((_BLOCKS, _WEIGHTS))
    compiled = decoder.overloads[_BLOCKS, _WEIGHTS]
    address: int = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    return address


_NOT_IN_NAMES: Final = str.maketrans("", "", "<>")  # of files on Windows

# Raised by reading a pickle that another program has made ("The Python Library", pickle)
_DAMAGED: Final = (
    *(pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError),
    *(KeyError, TypeError, ValueError),
)

_OPTIONS: Final = {
    "nogil": True,
    # Kernels make no arrays; with references counted IQ4_K decodes at 0.6, not 2.5 G weights/s.
    "_nrt": False,
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
def count_up(few: Any, many: Any, place: Any) -> None:
    """Count one more at a place: in `few`, uint16, which stays in the cache; rarely in `many`."""
    more = u16(few[place] + u16(1))
    few[place] = more
    if more == 0:
        many[place] += 1 << 16


@inlined
def half_at(blocks: Any, b: Any, offset: Any) -> Any:
    """Return the half float at a byte offset of block `b`, widened to float32."""
    return float32_of_half(u16_at(blocks, b, offset))


@intrinsic  # type: ignore[untyped-decorator]
def decode_piece(_context: Any, coded: Any, _start: Any, _count: Any, piece: Any) -> Any:
    """Decode weights into `piece`, a float32 array of any shape; they are whole blocks.

    The decoder is called by its address, so that one kernel serves the blocks of all types and
    they are decoded where they are looked at, in the first-level cache.

    Args:
        coded: `formats.weights.Coded`.
        start: The first weight.
        count: Number of weights.
        piece: What is filled from its beginning.
    """

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        run, start, count, out = arguments
        decode, unit, stored = (builder.extract_value(run, i) for i in range(3))
        source = context.make_array(coded.types[2])(context, builder, stored)
        target = context.make_array(piece)(context, builder, out)
        width = cgutils.unpack_tuple(builder, source.shape, 2)[1]
        first, blocks = builder.udiv(start, unit), builder.udiv(count, unit)
        at = builder.gep(source.data, [builder.mul(first, width)])
        is_float = builder.icmp_unsigned("==", decode, decode.type(0))
        with builder.if_else(is_float) as (copy, call):
            with copy:
                cgutils.raw_memcpy(builder, target.data, at, count, 4)
            with call:
                given = []
                for kind, data, inner, size in (
                    (_BLOCKS, at, width, 1),
                    (_WEIGHTS, target.data, unit, 4),
                ):
                    array = context.make_array(kind)(context, builder)
                    item = context.get_constant(types.intp, size)
                    strides = (builder.mul(inner, item), item)
                    populate_array(array, data, (blocks, inner), strides, item, None)
                    given.append(array._getvalue())
                convention = context.call_conv
                kinds = (_BLOCKS, _WEIGHTS)
                function = convention.get_function_type(types.none, kinds).as_pointer()
                convention.call_function(
                    builder, builder.inttoptr(decode, function), types.none, kinds, given
                )
        return context.get_dummy_value()

    return types.none(coded, types.intp, types.intp, piece), generate


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
