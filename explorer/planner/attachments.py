"""Files that llama.cpp loads beside a model: a projector, a draft model, LoRA adapters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple

from explorer.errors import ExplorerError, PlanError
from explorer.formats import open_model
from explorer.formats.model import Model
from explorer.parallel import Check, never
from explorer.planner.devices import quoted
from explorer.planner.engines.llama_cpp.header import Header
from explorer.planner.header_keys import HeaderKeys
from explorer.planner.hyperparameters import Hyperparameters

_MOST_LOOKED_AT: Final = 32  # files of a folder
_MUCH_SMALLER: Final = 3  # times, that a draft model is
_WARMED_UP: Final = {
    **dict.fromkeys(
        (
            *("qwen2vl_merger", "qwen2.5vl_merger", "qwen3vl_merger", "ling3vl", "dots_ocr"),
            *("dots3note_v", "mimovl", "glm4v", "glm5v"),
        ),
        46 * 46,
    ),
    **dict.fromkeys(
        ("phi4", "pixtral", "lightonocr", "kimivl", "gemma4v", "minimax_m3", "youtuvl"), 16 * 16
    ),
    "muse-glimmer": 32 * 32,
}
"""Tokens of the picture that a projector's buffer is reserved for (build 11434, `clip.cpp`).

Any other takes pictures of its own size.
"""
_QWEN: Final = "qwen3vl_merger"
_MERGES: Final = {"gemma4v": 3, "pixtral": 1, "phi4": 1, "lightonocr": 1}  # if the file says none
_MOST_PATCHES: Final = 1 << 24
_LLAVA: Final = "mlp"
_LAST: Final = {
    **dict.fromkeys(
        (
            *(_LLAVA, "phi4", "pixtral", "lightonocr", "dots_ocr", "lfm2", "kimivl", "kimik25"),
            *("paddleocr", "mimovl", "qwen2vl_merger", "qwen2.5vl_merger", "qwen3vl_merger"),
            *("ling3vl", "youtuvl", "muse-glimmer"),
        ),
        ("mm.2.weight", -2),
    ),
    **dict.fromkeys(("gemma4v", "gemma4uv"), ("mm.input_projection.weight", -2)),
    **dict.fromkeys(("idefics3", "llama4", "deepseekocr"), ("mm.model.fc.weight", -2)),
    **dict.fromkeys(("ultravox", "voxtral", "qwen3a"), ("mm.a.mlp.2.weight", -2)),
    **dict.fromkeys(("glm4v", "glm5v"), ("mm.down.weight", -2)),
    "gemma3": ("mm.input_projection.weight", -1),
    "resampler": ("resampler.proj.weight", -1),
    "qwen2a": ("mm.a.fc.weight", -2),
}
"""The tensor whose side is as wide as the model, and which side (`clip_n_mmproj_embd`)."""


class Factor(NamedTuple):
    """One of the two tensors whose product is added to a tensor of the model."""

    base: str  # the name of that one
    is_second: bool
    nbytes: int
    first: int  # length of its rows
    second: int  # their number


KINDS: Final = {"projector": "projector", "lora": "LoRA adapter", "draft": "draft model"}
"""What each kind of file beside a model is called, those that are proposed first in front."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file beside a model."""

    kind: Literal["projector", "draft", "lora"]
    path: Path
    nbytes: int  # of its tensors
    compute: tuple[int, int] = (0, 0)  # of a projector's largest picture: from, to
    width: int | None = None  # of the model that a projector is made for; None: not known
    h: Hyperparameters | None = field(default=None, compare=False, repr=False)  # of a draft model
    architecture: str = ""  # of an adapter's model
    parts: tuple[Factor, ...] = field(default=(), compare=False, repr=False)  # of an adapter


def projector_bytes(attached: Sequence[Attachment]) -> int:
    """Return the bytes of the weights of projectors."""
    return sum(one.nbytes for one in attached if one.kind == "projector")


def read_attachment(path: Path) -> Attachment:
    """Read the headers of a file that is loaded beside a model.

    Raises:
        ExplorerError: It cannot be read, or llama.cpp loads no such file beside a model.
    """
    with open_model(path) as model:
        return _attachment(model, path)


def _attachment(model: Model, path: Path) -> Attachment:
    if model.format != "gguf":
        raise PlanError("llama.cpp loads GGUF files beside a model. Convert it first")
    if model.architecture == "clip":
        compute, width = _projector_compute(model), projected_width(model)
        return Attachment("projector", path, model.nbytes, compute, width)
    if model.metadata.text("general.type") == "adapter":
        parts = tuple(_factors(model))
        nbytes = sum(one.nbytes for one in parts)
        return Attachment("lora", path, nbytes, architecture=model.architecture or "", parts=parts)
    h = Hyperparameters.from_model(model)
    if not h.block_count:
        raise PlanError("it is no projector, adapter or draft model that llama.cpp loads")
    if isinstance(h.llama_cpp, str):
        raise PlanError(h.llama_cpp)
    return Attachment("draft", path, model.nbytes, h=h)


def _factors(model: Model) -> Iterator[Factor]:
    """Yield the factors of an adapter (`llama-adapter.cpp`)."""
    kind = model.metadata.text("adapter.type")
    if kind != "lora":
        raise PlanError(f"llama.cpp loads LoRA adapters, and this one is {quoted(kind or '')!r}")
    columns, found = model.tensors.columns, dict[str, set[str]]()
    for name, shape, nbytes in zip(columns.names, columns.shapes, columns.nbytes, strict=True):
        base, _, letter = name.rpartition(".lora_")
        if letter in ("a", "b"):
            found.setdefault(base, set()).add(letter)
            yield Factor(base, letter == "b", nbytes, shape[-1], math.prod(shape[:-1]))
        elif not name.endswith("_norm.weight"):  # those it does not read
            raise PlanError(f"llama.cpp refuses the adapter: {quoted(name)} is no factor")
    for base, letters in found.items():
        if len(letters) == 1:
            raise PlanError(f"llama.cpp refuses the adapter: {quoted(base)} lacks a factor")


def projected_width(model: Model) -> int | None:
    """Return how wide the model is that a projector is made for; None where it is not known.

    Features of middle layers (deepstack) are that wide, too, and not counted.
    """
    columns = model.tensors.columns
    shapes = dict(zip(columns.names, columns.shapes, strict=True))
    kind = _projector_kind(model) or _LLAVA
    name, side = _LAST.get(kind, ("", 0))
    shape = shapes.get(name, ())
    if len(shape) != 2 or (kind == _LLAVA and "mm.3.weight" in shapes):  # then that is the last
        return None
    return shape[side]


def _projector_kind(model: Model) -> str:
    keys = ("clip.vision.projector_type", "clip.projector_type", "clip.audio.projector_type")
    return next(filter(None, map(model.metadata.text, keys)), "")


def _projector_compute(model: Model) -> tuple[int, int]:
    """Return what a projector's buffer takes for the picture that llama.cpp reserves it for.

    Its graph holds the hidden values of a network and two to six rows of each patch at once.
    Qwen's without features of middle layers holds the picture, the positions, the residual,
    queries, keys and values, and the first two rotated: 248.10 MiB in a published log.
    """
    keys = HeaderKeys(model.metadata)
    kind = _projector_kind(model)
    width, hidden, side, patch, merge = (
        keys.integer(f"vision.{name}")
        for name in (
            *("embedding_length", "feed_forward_length", "image_size", "patch_size"),
            "spatial_merge_size",
        )
    )
    merge = merge or keys.integer("vision.projector.scale_factor") or _MERGES.get(kind, 2)
    tokens = _WARMED_UP.get(kind)
    patches = (side // max(patch, 1)) ** 2 if tokens is None else tokens * merge**2
    patches = min(patches, _MOST_PATCHES)
    if not patches or not width:
        return 0, model.nbytes  # of sound, or of another kind
    if kind == _QWEN and hidden <= 4 * width and width <= 6 * patch**2:
        picture, positions = 3 * 4 * patch**2, 4 * 4
        if not any(name.startswith("v.deepstack.") for name in model.tensors.columns.names):
            return (patches * (picture + positions + 4 * 6 * width),) * 2
    return 4 * patches * (hidden + 2 * width), 4 * patches * (2 * hidden + 6 * width)


def propose(path: Path, header: Header, check: Check = never) -> list[Attachment]:
    """Return files in a model's folder that may be loaded beside it, projectors first.

    Headers are read, so call it in a worker; `check` is called for each file, and raises to stop.
    """
    found = [one for one in _beside(path, check) if _goes_with(one, header)]
    order = list(KINDS)
    return sorted(found, key=lambda one: (order.index(one.kind), one.path.name))


def models_beside(path: Path, check: Check) -> Iterator[Path]:
    """Yield the other GGUF files of a folder; `check` is called for each, and raises to stop."""
    try:
        files = sorted(one for one in path.parent.iterdir() if one.suffix.lower() == ".gguf")
    except OSError:
        return
    for one in files[:_MOST_LOOKED_AT]:
        check()
        if one != path:
            yield one


def _beside(path: Path, check: Check) -> Iterator[Attachment]:
    for one in models_beside(path, check):
        try:
            yield read_attachment(one)
        except ExplorerError:  # a file that is damaged, or of another kind, is not proposed
            continue


def _goes_with(one: Attachment, header: Header) -> bool:
    if one.kind == "lora":
        return not _strange(one, header)
    if one.kind == "projector":
        return one.width in (None, header.embedding)
    if one.h is None:
        return True
    draft = one.h.llama_cpp
    if isinstance(draft, str) or one.nbytes * _MUCH_SMALLER > sum(t.stored for t in header.tensors):
        return False
    return _vocabulary(draft) == _vocabulary(header)


def _vocabulary(header: Header) -> int:
    table = header.weights_by_name.get("token_embd.weight")
    return 0 if table is None else table.extent[1]


def check_together(header: Header, attached: Sequence[Attachment]) -> None:
    """Raise `PlanError` where llama.cpp would not load these files beside a model."""
    for one in attached:
        if one.kind == "lora" and (strange := _strange(one, header)):
            raise PlanError(f"the adapter {quoted(one.path.name)} is of another model: {strange}")
        if one.kind == "projector" and one.width not in (None, header.embedding):
            raise PlanError(
                f"the projector {quoted(one.path.name)} is made for a model of width {one.width}, "
                f"and this one has {header.embedding}"
            )


def _strange(one: Attachment, header: Header) -> str:
    """Return why an adapter is not one of a model; "" if it is (`llama-adapter.cpp`)."""
    if one.architecture != header.architecture:
        names = quoted(one.architecture), quoted(header.architecture)
        return "it is made for {!r}, and this is {!r}".format(*names)
    for part in one.parts:
        changed = header.weights_by_name.get(part.base)
        if changed is None:
            return f"it changes {quoted(part.base)}, which this one lacks"
        row, rows = changed.extent[:2]
        if part.base.endswith("token_embd.weight"):  # its factors are transposed
            fits = part.second == row if part.is_second else part.second == rows
        else:
            fits = part.second == rows if part.is_second else part.first == row
        if not fits:
            return f"its factors do not fit the shape of {quoted(part.base)}"
    return ""
