"""Keys of all shards become logical weights: each is part of one, attached to one, or plain.

Keys decide, the configuration explains. A module whose parts contradict each other stays as it is
stored, and so does one that lacks a part; what is wrong is told once for all modules of which the
same is true, for a model has thousands.

Source: `docs/hf_quantization.md`, sections 1 and 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Final

from explorer.formats.model import ProblemLog
from explorer.formats.quantized.declaration import Declaration
from explorer.formats.quantized.modules import (
    Found,
    LeftAloneError,
    Member,
    Module,
    Rule,
    RuleError,
)
from explorer.quantization.huggingface.layout import CompanionLayout

RULES: Final = (
    (".qweight", "rules_words.gptq_or_awq"),
    (".weight.quant_state.bitsandbytes__nf4", "rules_words.bitsandbytes_4"),
    (".weight.quant_state.bitsandbytes__fp4", "rules_words.bitsandbytes_4"),
    (".SCB", "rules_words.bitsandbytes_8"),
    (".weight_packed", "rules_packed.compressed"),
    (".W_q", "rules_stacked.hqq"),
    (".weight._data._data", "rules_stacked.quanto_packed"),
    (".weight._data", "rules_stacked.quanto_plain"),
    ("._weight_qdata", "rules_floats.torchao"),
    ("_blocks", "rules_floats.gpt_oss"),
    (".blocks", "rules_floats.gpt_oss_original"),
    (".weight_scale_inv", "rules_floats.inverse_scaled_weight"),
    (".qscale_weight", "rules_floats.mistral_weight"),
    (".weight_scale", "rules_floats.scaled_weight"),
    (".scale", "rules_floats.shortly_scaled_weight"),
    ("_scale_inv", "rules_floats.fused_experts"),
)
"""Suffix of the key that gives a weight away, and its rule: a function of a module here.

A module is loaded when one of its keys occurs. Of several keys of a weight, the first here counts.
"""

MARKS: Final = ("scale", "qweight", ".absmax", ".SCB", ".W_q", "qdata")
"""What the name of some part of every quantized weight holds."""

ATTACHED: Final = (
    *(".input_scale", ".input_global_scale", ".input_zero_point", ".output_scale"),
    *(".activation_scale", ".pre_quant_scale", ".weight_format"),
    *(".k_scale", ".v_scale", ".q_scale"),
)
"""Suffixes of what belongs to a quantized module, but is no part of its weight."""

ORPHANS: Final = (
    *(".qweight", ".qzeros", ".absmax", ".nested_absmax", ".nested_quant_map", ".quant_map"),
    *(".SCB", ".weight_scale_inv", "_scale_inv", ".weight_packed", ".weight_scale"),
    *(".weight_scale_2", ".weight_global_scale", ".weight_g_idx", ".weight_zero_point"),
    *(".W_q", "._weight_qdata", "._weight_scale", "._scale", "._shift"),
)
"""Suffixes that nothing but a part of a quantized weight has: alone, something is missing."""

LISTED: Final = (
    *(".q_weight", ".q_scale_max", ".q_invperm", ".trellis", ".codebooks", ".Qidxs"),
    *(".centroids.weight", ".forward_hadamard_matrix", ".weight_scales", ".wscales"),
    *(".scale_packed", ".bitmask", ".B", ".pre_quant_scale_2"),
)
"""Suffixes of modules of methods that are not decoded; nothing is told of them."""


@dataclass
class Grouped:
    """How stored tensors belong together.

    Attributes:
        weights: The weights, by the name of the first of their parts in the order of the files.
        attached: Tensors that belong to each, by its logical name.
        used: Names of all parts and of all that is attached.
    """

    weights: dict[str, Found] = field(default_factory=dict)
    attached: dict[str, list[Member]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)


def may_hold_weights(names: Sequence[str]) -> bool:
    """Return quickly whether some weights may have separate scales; mostly none have."""
    joined = "\n".join(names)
    return any(mark in joined for mark in MARKS)


def group_members(
    by_name: Mapping[str, Member],
    declared: Declaration,
    metadata: Mapping[str, str],
    log: ProblemLog,
) -> Grouped:
    """Find the weights of Hugging Face's quantization methods among stored tensors.

    Args:
        by_name: All stored tensors of the model, of all shards.
        declared: What the model says about its quantization.
        metadata: What the files say about their tensors.
        log: Where contradictions go.
    """
    grouped = Grouped()
    if declared.is_list_only:
        return grouped
    told = _Summary()
    left_alone = {
        name.removesuffix(mark)
        for name in by_name
        if name.endswith(LISTED)
        for mark in LISTED
        if name.endswith(mark)
    }
    known: dict[tuple[object, ...], tuple[CompanionLayout, str | None]] = {}
    seen: set[tuple[str, Rule]] = set()
    faulty: set[str] = set()
    for name, suffix, rule in _anchors(by_name):
        stem = name[: len(name) - len(suffix)]
        if name in grouped.used or stem in left_alone or (stem, rule) in seen:
            continue
        seen.add((stem, rule))
        try:
            found = rule(Module(stem, by_name, declared, metadata, known))
        except LeftAloneError:
            left_alone.add(stem)
            continue
        except RuleError as error:
            told.add_error(name, f"its weight cannot be put together: {error}")
            faulty.add(stem)
            continue
        if found is None or any(part.name in grouped.used for part in found.parts.values()):
            continue
        _take(found, stem, by_name, grouped, told)
    _report_orphans(by_name, grouped, faulty | left_alone, told)
    told.report(log)
    return grouped


def _anchors(by_name: Mapping[str, Member]) -> Iterator[tuple[str, str, Rule]]:
    """Yield keys that give weights away, by the order of the rules."""
    suffixes = tuple(suffix for suffix, _ in RULES)
    names = [name for name in by_name if name.endswith(suffixes)]  # one call of C for each
    for suffix, place in RULES:
        for name in names:
            if name.endswith(suffix):
                yield name, suffix, _rule(place)


@cache
def _rule(place: str) -> Rule:
    module, _, name = place.partition(".")
    rule: Rule = getattr(import_module(f"explorer.formats.quantized.{module}"), name)
    return rule


def _take(
    found: Found, stem: str, by_name: Mapping[str, Member], grouped: Grouped, told: _Summary
) -> None:
    """Note a weight, and what is attached to its module."""
    grouped.weights[next(iter(found.parts.values())).name] = found
    grouped.used.update(part.name for part in found.parts.values())
    attached = [
        member
        for suffix in ATTACHED
        if (member := by_name.get(stem + suffix)) is not None and member.name not in grouped.used
    ]
    if attached:
        grouped.attached[found.name] = attached
        grouped.used.update(member.name for member in attached)
    if found.problem is not None:
        told.add_warning(found.name, found.problem)
    if found.name in by_name and found.name not in grouped.used:
        told.add_warning(found.name, "it is stored plain beside its quantized parts; both are kept")


def _report_orphans(
    by_name: Mapping[str, Member], grouped: Grouped, known: set[str], told: _Summary
) -> None:
    """Tell of companions without their weight."""
    for name in by_name:
        if name in grouped.used or not name.endswith(ORPHANS):
            continue
        for suffix in ORPHANS:
            if name.endswith(suffix):
                stem = name[: -len(suffix)]
                if stem not in known and stem.removesuffix(".weight") not in known:
                    known.add(stem)
                    told.add_error(name, "other parts of its weight are missing")
                break


class _Summary:
    """Problems by their text: the same of a thousand modules is one line."""

    def __init__(self) -> None:
        self._errors: dict[str, list[str]] = {}
        self._warnings: dict[str, list[str]] = {}

    def add_error(self, where: str, what: str) -> None:
        """Note what is wrong with a tensor, so that it stays as it is stored."""
        self._errors.setdefault(what, []).append(where)

    def add_warning(self, where: str, what: str) -> None:
        """Note what is odd about a tensor."""
        self._warnings.setdefault(what, []).append(where)

    def report(self, log: ProblemLog) -> None:
        """Write each text once, with the first tensor and how many more there are."""
        for texts, add in ((self._errors, log.add_error), (self._warnings, log.add_warning)):
            for what, places in texts.items():
                more = len(places) - 1
                add(places[0], f"{what} ({more} more like it)" if more else what)
