"""What metadata and `config.json` say about the quantization of a weight; either may be wrong.

Source: `docs/safetensors_and_blobs.md`, section 3; mlx-lm, `load_model` (entries of modules);
Ollama, x/quant (types that it does not know).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from explorer.quantization.grouped.layout import (
    AFFINE_BITS,
    AFFINE_GROUPS,
    FIXED_SIZES,
    GroupedLayout,
    GroupParts,
    GroupShapes,
    Mode,
    Part,
    measure,
    quantization_name,
    shape_text,
)
from explorer.quantization.huggingface.layout import Shape
from explorer.text import plain_text, shorten

_DEFAULT_GROUP_SIZE: Final = 64  # MLX's, and Ollama's since 0.18.0

_TYPES: Final[Mapping[str, tuple[Mode, int]]] = {
    **dict.fromkeys(("q4", "fp4"), (Mode.AFFINE, 4)),
    **dict.fromkeys(("q8", "fp8"), (Mode.AFFINE, 8)),
    **{quantization_name(Mode.AFFINE, bits): (Mode.AFFINE, bits) for bits in AFFINE_BITS},
    **{mode.value: (mode, bits) for mode, (bits, _) in FIXED_SIZES.items()},
}
"""Mode and bits of each `quant_type`, in lower case."""

_WORDS_BEFORE: Final = ("model.", "language_model.", "text_model.", "thinker.")
_BEFORE: Final = (
    *("", "model.", "language_model.", "language_model.model.", "model.language_model."),
    *("model.language_model.model.", "thinker.model.", "thinker.language_model.model."),
)
"""What configurations of MLX put before the name of a module (mlx-vlm and mlx-lm differ)."""

_MODES: Final = {mode.value: mode for mode in Mode}


@dataclass(frozen=True, slots=True)
class Claim:
    """What metadata or a configuration says about a weight.

    Attributes:
        origin: Which of the two.
        mode: The mode; None if not said, and so for the other two.
        bits: Bits of a code.
        group_size: Weights that share a scale.
        fault: What cannot be understood of it, for people; empty if nothing.
    """

    origin: str
    mode: Mode | None = None
    bits: int | None = None
    group_size: int | None = None
    fault: str = ""

    @property
    def says_something(self) -> bool:
        """Whether anything is said that can be understood."""
        return self.mode is not None or self.says_sizes

    @property
    def says_sizes(self) -> bool:
        """Whether bits or group size are said."""
        return not (self.bits is None and self.group_size is None)

    @property
    def likely_group_size(self) -> int:
        """The group size as said, else the default of affine types."""
        return _DEFAULT_GROUP_SIZE if self.group_size is None else self.group_size

    def allows(self, layout: GroupedLayout) -> bool:
        """Return whether nothing that is said contradicts a layout."""
        return (
            self.mode in {None, layout.mode}
            and self.bits in {None, layout.bits}
            and self.group_size in {None, layout.group_size}
        )

    @property
    def text(self) -> str:
        """For people: ``"int4 in groups of 64"``."""
        if self.mode is not None and (self.bits is not None or self.mode is not Mode.AFFINE):
            what = quantization_name(self.mode, self.bits or 0)
        elif self.bits is not None:
            what = f"{self.bits} bits"
        else:
            what = "" if self.mode is None else self.mode.value
        groups = "" if self.group_size is None else f"groups of {self.group_size}"
        return " in ".join(filter(None, (what, groups)))


def claim_of_metadata(quant_type: str | None, group_size: str | None) -> Claim:
    """Read `quant_type` and `group_size` of a blob's metadata, None where one is missing."""
    origin = "the metadata"
    size = _count(group_size)
    faults = []
    if group_size is not None and size is None:
        faults.append(f"{origin} has a group_size of {_quoted(group_size)}, which is not a size")
    mode = bits = None
    if quant_type is not None:
        mode, bits = _TYPES.get(quant_type.strip().lower(), (None, None))
        if mode is None:
            mode, bits, size = Mode.AFFINE, 8, size or 32  # as Ollama's own reader takes it
            what = f"{origin} has an unknown quant_type, {_quoted(quant_type)}"
            faults.append(f"{what}, which Ollama takes for int8 in groups of 32")
    return Claim(origin, mode, bits, size, "; ".join(faults))


def claim_of_config(fields: Mapping[str, object] | None) -> Claim:
    """Read the fields `bits`, `group_size` and `mode`, any of them missing and of any type."""
    origin = "config.json"
    if fields is None:
        return Claim(origin)
    bits, size = _count(fields.get("bits")), _count(fields.get("group_size"))
    name = fields.get("mode")
    if name is None and bits is not None:
        return Claim(origin, Mode.AFFINE, bits, size)  # MLX named no mode while it had but one
    return Claim(origin, _MODES.get(name.lower()) if isinstance(name, str) else None, bits, size)


def config_quantization(config: Mapping[str, object], module: str) -> Mapping[str, object] | None:
    """Return what a model's `config.json` says about the quantization of one module's weight.

    Args:
        config: The parsed file, any content.
        module: Path of the module, such as ``"model.layers.0.mlp.down_proj"``.

    Returns:
        The module's own entry if it has one, which mlx-lm then takes as a whole, else the general
        one; None if there is neither.
    """
    for place in (config, config.get("text_config")):
        if not isinstance(place, Mapping):
            continue
        for key in ("quantization", "quantization_config"):
            general = place.get(key)
            if isinstance(general, Mapping):
                found = (general.get(name) for name in _spellings(module))
                return next((own for own in found if isinstance(own, Mapping)), general)
    return None


def _spellings(module: str) -> Iterator[str]:
    """Yield what a configuration may call a module: programs put other words before the layers."""
    yield module
    bare = module
    while bare.startswith(_WORDS_BEFORE):
        bare = bare.partition(".")[2]
    yield from (f"{words}{bare}" for words in _BEFORE)


def _count(value: object) -> int | None:
    """Return a positive number given as such or as text; no width and no group is ever longer."""
    if isinstance(value, str) and len(value) < 10 and value.isascii():
        digits = value.strip()  # which takes more away than int() does
        value = int(digits) if digits.isdigit() else value
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 < value < 1 << 31 else None


def _quoted(text: str) -> str:
    return f"“{shorten(plain_text(text), 40)}”"


# How a weight with companions is stored, where metadata, configuration and shapes may disagree.
#
# Metadata may be missing, and importers copy a model's general type into every tensor's metadata
# even where another width was used. So whatever is said is held against the shapes, which cannot
# lie: a row's packed bits, divided by its scales, are the bits of a group, ``bits * group_size``.
# Several layouts can have the same product; then what is said decides, and if nothing fits a
# guess, which is reported as one. Nothing here reads weights or knows where the shapes come from.
#
# Source: `docs/safetensors_and_blobs.md`, section 3.


# Groups of 64 are the default of MLX. Only for 128 bits Ollama prefers 4 in groups of 32.
_GUESSED_GROUPS: Final = (64, 32, 128)
_GUESSED_GROUPS_OF_128_BITS: Final = (32, 64)


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a weight with companions is.

    Attributes:
        layout: How it is stored; None if that is not known.
        shape: Its logical shape, outermost first; None if that is not known.
        groups_per_global_scale: Consecutive groups that share one global scale; 0 without any.
        problem: What contradicts itself, for people: with a layout, what is said about the weight
            is wrong and the layout is what the shapes say; without, why there is none.
        guess: Why the layout is only a guess, for people; None if it is certain.
    """

    layout: GroupedLayout | None
    shape: Shape | None = None
    groups_per_global_scale: int = 0
    problem: str | None = None
    guess: str | None = None


def resolve(
    parts: GroupParts,
    quant_type: str | None = None,
    group_size: str | None = None,
    config: Mapping[str, object] | None = None,
) -> Resolution:
    """Return how a weight with companions is stored.

    Args:
        parts: Types and shapes of the weight and its companions, from their headers.
        quant_type: What the blob's metadata says, in any case of letters; None if nothing.
        group_size: The same, as text.
        config: What `config.json` says about this weight, ``{"bits", "group_size", "mode"}``, any
            of them missing or of any type; `config_quantization` finds it.

    Returns:
        The layout and the logical shape, or why there are none. Odd input never raises.
    """
    shapes = measure(parts)
    if isinstance(shapes, str):
        return Resolution(None, problem=shapes)
    claims = (claim_of_metadata(quant_type, group_size), claim_of_config(config))
    choose = _choose_fixed if parts.bias is None else _choose_affine
    found = choose(shapes, [claim for claim in claims if claim.says_something])
    if found.layout is None:
        return found
    found = replace(
        found,
        shape=(*shapes.rows, shapes.groups_per_row * found.layout.group_size),
        problem=_joined(*(claim.fault for claim in claims), found.problem),
    )
    if parts.global_scale is None:
        return found
    return _with_global_scale(found, shapes, parts.global_scale)


def _choose_fixed(shapes: GroupShapes, claims: list[Claim]) -> Resolution:
    """Choose among the modes whose scales are bytes: the bits of a group distinguish them."""
    layouts = [shapes.layout(mode, *sizes) for mode, sizes in FIXED_SIZES.items()]
    fitting = [layout for layout in layouts if layout is not None]
    if not fitting:
        what = f"{shapes.group_bits} bits for each scale of type {shapes.scale_type}"
        return Resolution(None, problem=f"no known quantization has {what}")
    layout = next((one for one in fitting if claims and one.mode is claims[0].mode), fitting[0])
    return Resolution(layout, problem=_contradiction(claims, layout))


def _choose_affine(shapes: GroupShapes, claims: list[Claim]) -> Resolution:
    """Choose bits and group size: what is said, if it fits, else what the shapes leave open."""
    with_sizes = [claim for claim in claims if claim.says_sizes]
    for choose in (_fit, _correct):
        for claim in with_sizes:
            layout = choose(shapes, claim)
            if layout is not None:
                return Resolution(layout, problem=_contradiction(claims, layout))
    return _guess_affine(shapes, claims)


def _fit(shapes: GroupShapes, claim: Claim) -> GroupedLayout | None:
    """Return the layout that agrees with a claim and the shapes; what is not said is free."""
    sizes = (claim.likely_group_size, *AFFINE_GROUPS)  # of an empty weight the first one fits
    for bits in AFFINE_BITS if claim.bits is None else (claim.bits,):
        for size in sizes:
            layout = shapes.layout(Mode.AFFINE, bits, size)
            if layout is not None and claim.allows(layout):
                return layout
    return None


def _correct(shapes: GroupShapes, claim: Claim) -> GroupedLayout | None:
    """Trust a claim's group size only: importers get the width wrong, not the group size."""
    if claim.group_size is None and claim.mode not in {None, Mode.AFFINE}:
        return None
    size = claim.likely_group_size
    return shapes.layout(Mode.AFFINE, shapes.group_bits // size, size)


def _guess_affine(shapes: GroupShapes, claims: list[Claim]) -> Resolution:
    """Choose the only layout that the shapes allow, or the likeliest of several."""
    group_bits = shapes.group_bits or 4 * 64  # of an empty weight anything is true
    sizes = _GUESSED_GROUPS_OF_128_BITS if group_bits == 128 else _GUESSED_GROUPS
    fitting = [shapes.layout(Mode.AFFINE, group_bits // size, size) for size in sizes]
    layouts = [layout for layout in fitting if layout is not None]
    layouts.sort(key=lambda layout: layout.bits == 1)  # the rarest
    if not layouts:
        what = f"{group_bits} bits for each scale and bias"
        return Resolution(None, problem=f"no known quantization has {what}")
    layout, *others = layouts
    problem = _contradiction(claims, layout)
    if not others or not shapes.group_bits:
        return Resolution(layout, problem=problem)
    texts = " or ".join(map(_layout_text, others))
    guess = f"taken for {_layout_text(layout)}; by its shapes it could also be {texts}"
    return Resolution(layout, problem=problem, guess=guess)


def _with_global_scale(found: Resolution, shapes: GroupShapes, part: Part) -> Resolution:
    """Spread a global scale over the groups: one for all, or one for each expert or row."""
    if found.layout is None or found.layout.mode is not Mode.NVFP4:
        what = "only nvfp4 has a global scale. The one that there is is left out"
        return replace(found, problem=_joined(found.problem, what))
    for axis in range(len(shapes.rows) + 1):
        if part.dtype == "F32" and prod(part.shape) == prod(shapes.rows[:axis]):
            groups = prod(shapes.rows[axis:]) * shapes.groups_per_row
            return replace(found, groups_per_global_scale=groups)
    what = f"a global scale of type {part.dtype} and shape {shape_text(part.shape)}"
    return Resolution(None, problem=f"{what} fits no weight of shape {found.shape}")


def _contradiction(claims: list[Claim], layout: GroupedLayout) -> str | None:
    """Return where a layout differs from the first claim; None if it does not."""
    if not claims or claims[0].allows(layout):
        return None
    return f"{claims[0].origin} says {claims[0].text}, the shapes say {_layout_text(layout)}"


def _layout_text(layout: GroupedLayout) -> str:
    return f"{layout.name} in groups of {layout.group_size}"


def _joined(*problems: str | None) -> str | None:
    return "; ".join(filter(None, problems)) or None
