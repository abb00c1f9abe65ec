"""Which state of llama.cpp's rules the recipes follow, and what was different before.

Read in src/llama-quant.cpp (`tensor_get_category`, `tensor_allows_quantization`,
`llama_tensor_get_type_impl`, `tensor_type_fallback`, `llama_ftype_get_default_type`) of
github.com/ggml-org/llama.cpp at the commit below, and for the state before pull request 19770
(spring of 2026) in `llama_tensor_get_type` of a fork of early 2025, github.com/Cipherxzc/vlut.cpp
at 12e8a6dbdbd7. Most files that people have downloaded were made by the earlier rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

RULES_COMMIT: Final = "007dbbf3fd17eefe9b47fee45f48f7ba5e62b714"

RULES_SOURCE: Final = (
    f"llama.cpp, src/llama-quant.cpp at commit {RULES_COMMIT[:12]} (2026), and as it was before "
    "pull request 19770 (2024 to spring 2026). The rules change over time, and other programs have "
    "their own."
)
"""Where the rules come from, for people; to be said wherever their figures are shown."""

_SHORT_ROWS: Final = {
    **dict.fromkeys(("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S"), "IQ4_NL"),
    **dict.fromkeys(("IQ3_XXS", "IQ3_S", "IQ4_XS"), "IQ4_NL"),
    **dict.fromkeys(("TQ1_0", "TQ2_0"), "Q4_0"),
    "Q4_K": "Q5_0",
    "Q5_K": "Q5_1",
    "Q6_K": "Q8_0",
}


@dataclass(frozen=True, slots=True)
class Revision:
    """One state of the rules.

    Attributes:
        name: What to call it in a sentence.
        fused_as_value: Whether fused q, k and v, and MLA's fused k and v (`attn_kv_b`), are treated
            as `attn_v` is. Both states count them among the value tensors.
        per_layer_embedding: Whether `per_layer_token_embd` is treated as `token_embd` is.
        fallbacks: What takes the place of a type whose blocks do not divide a row.
    """

    name: str
    fused_as_value: bool
    per_layer_embedding: bool
    fallbacks: Mapping[str, str]


CURRENT: Final = Revision(
    name="2026",
    fused_as_value=True,
    per_layer_embedding=True,
    fallbacks=MappingProxyType({**_SHORT_ROWS, "Q2_K": "Q4_0", "Q3_K": "Q4_0", "Q2_0": "Q4_0"}),
)
"""The rules at `RULES_COMMIT`."""

EARLIER: Final = Revision(
    name="before spring 2026",
    fused_as_value=False,
    per_layer_embedding=False,
    fallbacks=MappingProxyType({**_SHORT_ROWS, "Q2_K": "IQ4_NL", "Q3_K": "IQ4_NL"}),
)
"""The rules before pull request 19770."""
