"""Files that belong to a model and are none: whether a header is that of an adapter, an importance
matrix or another component. Their names alone tell.

`analysis/adapters.py` and `analysis/importance.py` read what they hold.
"""

from __future__ import annotations

import re
from typing import Final

from explorer.formats.model import Model

SUMS: Final = ".in_sum2"
"""What names of an importance matrix end in (llama.cpp, tools/imatrix/imatrix.cpp)."""

_PEFT_PART: Final = re.compile(
    r"\.(?P<part>lora_(?:embedding_)?[AB])(?:\.[^.]{1,200})?(?:\.weight)?\Z"
)
_OWN_ENDS: Final = {
    **{".lora_a": 0, ".lora_b": 1},  # of GGUF and mlx-lm
    **{".lora_down.weight": 0, ".lora_up.weight": 1, ".lora_mid.weight": 2},  # of kohya's
    **{"_lora.down.weight": 0, "_lora.up.weight": 1},  # of old diffusers
    **{".lora_linear_layer.down.weight": 0, ".lora_linear_layer.up.weight": 1},
}
_OF_LYCORIS: Final = re.compile(
    r"\.(?P<part>(?:hada_w[12]_[ab])|(?:lokr_w[12](?:_[ab])?)|(?:(?:hada|lokr)_t[12]))(?:\.weight)?\Z"
)
_PEFT_START: Final = "base_model.model."
_MOST_NAME: Final = 512


def is_importance_matrix(model: Model) -> bool:
    return any(name.endswith(SUMS) for name in model.tensors.columns.names)


def is_component(model: Model) -> bool:
    """Return whether a model is a projector or a control vector, or has no weights."""
    return model.architecture in ("clip", "controlvector") or not len(model.tensors)


def is_adapter(model: Model) -> bool:
    """Return whether a model is an adapter: it says so, or has factors."""
    if model.metadata.text("general.type") == "adapter":
        return True
    names = model.tensors.columns.names
    return any(factor_of(name) is not None or role_in_lycoris(name) for name in names)


def role_in_lycoris(name: str) -> str:
    """Return the role of a factor of LyCORIS's kinds: ``"hada_w1_a"``; "" of another tensor."""
    if "hada_" not in name and "lokr_" not in name:
        return ""
    found = _OF_LYCORIS.search(name[-_MOST_NAME:])
    return "" if found is None else found["part"]


def factor_of(name: str) -> tuple[str, int] | None:
    """Return the tensor that a factor changes, and 0 for A, 1 for B or 2 for what stands between
    them in a convolution; None of another tensor."""
    if "lora" not in name:
        return None
    for end, place in _OWN_ENDS.items():
        if name.endswith(end):
            return f"{name.removesuffix(end).removesuffix('.weight')}.weight", place
    found = _PEFT_PART.search(name[-_MOST_NAME:])
    if found is None:
        return None
    start = len(name) - len(found[0])
    return f"{name[:start].removeprefix(_PEFT_START)}.weight", int(found["part"][-1] == "B")
