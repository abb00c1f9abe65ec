"""One entry of a safetensors header: type, shape and place, and the rules that it keeps by itself.

safetensors_and_blobs.md section 1, rules 6, 8 and 9; safetensors/src/tensor.rs, `Dtype`,
`TensorInfo` and `Metadata::validate`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from explorer.formats.bounded_json import RepeatedKeys, shorten
from explorer.quantization import TENSOR_TYPES, TensorType

METADATA: Final = "__metadata__"
_FIELDS: Final = ("dtype", "shape", "data_offsets")
U64: Final = 1 << 64

SAFETENSORS_TYPES: Final = {name: kind for name, kind in TENSOR_TYPES.items() if not kind.quantized}
"""The 22 types of the format, by name."""


class Spec(NamedTuple):
    """What a type and a shape amount to; tensors that agree in both share one.

    Attributes:
        type: The tensor type.
        shape: Row-major, outermost first.
        parameters: Product of the shape.
        nbytes: Stored bytes; 0 if there is a fault.
        fault: Why the official library refuses such a tensor, or None.
    """

    type: TensorType
    shape: tuple[int, ...]
    parameters: int
    nbytes: int
    fault: str | None = None


@dataclass
class Header:
    """What one file's header says; of a name that occurs twice, the last, as the library does.

    Attributes:
        data_offset: First byte of the data region.
        metadata: The strings of `__metadata__`.
        names: Tensor names, in header order.
        specs: Type and shape of each.
        begins: First byte of each in the data region, below 2^64.
        ends: First byte behind each, below 2^64; nothing says yet that it is not before the first.
        repeated: Names that occur more than once.
        repeated_metadata: Keys of `__metadata__` that do.
    """

    data_offset: int
    metadata: dict[str, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    specs: list[Spec] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    repeated_metadata: tuple[str, ...] = ()

    def reorder(self, rows: list[int]) -> None:
        """Keep only the rows given, in that order."""
        self.names = list(map(self.names.__getitem__, rows))
        self.specs = list(map(self.specs.__getitem__, rows))
        self.begins = list(map(self.begins.__getitem__, rows))
        self.ends = list(map(self.ends.__getitem__, rows))


def read_fields(value: Any) -> tuple[Any, Any, Any]:
    """Return dtype, shape and data_offsets; serde takes an array of the three for an object too.

    Raises:
        ValueError: It is neither, or a field is missing or there twice.
    """
    if isinstance(value, list) and len(value) == 3:
        return value[0], value[1], value[2]
    if not isinstance(value, dict):
        raise ValueError("its entry is not an object")  # noqa: TRY004 - becomes a FormatError
    for key in _FIELDS:
        if key not in value:
            raise ValueError(f"its entry has no {key}")
        if isinstance(value, RepeatedKeys) and key in value.repeated:
            raise ValueError(f"its entry has {key} twice")
    return value["dtype"], value["shape"], value["data_offsets"]


def read_dtype(value: Any) -> str:
    """Return the name of a type of `SAFETENSORS_TYPES`.

    Raises:
        ValueError: It is none.
    """
    if type(value) is dict and list(value.values()) == [None]:
        value = next(iter(value))  # serde's other way to write an enum's variant
    if not isinstance(value, str) or value not in SAFETENSORS_TYPES:
        raise ValueError(
            f"its dtype {shorten(value)} is unknown"
            if isinstance(value, str)
            else "its dtype is not a text"
        )
    return value


def read_integers(value: Any, key: str, length: int | None = None) -> list[int]:
    """Return a list of integers from 0 to 2^64 - 1, as a shape and offsets are.

    Args:
        value: What the header holds.
        key: The field, for the message.
        length: How many there must be; None for any number.

    Raises:
        ValueError: It is anything else.
    """
    if isinstance(value, list) and (length is None or len(value) == length):
        for number in value:
            if type(number) is not int or not 0 <= number < U64:
                break
        else:
            return value
    raise ValueError(f"its {key} is not {length or 'a list of'} integers from 0 to 2^64")


def make_spec(dtype: str, shape: tuple[int, ...]) -> Spec:
    """Multiply the shape as the library does: the running product must fit, even before a 0."""
    kind = SAFETENSORS_TYPES[dtype]
    parameters = 1
    for count in shape:
        parameters *= count
        if parameters >= U64:
            break
    if parameters * kind.block_bytes * 8 // kind.block_weights >= U64:
        return Spec(kind, shape, 0, 0, "its shape overflows 64 bits")
    nbytes = kind.nbytes(parameters)
    if nbytes is None:
        return Spec(
            kind, shape, 0, 0, f"its {parameters} weights of type {dtype} do not fill whole bytes"
        )
    return Spec(kind, shape, parameters, nbytes)
