"""Keys of all shards become logical weights: each is part of one, attached to one, or plain.

Keys decide, the configuration explains. A module whose parts contradict each other stays as it is
stored, and so does one that lacks a part; what is wrong is reported once for all modules
with the same fault, for a model has thousands.

Source: `docs/hf_quantization.md`, sections 1 and 6.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Final

from explorer.formats.model import ProblemLog
from explorer.formats.quantized.modules import (
    BARE_FP8,
    FP8_TYPES,
    LEFT_ALONE,
    SCALE_ROLES,
    Alike,
    Keys,
    Memory,
    Rule,
    Weight,
)
from explorer.formats.tensors import Spec

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
    ("_qdata", "rules_floats.torchao_parameter"),
    ("_blocks", "rules_floats.gpt_oss"),
    (".blocks", "rules_floats.gpt_oss_original"),
    *((f".{role}", "rules_floats.named_scale") for role in SCALE_ROLES),
    (".weight_scale", "rules_floats.scaled_weight"),
    (".weight_quantizer.scale", "rules_floats.scaled_weight"),
    (".int8_weight", "rules_floats.turbodiffusion"),
    (".scale", "rules_floats.shortly_scaled_weight"),
    ("_scale_inv", "rules_floats.fused_experts"),
)
"""Suffix of the key that gives a weight away, and its rule: a function of a module here.

A module is loaded when one of its keys occurs. Of several keys of a weight, the first here counts.
"""

UNREAD: Final = (
    (".trellis", "rules_unread.exl3"),
    (".q_weight", "rules_unread.exl2"),
    (".codebooks", "rules_unread.aqlm"),
    (".B", "rules_unread.marlin"),
    (".Qidxs", "rules_unread.quip"),
    (".wscales", "rules_unread.svdquant"),
    (".forward_hadamard_matrix", "rules_unread.fp_quant"),
    ("._weight_qdata", "rules_unread.torchao_int4"),
    (".comfy_quant", "rules_unread.comfy"),
    (".weight_scale", "rules_unread.comfy_declared"),
    (".weight_scale", "rules_unread.quark"),
    (".weight_quantizer.scale", "rules_unread.quark"),
    (".scale", "rules_unread.sdnq"),
)
"""The same of weights that are counted and not read."""

MARKS: Final = (
    *(".trellis", ".q_weight", ".codebooks", ".B", ".Qidxs", ".comfy_quant", ".int8_weight"),
    *("scale", "qweight", "qzeros", ".quant_", ".absmax", ".SCB", ".W_q", ".packing", "qdata"),
    *("weight_packed", "weight_format", "_zero_point", "_blocks", ".blocks", "._data"),
)
"""What the name of some part of every quantized weight holds, even if others are missing."""

ATTACHED: Final = (
    *(".input_scale", ".input_global_scale", ".input_zero_point", ".output_scale"),
    *(".activation_scale", ".pre_quant_scale", ".weight_format"),
    *(".input_quantizer.scale", ".output_quantizer.scale"),
    *(".k_scale", ".v_scale", ".q_scale", ".scale_input", ".comfy_quant"),
)
"""Suffixes of what belongs to a quantized module, but is not a part of its weight."""

ORPHANS: Final[Mapping[str, str]] = {
    **dict.fromkeys((".qzeros", ".g_idx"), "qweight"),
    ".qweight": "qzeros",
    **dict.fromkeys(
        (".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"), "quant_state"
    ),
    **dict.fromkeys((".SCB", ".weight_format", ".weight_scale_inv", ".scale_weight"), "weight"),
    "_scale_inv": "tensor of experts",
    ".weight_scale": "weight or weight_packed",
    ".weight_quantizer.scale": "weight",
    ".int8_weight": "scale",
    **dict.fromkeys((".weight_packed", ".weight_scale_2", ".weight_zero_point"), "weight_scale"),
    **dict.fromkeys((".weight_global_scale", ".weight_g_idx"), "weight_packed"),
    ".packing": "W_q",
    **dict.fromkeys(("._weight_scale", "._weight_zero_point"), "_weight_qdata"),
    "._weight_qdata": "_weight_scale",
    **dict.fromkeys(("._scale", "._shift"), "_data"),
    "._data": "_scale",
}
"""Suffixes that nothing but a part of a quantized weight has; what is missing if it is alone."""

EXPERTS: Final[Mapping[str, str]] = {"_scales": "_blocks", ".scales": "blocks"}
"""The same of gpt-oss; other methods have scales of this name, too."""

WHOLE: Final = (
    "bitsandbytes",
    "fp8",
    "fbgemm_fp8",
    "compressed-tensors",
    "sparseml",
    "torchao",
    "quark",
)
"""Methods whose codes are matrices as PyTorch stores them, beside ModelOpt's and BitNet's."""

LISTED: Final = (
    *(".q_weight", ".q_scale_max", ".q_invperm", ".trellis", ".codebooks", ".Qidxs"),
    *(".centroids.weight", ".forward_hadamard_matrix", ".weight_scales", ".wscales"),
    *(".scale_packed", ".bitmask", ".B", ".pre_quant_scale_2"),
)
"""Suffixes of modules of methods that are not decoded; nothing is reported of them."""


CODES: Final = frozenset({"U8", "I8", "I16", "I32", "I64"})
_MATRIX, _EXPERT_AXES = 2, 3  # dimensions


@dataclass
class Grouped:
    """How stored tensors belong together.

    Attributes:
        weights: The weights, by the place of the first of their parts.
        used: Places of all parts and of all that is attached.
    """

    weights: dict[int, Weight] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)


def may_hold_weights(names: Sequence[str], specs: Sequence[Spec]) -> bool:
    """Return quickly whether some weights have or lack separate scales; mostly none do."""
    joined = "\n".join(names)
    if any(mark in joined for mark in MARKS):
        return True
    return not FP8_TYPES.isdisjoint({spec.type.name for spec in specs})


def group_members(keys: Keys, log: ProblemLog) -> Grouped:
    """Find the weights of Hugging Face's quantization methods among stored tensors.

    Args:
        keys: All stored tensors of the model, of all shards, and what is said of them.
        log: Where contradictions go.
    """
    return _Grouping(keys).run(log)


class _Grouping:
    """One pass over the keys of a model."""

    def __init__(self, keys: Keys) -> None:
        self._rows, self._specs = keys.rows, keys.specs
        self._ends = {name[max(0, name.rfind(".")) :] for name in keys.rows}  # some dozens
        self._memory = Memory(keys)
        self._declared, self._method = keys.declared, keys.declared.method
        self._found = Grouped()
        # names by what is wrong with them: the same of a thousand modules is one line
        self._errors: dict[str, list[str]] = defaultdict(list)
        self._warnings: dict[str, list[str]] = defaultdict(list)
        self._left_alone = {stem for stem, _ in self._with(LISTED)}
        self._faulty: dict[str, Rule] = {}
        self._told: set[str] = set()  # names by which faulty weights were found
        self._attached: dict[str, list[int]] = {}
        for stem, name in self._with(ATTACHED):
            self._attached.setdefault(stem, []).append(keys.rows[name])

    def run(self, log: ProblemLog) -> Grouped:
        """Find all weights; report what is wrong, and what is not read."""
        aside, self._left_alone = self._left_alone, set()
        self._apply_all(UNREAD)
        self._left_alone |= aside
        if not self._declared.is_list_only:
            self._apply_all(RULES)
            self._report_orphans()
        self._report_packed()
        for texts, add in ((self._errors, log.add_error), (self._warnings, log.add_warning)):
            for what, (first, *more) in texts.items():
                add(first, f"{what} ({len(more)} more like it)" if more else what)
        return self._found

    def _apply_all(self, rules: Sequence[tuple[str, str]]) -> None:
        for suffix, place in rules:
            if self._occurs(suffix):
                self._apply(suffix, _rule(place))

    def _report_packed(self) -> None:
        """Report codes of methods that are not read, which are shown as the numbers they are."""
        what = f"holds codes of {self._method or 'an unknown method'} that are not read: "
        what += "each is shown, and counted, as if it was a weight"
        kinds = CODES | FP8_TYPES
        for name, row in self._rows.items():
            spec, stem = self._specs[row], name[: name.rfind(".")]
            if spec.type.name not in kinds or spec.parameters < 2 or row in self._found.used:
                continue
            is_aside = stem in self._left_alone or self._has_scales_of_experts(name, spec)
            if is_aside or self._declared.is_list_only:
                self._warnings[what].append(name)

    def _occurs(self, suffix: str) -> bool:
        """Return whether a name may end so: the last part of a name is short to look at."""
        dot = suffix.rfind(".")
        if dot >= 0:
            return suffix[dot:] in self._ends
        return any(end.endswith(suffix) for end in self._ends)

    def _with(self, suffixes: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield what ends in one of some suffixes and is not used yet: what is before, the name."""
        occurring = tuple(filter(self._occurs, suffixes))
        used = self._found.used
        for name, row in self._rows.items() if occurring else ():
            if row not in used and name.endswith(occurring):
                for suffix in occurring:
                    if name.endswith(suffix):
                        yield name[: -len(suffix)], name

    def _apply(self, suffix: str, rule: Rule) -> None:
        """Hold a rule against all modules that have a key of this suffix."""
        rows, used, outcome = self._rows, self._found.used, self._memory.outcome
        length = len(suffix)
        for name, row in rows.items():
            if not name.endswith(suffix) or row in used or name in self._told:
                continue
            stem = name[:-length]
            if stem in self._left_alone or self._faulty.get(stem) is rule:
                continue
            found = outcome(rule, stem)
            if isinstance(found, Alike):
                self._take(stem, found)
            elif isinstance(found, str):
                self._errors[f"its weight cannot be put together: {found}"].append(name)
                self._faulty[stem] = rule
                self._told.add(name)
            elif found is LEFT_ALONE:
                self._left_alone.add(stem)

    def _take(self, stem: str, alike: Alike) -> None:
        """Note a weight, unless another has one of its parts, and what is attached to it."""
        rows, used = self._rows, self._found.used
        parts = tuple([rows[stem + suffix] for suffix in alike.suffixes])
        if not used.isdisjoint(parts):
            return
        used.update(parts)
        attached: tuple[int, ...] = ()
        if self._attached:
            attached = tuple(row for row in self._attached.pop(stem, ()) if row not in used)
            used.update(attached)
        name = stem + alike.suffix
        self._found.weights[parts[0]] = Weight(name, parts, alike, attached)
        if not alike.layout.reader:
            what = f"is of {alike.layout.name}: counted by shape, but its values are not read"
            self._warnings[what].append(name)
        if alike.problem is not None:
            self._warnings[alike.problem].append(name)
        if rows.get(name, parts[0]) not in used:
            what = "it is stored plain beside its quantized parts. Both are kept"
            self._warnings[what].append(name)

    def _report_orphans(self) -> None:
        """Report companions without their weight, and of codes without their scales."""
        known = self._left_alone.union(self._faulty)
        orphans = {**ORPHANS, **EXPERTS} if self._method == "mxfp4" else ORPHANS
        for stem, name in self._with(tuple(orphans)):
            if stem in known:
                continue
            if stem.removesuffix(".weight") not in known:
                known.add(stem)
                self._errors[f"its {orphans[name[len(stem) :]]} is missing"].append(name)
        said = self._method in WHOLE or self._method.startswith(("modelopt", "nvfp4", "bitnet"))
        self._report_unscaled(known, said=said)

    def _report_unscaled(self, known: set[str], *, said: bool) -> None:
        """Report codes without any companion; where a method is `said`, scales are missing."""
        for name, row in self._rows.items():
            if row in self._found.used or name in known:
                continue
            spec, stem = self._specs[row], name.removesuffix(".weight")
            if stem in known or name.endswith("_scale") or self._has_scales_of_experts(name, spec):
                continue
            if stem == name and len(spec.shape) != _EXPERT_AXES:
                continue
            if len(spec.shape) >= _MATRIX and spec.type.name in FP8_TYPES:
                missing = "its scales are missing. It is shown without them"
                self._warnings[missing if said else BARE_FP8].append(name)
            elif said and len(spec.shape) >= _MATRIX and spec.type.name in CODES and stem != name:
                self._errors["its scales are missing"].append(name)

    def _has_scales_of_experts(self, name: str, spec: Spec) -> bool:
        """Return whether it is experts in one tensor, with scales of a kind that is not read."""
        scaled = any(name + suffix in self._rows for suffix in ("_scale", "_weight_scale"))
        return len(spec.shape) == _EXPERT_AXES and scaled


@cache
def _rule(place: str) -> Rule:
    module, _, name = place.partition(".")
    rule: Rule = getattr(import_module(f"explorer.formats.quantized.{module}"), name)
    return rule
