"""Which module decodes, unpacks and encodes which tensor type; what kernels take and give.

Each family of types has one module that says as rows of `TYPES` how its blocks store codes and
scales (`bits.BitType`), from which `bit_kernels` makes the kernels; plain numbers and FP4 have
kernels of their own. A long encoder has a module beside it. A module is imported when one of its
types is first used: opening and listing a model must not load Numba.

To add a type: a row in `types.py`, one in its family's module, its name in `FAMILIES`; and an
encoder, or in `WITHOUT_ENCODER` a reason for having none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from explorer.errors import ExplorerError
from explorer.quantization.types import GGML_TYPES, Q2_0_OF_PRISM, TENSOR_TYPES, TensorType

# The arrays that kernels take and give, and the check that keeps kernels inside them.


Blocks: TypeAlias = NDArray[np.uint8]
"""Stored blocks: uint8 [blocks, bytes of a block], C-contiguous."""

Weights: TypeAlias = NDArray[np.float32]
"""Decoded weights: float32 [blocks, weights of a block], C-contiguous."""

Element = TypeVar("Element", bound=np.generic)

UINT8: Final = np.dtype(np.uint8)
FLOAT32: Final = np.dtype(np.float32)


class QuantizationError(ExplorerError, ValueError):
    """Blocks or weights that do not fit their tensor type, or a type that has no such kernel."""


def check_array(
    what: str,
    array: NDArray[Any],
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    *,
    filled: bool = False,
) -> None:
    """Check an array that a kernel is to read or to fill, since kernels check nothing.

    Raises:
        QuantizationError: It has another element type or shape, is not contiguous, or is to be
            filled and cannot be written.
    """
    if not (array.shape == shape and array.dtype == dtype and array.flags.c_contiguous):
        order = "" if array.flags.c_contiguous else " strided"
        raise QuantizationError(
            f"{what} must be a contiguous array of {dtype} {list(shape)}, "
            f"not{order} {array.dtype} {list(array.shape)}"
        )
    if filled and not array.flags.writeable:
        raise QuantizationError(f"{what} must be writable")


def read_only(array: NDArray[Element]) -> NDArray[Element]:
    """Return a view that kernels cannot write to: Numba compiles anew for what it could."""
    view = array.view()
    view.flags.writeable = False
    return view


Decoder: TypeAlias = Callable[[Blocks, Weights], None]
"""decode(blocks: uint8 [n, whole_bytes], out: float32 [n, block_weights]) fills `out`.

Both C-contiguous and apart in memory; `out` writable.
"""

FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    "plain": (
        *("F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64"),
        *("BOOL", "U8", "U16", "U32", "U64"),
        *("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"),
        *("F6_E2M3", "F6_E3M2", "F4"),
    ),
    "legacy": ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q1_0", "Q2_0"),
    "k_quants": ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K"),
    "iq": ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"),
    "iq4": ("IQ4_NL", "IQ4_XS"),
    "ternary": ("TQ1_0", "TQ2_0"),
    "microscaling": ("MXFP4", "NVFP4"),
    "ik": (
        *("IQ2_K", "IQ3_K", "IQ4_K", "IQ5_K", "IQ6_K"),
        *("IQ2_KS", "IQ3_KS", "IQ4_KS", "IQ4_KSS", "IQ5_KS", "IQ2_KL"),
        *("IQ1_KT", "IQ2_KT", "IQ3_KT", "IQ4_KT"),
        *("Q6_0", "Q8_KV", "IQ1_BN", "IQ2_BN", "I2_S", "MXFP4 (old)"),
        *("Q4_0_R8", "Q5_0_R4", "Q6_0_R4", "Q8_0_R8", "IQ4_NL_R4", "MXFP4_R8"),
        *("Q2_K_R4", "Q3_K_R4", "Q4_K_R4", "Q5_K_R4", "Q6_K_R4", "IQ4_XS_R8"),
        *("IQ2_K_R4", "IQ3_K_R4", "IQ4_K_R4", "IQ5_K_R4", "IQ4_KS_R4", "IQ5_KS_R4"),
        *("IQ2_BN_R4", "Q8_KV_R8", "Q8_K_R8", "Q8_K_R16", "BF16_R16"),
        *("IQ2_XXS_R4", "IQ2_XS_R4", "IQ2_S_R4", "IQ3_XXS_R4", "IQ3_S_R4"),
        *("IQ1_S_R4", "IQ1_M_R4"),
    ),
}
_OF_IK: Final = (*("IQ2_K", "IQ3_K", "IQ4_K", "IQ5_K", "IQ6_K"), *("IQ3_KS", "IQ4_KS", "IQ5_KS"))
"""Types of ik_llama.cpp that weights can be rounded to."""
_FAMILY_OF: Final = {name: module for module, names in FAMILIES.items() for name in names}
_ENCODER_MODULES: Final = {
    **dict.fromkeys(FAMILIES["k_quants"], "k_quants_encode"),
    **dict.fromkeys(FAMILIES["iq"], "iq_encode"),
    **dict.fromkeys(("IQ1_S", "IQ1_M"), "iq1_encode"),
    **dict.fromkeys(_OF_IK, "ik_encode"),
}
"""Of types whose encoder is not in the module of their family."""

_AT_RUN_TIME: Final = "ggml makes it of activations while a model runs; no file has it"
_OF_PRISM: Final = "how PrismML's fork packs it was not verified"
_REPACKED: Final = "its rows are Q4_0's or IQ4_NL's in an order that no program writes any more"

WITHOUT_DECODER: Final[Mapping[str, str]] = MappingProxyType(
    {"C64": "complex numbers have no order, so no histogram"}
    | {
        kind.name: _REPACKED if kind.name.startswith("removed") else _AT_RUN_TIME
        for kind in GGML_TYPES.values()
        if kind.known and kind.name not in _FAMILY_OF
    }
    | dict.fromkeys(("PQ2_0", "PTQ1_0", Q2_0_OF_PRISM.name), _OF_PRISM)
)
"""Types whose size is known and that are not decoded, with the reason."""


def has_decoder(type_name: str) -> bool:
    """Return whether weights of that type can be decoded; loads nothing."""
    return type_name in _FAMILY_OF


def family(type_name: str) -> str:
    """Return the name of the module that decodes a tensor type, which names its family.

    Raises:
        KeyError: There is none; see `has_decoder`.
    """
    return _FAMILY_OF[type_name]


def _module(name: str) -> Any:
    return import_module(f"explorer.quantization.{name}")


def _row(type_name: str) -> Any:
    """Return the `bits.BitType` of a tensor type; None if it has kernels of its own."""
    return getattr(_module(family(type_name)), "TYPES", {}).get(type_name)


@cache
def decoder_kernel(type_name: str) -> Any:
    """Return a decoder that checks nothing; it is compiled when it is first called."""
    row = _row(type_name)
    if row is not None:
        return _module("bit_kernels").decoder_of(type_name, row)
    return _module(family(type_name)).DECODERS[type_name]


@cache
def decoder(type_name: str) -> Decoder:
    """Return the decoder of a tensor type, importing its family on first use.

    It raises `QuantizationError` for arrays of other shapes or elements, at less than a microsecond
    a call; that they are apart in memory is the caller's promise.

    Raises:
        KeyError: There is none; see `has_decoder`.
    """
    kernel, kind = decoder_kernel(type_name), TENSOR_TYPES[type_name]

    def decode(blocks: Blocks, out: Weights) -> None:
        count = len(blocks)
        check_array("blocks", blocks, UINT8, (count, kind.whole_bytes))
        check_array("out", out, FLOAT32, (count, kind.block_weights), filled=True)
        kernel(read_only(blocks), out)

    return decode


PIECE: Final = 4096
"""Weights that kernels decode at once: 16 KiB, which stay in the first-level cache."""


@cache
def decoder_address(type_name: str) -> int | None:
    """Return where machine code of a decoder lies, which kernels call; see `jit.decode_piece`.

    0 if there is nothing to decode; None where it is no kernel, or blocks do not divide a piece.
    """
    if type_name == "F32":
        return 0
    if PIECE % TENSOR_TYPES[type_name].block_weights:
        return None
    found: int | None = _module("jit").address_of(decoder_kernel(type_name))
    return found


def gather_rows(type_name: str, stored: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    """Take apart the blocks of rows that are stored together, so that each is a whole one.

    Args:
        type_name: A tensor type of which several rows lie together.
        stored: uint8 [bytes]: the headers of the rows, then their blocks by turns.
        out: uint8 [rows, blocks, whole bytes].
    """
    kind = TENSOR_TYPES[type_name]
    size, blocks = kind.rows * kind.block_bytes, out.shape[1]
    headers = kind.rows * kind.row_header
    check_array("stored", stored, UINT8, (headers + blocks * size,))
    check_array("out", out, UINT8, (kind.rows, blocks, kind.whole_bytes), filled=True)
    sizes = np.array([headers, size, kind.row_header])
    places = row_places(type_name)
    _module("bit_kernels").gather_rows(read_only(stored), places, sizes, out)


def row_places(type_name: str) -> NDArray[np.int64]:
    """Return where the bytes of a row's block are among rows that are stored together.

    int64 [rows, whole bytes]: of a header's byte the place among the headers, of a block's byte the
    place among the blocks that lie together.
    """
    found: NDArray[np.int64] = _module(family(type_name)).row_places(type_name)
    return found


# What every encoder is given: weights, their importance, and arrays to work in.


LANES: Final = 8
"""Sub-blocks that are searched side by side, one in each lane of a vector register."""

BLOCK: Final = 256
"""Weights of the longest block."""


class Work(NamedTuple):
    """Arrays that a kernel works in; arguments are known not to overlap.

    Attributes:
        x: float32 [BLOCK]: a block's weights.
        w: float32 [BLOCK]: how much the square error of each counts.
        lanes: float32 [32 * LANES]: figures of the sub-blocks that are searched.
        scratch: float32 [1024]: for what else there is.
        codes: uint8 [BLOCK + 4]: a block's codes.
        sub: float32 [7, 16]: of a block's sub-blocks: scales, minima, sums of weights, what scales
            and minima are rounded to, and what the codes of a scale of 0 are made with.
    """

    x: NDArray[np.float32]
    w: NDArray[np.float32]
    lanes: NDArray[np.float32]
    scratch: NDArray[np.float32]
    codes: NDArray[np.uint8]
    sub: NDArray[np.float32]


def new_work() -> Work:
    """Return arrays to work in, for one call of an encoder."""
    return Work(
        np.zeros(BLOCK, np.float32),
        np.zeros(BLOCK, np.float32),
        np.zeros(32 * LANES, np.float32),
        np.zeros(1024, np.float32),
        np.zeros(BLOCK + 4, np.uint8),
        np.zeros((7, 16), np.float32),
    )


Encode: TypeAlias = Callable[[Any, Any, Any, Work], None]
"""encode(values, importance, blocks, work) fills `blocks`, uint8 [n, whole_bytes].

values: float32 [n, block_weights]. importance: float32 [blocks of a row, block_weights], or None; a
kernel is compiled once for each of the two. All C-contiguous and apart in memory.
"""


# Encoders, and why some types have none.


Encoder: TypeAlias = Callable[[Weights, Weights | None, Blocks], None]
"""encode(values, importance, blocks) fills `blocks`; see `Encode`."""

_WEIGHTED: Final = frozenset(
    {
        *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
        *("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"),
        *("IQ4_NL", "IQ4_XS"),
        *_OF_IK,
    }
)
_NOT_BUILT: Final = "this quantizer of ik_llama.cpp is not rebuilt here"
_NO_SCALE: Final = "it has no scales, so weights would have to be scaled before"

WITHOUT_ENCODER: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("Q8_1", "Q8_K"), _AT_RUN_TIME),
        **{name: _NOT_BUILT for name in FAMILIES["ik"] if name not in _OF_IK},
        **{
            name: _NO_SCALE
            for name, kind in TENSOR_TYPES.items()
            if not kind.quantized and name not in {"F32", "F16", "BF16"}
        },
    }
)
"""Types that weights cannot be rounded to, with the reason."""


def has_encoder(type_name: str) -> bool:
    """Return whether weights can be rounded to that type; loads nothing."""
    return type_name in TENSOR_TYPES and type_name not in WITHOUT_ENCODER


def uses_importance(type_name: str) -> bool:
    """Return whether the importance of weights changes how they are rounded to that type."""
    return type_name in _WEIGHTED


WITHOUT_IMPORTANCE: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(("IQ1_S", "IQ2_XXS", "IQ2_XS"), "ggml makes it only with an importance matrix")
)
"""Types that weights cannot be rounded to without importance, with the reason."""


@cache
def encoder(type_name: str) -> Encoder:
    """Return the encoder of a tensor type, importing its family on first use.

    It raises `QuantizationError` for arrays of other shapes or elements.

    Raises:
        KeyError: There is none; see `has_encoder`.
    """
    if not has_encoder(type_name):
        raise KeyError(type_name)
    module = _ENCODER_MODULES.get(type_name, family(type_name))
    kernel: Encode = _module(module).ENCODERS[type_name]
    kind = TENSOR_TYPES[type_name]

    def encode(values: Weights, importance: Weights | None, blocks: Blocks) -> None:
        count = len(values)
        check_array("values", values, FLOAT32, (count, kind.block_weights))
        check_array("blocks", blocks, UINT8, (count, kind.whole_bytes), filled=True)
        if importance is not None:
            check_array("importance", importance, FLOAT32, (len(importance), kind.block_weights))
            importance = read_only(importance)
        kernel(read_only(values), importance, blocks, new_work())

    return encode


# Layouts: of a row of ``TYPES``, or ``LAYOUTS`` of the family's module, by type names. A test
# checks for all types that codes and scales make the weights that the decoder gives.


Codes: TypeAlias = NDArray[np.uint8]
"""One code for each weight: uint8 [blocks, weights of a block], C-contiguous."""

Scales: TypeAlias = NDArray[np.float32]
"""Effective scales or minima: float32 [blocks, scales of a block], C-contiguous."""

UnpackCodes: TypeAlias = Callable[[Any, Codes], None]
"""unpack_codes(blocks, codes) fills the latter; `blocks` are `Blocks`, or `StoredLines`."""

UnpackScales: TypeAlias = Callable[[Any, Scales, Scales], None]
"""unpack_scales(blocks, scales, minima) fills the last two.

`minima` is left alone, and may be of shape [blocks, 0], where the type has none.
"""


@dataclass(frozen=True, slots=True)
class BlockField:
    """A run of bytes in a block, all of one meaning.

    The fields of a type, in order, cover the block without gap or overlap.

    Attributes:
        name: ggml's name of the field, such as ``"qs"``.
        offset: Its first byte, counted from the block's start.
        nbytes: Its length in bytes.
        dtype: What is stored: ``"f16"``, ``"f32"``, ``"u8"``, ``"i8"``, ``"u16"`` and so on, a
            small float's name such as ``"E8M0"``, or for packed numbers the bits of each, such as
            ``"4-bit codes"``.
        meaning: What it is for, in a few plain words.
    """

    name: str
    offset: int
    nbytes: int
    dtype: str
    meaning: str


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """How a tensor type makes weights from codes: scale * levels[code] - minimum.

    That holds up to float32 rounding (bits are the decoders' promise) and where all scales are
    finite. Scales are effective ones: a super-block's scale times the sub-block's; so are minima.

    Attributes:
        levels: float32 [number of codes], at most 256: the value of each code before scaling.
            A sign bit, or a shift such as IQ1's, belongs to the code and so to the level.
        weights_per_scale: Consecutive weights that share a scale (and a minimum).
        fields: The block's bytes, field by field.
        unpack_codes: Unpacks the codes of blocks.
        unpack_scales: Unpacks their scales and minima: a fraction of the work, and often enough.
        has_minimum: Whether a minimum is subtracted.
    """

    levels: NDArray[np.float32]
    weights_per_scale: int
    fields: tuple[BlockField, ...]
    unpack_codes: UnpackCodes
    unpack_scales: UnpackScales
    has_minimum: bool = False

    def unpack(self, blocks: Any, codes: Codes, scales: Scales, minima: Scales) -> None:
        """Unpack blocks into the last three."""
        self.unpack_codes(blocks, codes)
        self.unpack_scales(blocks, scales, minima)


def integers(low: int, high: int) -> NDArray[np.float32]:
    """Return the levels low, low + 1, … high."""
    return np.arange(low, high + 1, dtype=np.float32)


def has_block_layout(type_name: str) -> bool:
    """Return whether blocks of that type hold codes and scales; loads nothing."""
    kind = TENSOR_TYPES.get(type_name)
    return kind is not None and kind.quantized


@cache
def block_layout(type_name: str) -> BlockLayout:
    """Return the block layout of a quantized tensor type, importing its family on first use.

    Its functions raise `QuantizationError` for arrays of other shapes or elements.

    Raises:
        KeyError: The type is not quantized; see `has_block_layout`.
    """
    if not has_block_layout(type_name):
        raise KeyError(type_name)
    row = _row(type_name)
    if row is not None:
        layout = _module("bit_kernels").layout_of(type_name, row)
    else:
        layout = _module(family(type_name)).LAYOUTS[type_name]
    return _checked(layout, TENSOR_TYPES[type_name])


def _checked(parts: BlockLayout, kind: TensorType) -> BlockLayout:
    """Let a layout's functions check their arguments."""
    scale_count = kind.block_weights // parts.weights_per_scale

    def unpack_codes(blocks: Blocks, codes: Codes) -> None:
        check_array("blocks", blocks, UINT8, (len(blocks), kind.whole_bytes))
        check_array("codes", codes, UINT8, (len(blocks), kind.block_weights), filled=True)
        parts.unpack_codes(read_only(blocks), codes)

    def unpack_scales(blocks: Blocks, scales: Scales, minima: Scales) -> None:
        check_array("blocks", blocks, UINT8, (len(blocks), kind.whole_bytes))
        check_array("scales", scales, FLOAT32, (len(blocks), scale_count), filled=True)
        if parts.has_minimum:
            check_array("minima", minima, FLOAT32, (len(blocks), scale_count), filled=True)
        parts.unpack_scales(read_only(blocks), scales, minima)

    return replace(parts, unpack_codes=unpack_codes, unpack_scales=unpack_scales)
