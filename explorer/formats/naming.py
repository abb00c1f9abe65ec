"""What a tensor's name says: its layer and its role.

Names of GGUF (`blk.3.ffn_down.weight`, gguf.md section 9) and of Hugging Face
(`model.layers.3.mlp.down_proj.weight`) both carry a layer number behind a word for "layer". What is
left of the name without that prefix and the suffix is the role. Unknown names are normal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

# "blk" (also v.blk, a.blk, enc.blk, dec.blk) is GGUF's word; the others occur in Hugging Face
# models.
_LAYER: Final = re.compile(
    r"^(?P<stack>(?:.*?\.)?(?:blk|layers|layer|h|blocks|block))\.(?P<index>\d{1,9})\.(?P<rest>.+)$",
    re.DOTALL,
)
_SUFFIX: Final = re.compile(r"\.(weight|bias|scale|input_scale)$")
_MAX_NAME = 512  # a longer name is no name of the field: it is one role of its own
_DIGITS: Final = re.compile(r"(\d{1,18})")


@dataclass(frozen=True, slots=True)
class TensorName:
    """A tensor's name, taken apart.

    Attributes:
        stack: Prefix of the stack of layers (``"blk"``, ``"v.blk"``, ``"model.layers"``), or "".
        layer: Layer number within the stack, or None outside the layers.
        role: What the tensor does there (``"attn_q"``), without layer and suffix.
    """

    stack: str
    layer: int | None
    role: str


@lru_cache(maxsize=65_536)
def parse_name(name: str) -> TensorName:
    """Take a tensor's name apart; any text is accepted."""
    if len(name) > _MAX_NAME:
        return TensorName("", None, name)
    match = _LAYER.match(name)
    if match is None:
        return TensorName("", None, _SUFFIX.sub("", name) or name)
    rest = match["rest"]
    return TensorName(match["stack"], int(match["index"]), _SUFFIX.sub("", rest) or rest)


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key under which ``blk.2`` comes before ``blk.10``; case does not count."""
    parts = _DIGITS.split(text[:_MAX_NAME].casefold())
    return tuple(
        (1, int(part), "") if position % 2 else (0, 0, part) for position, part in enumerate(parts)
    )
