"""Weights rounded to another type and back, in memory."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from math import prod
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from explorer.errors import ExplorerError
from explorer.formats.tensors import Folding, Shape
from explorer.formats.weights import Values
from explorer.quantization import TENSOR_TYPES, TensorType, dequantize, quantize
from explorer.quantization.grouped.layout import AFFINE_GROUPS, AFFINE_SCALES, GroupedLayout, Mode
from explorer.quantization.huggingface.schemes import SCHEME_NAMES, Scheme, scheme
from explorer.quantization.registry import (
    WITHOUT_ENCODER,
    WITHOUT_IMPORTANCE,
    block_layout,
    has_block_layout,
    has_encoder,
)

_AFFINE: Final = {"int4": 4, "int8": 8, "affine2": 2, "affine3": 3, "affine5": 5, "affine6": 6}
_FLOATS: Final = {"nvfp4": (Mode.NVFP4, 4, 16), "mxfp4": (Mode.MXFP4, 4, 32)}
_FIXED: Final = {**_FLOATS, "mxfp8": (Mode.MXFP8, 8, 32)}
_LONGEST_ROW: Final = 1 << 24  # rows that have a scale are read whole
_USUAL_GROUP: Final = 64  # of int4 and int8: docs/safetensors_and_blobs.md section 3


class FloatBuffer:
    """A float32 array that grows, for results that the next ones overwrite."""

    def __init__(self) -> None:
        self._values: Values = np.empty(0, np.float32)

    def of(self, count: int) -> Values:
        """Return float32 [count], not initialized."""
        if self._values.size < count:
            self._values = np.empty(count, np.float32)
        return self._values[:count]


class Rounder(Protocol):
    """Rounds whole blocks to a type and back. Owns buffers: for one thread.

    Attributes:
        levels: float32 [codes]: the value of each code before scaling; None if it has no codes.
        scheme: The method of Hugging Face models that it rounds to; None for all else.
    """

    levels: NDArray[np.float32] | None
    scheme: Scheme | None

    def edges(self, start: int, stop: int) -> tuple[int, int]:
        """Return the first and the stop of the blocks that hold a run of weights."""

    def round(self, values: Values, importance: Values | None, first: int = 0) -> Values:
        """Return rounded weights, float32 [n]; overwritten by the next call.

        Args:
            values: float32 [n], whole blocks of the type; whole rows if there is importance.
            importance: float32 [columns], not negative; None if all columns count alike.
            first: Flat index of the first of them in the tensor.
        """

    def codes(self) -> NDArray[np.uint8]:
        """Return the codes of the weights rounded last, uint8 of any shape."""


def rounder(
    type_name: str, scale_type: str = "BF16", shape: Shape = (), whole: Any = None
) -> Rounder:
    """Return a rounder to a type.

    Args:
        type_name: A tensor type of GGUF (``"Q4_K"``, in any case); a quantization of Ollama's
            and MLX's files: ``"int4"``, ``"mxfp8"`` …, affine ones with a group size if it is not
            64 (``"int4/32"``); or one of Hugging Face models (``"w4a16/128"``, ``"nf4"``), see
            `quantization.huggingface.schemes`. Where only the case differs, GGUF's are in capitals.
        scale_type: Type of the scales and biases of affine quantizations.
        shape: Of the tensor, which `shape_problem` has nothing against.
        whole: What `whole_finder` found of all its weights; None without a scheme.

    Raises:
        ExplorerError: The type is not known, or weights cannot be rounded to it.
    """
    wanted = _wanted(type_name, scale_type)
    if isinstance(wanted, Scheme):
        return _SchemeRounder(wanted, shape, whole)
    return _BlockRounder(wanted, shape) if isinstance(wanted, str) else _GroupRounder(wanted)


def rounded_type(type_name: str, scale_type: str = "BF16", shape: Shape = ()) -> TensorType:
    """Return the type that `rounder` rounds to, without loading its kernels; see there.

    Of a method of Hugging Face models it is a type for this shape alone, all companions included.
    """
    wanted = _wanted(type_name, scale_type)
    if isinstance(wanted, Scheme):
        return wanted.type_of(shape)
    return TENSOR_TYPES[wanted] if isinstance(wanted, str) else wanted.type


def shape_problem(type_name: str, shape: Shape) -> str | None:
    """Return why weights of a shape cannot have a type; None if they can."""
    wanted = _wanted(type_name, "BF16")
    if isinstance(wanted, Scheme):
        return wanted.problem(shape)
    kind = TENSOR_TYPES[wanted] if isinstance(wanted, str) else wanted.type
    columns = Folding(shape).columns
    if kind.row_header and columns > _LONGEST_ROW:
        return f"a row of {columns:,} weights is too long for a type with a scale of the row"
    return Folding(shape).block_problem(kind)


def scheme_of(type_name: str) -> Scheme | None:
    """Return the method of Hugging Face models that a type is; None of all other types."""
    wanted = _wanted(type_name, "BF16")
    return wanted if isinstance(wanted, Scheme) else None


def whole_finder(wanted: Scheme, shape: Shape) -> Any:
    """Return an `encode.RunningWhole`, which finds what must be known of all weights."""
    return _encoders().RunningWhole(wanted, shape)


@cache
def _encoders() -> Any:
    """Return the module that rounds to methods of Hugging Face models; it loads Numba."""
    return import_module("explorer.quantization.huggingface.encode")


def _wanted(type_name: str, scale_type: str) -> str | GroupedLayout | Scheme:
    """Return the name of a type of GGUF, the layout of groups, or a method of Hugging Face."""
    base, _, group = type_name.partition("/")
    if base in _AFFINE or base in _FIXED:
        return _layout(type_name, base, group, scale_type)
    try:
        found = scheme(type_name)
    except ValueError as error:
        raise ExplorerError(str(error)) from None
    if found is not None:
        return found
    name = type_name.upper()
    if has_encoder(name):
        return name
    if name in WITHOUT_ENCODER:
        raise ExplorerError(f"weights cannot be rounded to type {name}: {WITHOUT_ENCODER[name]}")
    known = ", ".join(rounding_types())
    raise ExplorerError(f"unknown type {type_name!r}. Known are {known}")


def rounding_types(*, weighed: bool = True) -> tuple[str, ...]:
    """Return the names of all types that weights can be rounded to, GGUF's first.

    Args:
        weighed: Whether there is importance; without, some types cannot be made.
    """
    blocks = [
        name
        for name in TENSOR_TYPES
        if has_encoder(name) and name != "F32" and rounding_problem(name, weighed=weighed) is None
    ]
    return (*blocks, *_AFFINE, *_FIXED, *SCHEME_NAMES)


def rounding_problem(type_name: str, *, weighed: bool) -> str | None:
    """Return why weights cannot have a known type with or without importance; None if they can."""
    return None if weighed else WITHOUT_IMPORTANCE.get(type_name.upper())


def _layout(type_name: str, base: str, group: str, scale_type: str) -> GroupedLayout:
    if base in _FIXED:
        if group:
            raise ExplorerError(f"{type_name!r}: groups of {base} have a fixed size")
        return GroupedLayout(*_FIXED[base], "U8")
    size = int(group) if group.isdecimal() and len(group) < 6 else _USUAL_GROUP
    if "/" in type_name and (not group.isdecimal() or size not in AFFINE_GROUPS):
        sizes = ", ".join(map(str, AFFINE_GROUPS))
        raise ExplorerError(f"{type_name!r}: group sizes are {sizes}")
    scales = scale_type if scale_type in AFFINE_SCALES else "BF16"
    return GroupedLayout(Mode.AFFINE, _AFFINE[base], size, scales, scales)


def _block_edges(start: int, stop: int, size: int) -> tuple[int, int]:
    return start // size * size, -(-stop // size) * size


class _BlockRounder:
    """Rounds to a tensor type of GGUF; see `Rounder`."""

    scheme: Scheme | None = None

    def __init__(self, name: str, shape: Shape) -> None:
        self.type = TENSOR_TYPES[name]
        # what has a scale together: a block, or a row
        self._unit = shape[-1] if self.type.row_header and shape else self.type.block_weights
        self._layout: Any = block_layout(name) if has_block_layout(name) else None
        self.levels = None if self._layout is None else self._layout.levels
        self._raw: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._buffer = FloatBuffer()

    def edges(self, start: int, stop: int) -> tuple[int, int]:
        return _block_edges(start, stop, self._unit)

    def round(self, values: Values, importance: Values | None, first: int = 0) -> Values:
        self._raw = quantize(values.reshape(-1, self._unit), self.type.name, importance)
        return dequantize(self._raw, self.type.name, self._buffer.of(values.size))

    def codes(self) -> NDArray[np.uint8]:
        blocks = self._raw.reshape(-1, self.type.whole_bytes)
        codes = np.empty((len(blocks), self.type.block_weights), np.uint8)
        self._layout.unpack_codes(blocks, codes)
        return codes


class _LineRounder:
    """Rounds to codes with companions; see `Rounder`. Importance changes nothing."""

    scheme: Scheme | None = None

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder
        self.levels: NDArray[np.float32] | None = encoder.levels
        self._buffer = FloatBuffer()

    def round(self, values: Values, importance: Values | None, first: int = 0) -> Values:
        out = self._buffer.of(values.size)
        self._encoder.round(values, first, out)
        return out

    def codes(self) -> NDArray[np.uint8]:
        codes: NDArray[np.uint8] = self._encoder.codes()
        return codes


class _GroupRounder(_LineRounder):
    """Rounds to groups with scales of their own."""

    def __init__(self, layout: GroupedLayout) -> None:
        module = import_module("explorer.quantization.grouped.encode")  # loads Numba
        super().__init__(module.GroupRounder(layout))
        self._size = layout.group_size

    def edges(self, start: int, stop: int) -> tuple[int, int]:
        return _block_edges(start, stop, self._size)


class _SchemeRounder(_LineRounder):
    """Rounds to a method of Hugging Face models."""

    def __init__(self, wanted: Scheme, shape: Shape, whole: Any) -> None:
        super().__init__(_encoders().SchemeRounder(wanted, shape, whole))
        self.scheme = wanted
        self._unit = wanted.unit(shape)
        # tiles begin anew with each matrix
        self._part = prod(shape[-2:]) if wanted.rows != 1 else prod(shape)

    def edges(self, start: int, stop: int) -> tuple[int, int]:
        before, after = start // self._part * self._part, (stop - 1) // self._part * self._part
        first, _ = _block_edges(start - before, start - before + 1, self._unit)
        _, last = _block_edges(0, stop - after, self._unit)
        return before + first, after + min(last, self._part)
