"""Names of numbers that GGUF metadata uses as enumerations.

The numbers are those of docs/gguf.md sections 6 and 9 (llama.cpp, include/llama.h: `llama_ftype`,
`llama_token_attr`'s older sibling `llama_token_type`, `llama_pooling_type`; src/llama-hparams.h:
`llama_expert_gating_func_type`). A number that is not in a table is shown as it is: new ones appear
in files before they appear here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

FILE_TYPE_KEY: Final = "general.file_type"
TOKEN_TYPE_KEY: Final = "tokenizer.ggml.token_type"

_GUESSED: Final = 1024  # LLAMA_FTYPE_GUESSED: the loader inferred the type, the file did not say it

FILE_TYPES: Final[Mapping[int, str]] = MappingProxyType(
    {
        0: "F32",
        1: "F16",
        2: "Q4_0",
        3: "Q4_1",
        4: "removed (Q4_1, some F16)",
        5: "removed (Q4_2)",
        6: "removed (Q4_3)",
        7: "Q8_0",
        8: "Q5_0",
        9: "Q5_1",
        10: "Q2_K",
        11: "Q3_K_S",
        12: "Q3_K_M",
        13: "Q3_K_L",
        14: "Q4_K_S",
        15: "Q4_K_M",
        16: "Q5_K_S",
        17: "Q5_K_M",
        18: "Q6_K",
        19: "IQ2_XXS",
        20: "IQ2_XS",
        21: "Q2_K_S",
        22: "IQ3_XS",
        23: "IQ3_XXS",
        24: "IQ1_S",
        25: "IQ4_NL",
        26: "IQ3_S",
        27: "IQ3_M",
        28: "IQ2_S",
        29: "IQ2_M",
        30: "IQ4_XS",
        31: "IQ1_M",
        32: "BF16",
        33: "removed (Q4_0_4_4)",
        34: "removed (Q4_0_4_8)",
        35: "removed (Q4_0_8_8)",
        36: "TQ1_0",
        37: "TQ2_0",
        38: "MXFP4_MOE",
        39: "NVFP4",
        40: "Q1_0",
        41: "Q2_0",
    }
)
"""`general.file_type`: what most tensors are. Not the ids of the tensor types."""

TOKEN_TYPES: Final[Mapping[int, str]] = MappingProxyType(
    {
        0: "undefined",
        1: "normal",
        2: "unknown",
        3: "control",
        4: "user-defined",
        5: "unused",
        6: "byte",
    }
)
"""Elements of `tokenizer.ggml.token_type`."""

POOLING_TYPES: Final[Mapping[int, str]] = MappingProxyType(
    {0: "none", 1: "mean", 2: "cls", 3: "last", 4: "rank"}
)
"""`{arch}.pooling_type`."""

GATING_FUNCTIONS: Final[Mapping[int, str]] = MappingProxyType({1: "softmax", 2: "sigmoid"})
"""`{arch}.expert_gating_func`."""


def enum_name(key: str, value: object) -> str | None:
    """Return the name of an enumerated value.

    Args:
        key: The metadata key, with its architecture's prefix.
        value: The key's value, or an element of it where it is an array.

    Returns:
        The name; the number as text where it has none; None where the key is no enumeration or the
        value no integer.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    if key == FILE_TYPE_KEY:
        return _file_type_name(value)
    if key == TOKEN_TYPE_KEY:
        table = TOKEN_TYPES
    elif key.endswith(".pooling_type"):
        table = POOLING_TYPES
    elif key.endswith(".expert_gating_func"):
        table = GATING_FUNCTIONS
    else:
        return None
    return table.get(value) or str(value)


def _file_type_name(value: int) -> str:
    name = FILE_TYPES.get(value)
    if name is None and value >= 0 and value & _GUESSED:
        base = value & ~_GUESSED
        return f"{FILE_TYPES.get(base, base)} (guessed)"
    return name or str(value)
