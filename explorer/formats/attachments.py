"""Files that belong to a model and are none: whether a header is that of an adapter, an importance
matrix or another component. Their names alone tell.

`analysis/adapters.py` and `analysis/importance.py` read what they hold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from explorer.errors import ExplorerError
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
KIND_OF_PART: Final = {
    **{f"hada_{part}": "loha" for part in ("w1_a", "w1_b", "w2_a", "w2_b", "t1", "t2")},
    **{f"lokr_{part}": "lokr" for part in ("w1", "w1_a", "w1_b", "w2", "w2_a", "w2_b", "t1", "t2")},
    **dict.fromkeys(("lora_magnitude_vector", "dora_scale"), "dora"),
    **dict.fromkeys(("oft_blocks", "oft_diag", "oft_R", "oft_r"), "oft"),
    **dict.fromkeys(("boft_R", "boft_s"), "boft"),
    **dict.fromkeys(("ia3_l", "on_input"), "ia3"),
    **dict.fromkeys(("vera_lambda_b", "vera_lambda_d"), "vera"),
    **dict.fromkeys(("a1", "a2", "b1", "b2"), "glora"),
}
"""The kind of an adapter by what names of its tensors end in, of all but LoRA's two factors.

Sources: LyCORIS, `modules/`; PEFT, `tuners/` (``prefix`` and parameters of each layer)."""
_TRAINED: Final = ("lora_", "lycoris_")
_PEFT_START: Final = "base_model.model."
_MOST_NAME: Final = 512


def is_importance_matrix(model: Model) -> bool:
    return any(name.endswith(SUMS) for name in model.tensors.columns.names)


def open_matrix(path: Path) -> Model:
    """Open an importance matrix.

    Raises:
        ExplorerError: It cannot be opened, or is something else.
    """
    from explorer.formats.open import open_model  # noqa: PLC0415 - the readers load in the worker

    model = open_model(path)
    if not is_importance_matrix(model):
        model.close()
        raise ExplorerError("is not an importance matrix, as llama-imatrix writes it", model.path)
    return model


def known_names(matrix: Model) -> frozenset[str]:
    """Return the names of the tensors that an importance matrix knows."""
    names = matrix.tensors.columns.names
    return frozenset(name.removesuffix(SUMS) for name in names if name.endswith(SUMS))


@dataclass(frozen=True, eq=False)
class OpenMatrix:
    """An open importance matrix; its file closes with the last reference to it.

    Attributes:
        model: The file.
        names: Tensors that it knows of.
        key: Identifies it; keeps no file open.
    """

    model: Model
    names: frozenset[str]
    key: object = field(default_factory=object)

    @classmethod
    def load(cls, path: Path) -> OpenMatrix:
        """Open a file; for a worker. Raises what `open_matrix` raises."""
        model = open_matrix(path)
        return cls(model, known_names(model))


def is_component(model: Model) -> bool:
    """Return whether a model is a projector or a control vector, or has no weights."""
    return model.architecture in ("clip", "controlvector") or not len(model.tensors)


def is_adapter(model: Model) -> bool:
    """Return whether a model is an adapter: it says so, or has factors."""
    if model.metadata.text("general.type") == "adapter":
        return True
    names = model.tensors.columns.names
    return any(factor_of(name) or part_of(name) for name in names)


def part_of(name: str) -> tuple[str, str] | None:
    """Return the tensor that a part of another kind than LoRA changes, and the part.

    ``("….q_proj.weight", "hada_w1_a")``; None of another tensor.
    """
    module, _, part = name.removesuffix(".weight").rpartition(".")
    kind = KIND_OF_PART.get(part, "")
    if kind and (kind != "glora" or name.startswith(_TRAINED)):
        return f"{module.removeprefix(_PEFT_START)}.weight", part
    return None


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
