"""Which tensors of two models belong together, and how one is seen as the other.

Between models of one format equal names come first, and what is left is made of the other model's
tensors by `rules`. Between GGUF and Hugging Face rules come first, and GGUF's tensors are made,
since converters make them so. A shape that does not fit after all is reported, not compared.

And which model another one was quantized from, as far as names and sizes tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from explorer.analysis.matching import rules
from explorer.analysis.matching.rules import NotComparable, Rule, Rules, TargetTensor
from explorer.analysis.matching.views import TensorView, without_ones
from explorer.formats.facts import Facts
from explorer.formats.model import Model
from explorer.formats.tensors import Tensor
from explorer.model_files import hub_name

# Prefixes of Hugging Face's names, which rules leave out: `model.` usually, `model.language_model.`
# or `language_model.model.` where the model sees pictures too.
_WRAPPERS: Final = re.compile(r"^(?:(?:model|language_model|text_model|transformer)\.)+")
_GGUF_LAYER: Final = re.compile(r"^blk\.(?P<layer>\d{1,9})\.(?P<rest>.+)$", re.DOTALL)
_LAYER: Final = re.compile(r"^(?:layers|h)\.(?P<layer>\d{1,9})\.(?P<rest>.+)$", re.DOTALL)
_MAX_NAME: Final = 512  # a longer name is no name of the field, and a pattern takes its time on it
_MAX_EXPERTS: Final = 1 << 14  # rules name experts until one is missing


class Role(NamedTuple):
    """What a name says.

    Attributes:
        layer: Its layer, as the name spells it; "" outside of layers.
        role: What is left without layer and suffix.
        suffix: ``"weight"`` or ``"bias"``; a name without either is a weight's.
    """

    layer: str
    role: str
    suffix: str


def unwrapped(name: str) -> str:
    """Return a name of Hugging Face without what stands before the layers, as rules have it."""
    return name if len(name) > _MAX_NAME else _WRAPPERS.sub("", name)


class Names:
    """The tensors of a model by name.

    Attributes:
        model: The model.
        gguf: Whether names are those of GGUF, and not of Hugging Face.
        tied: Whether a model without an output matrix has the token embedding for it.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.gguf = is_gguf(model)
        self.tied = self.gguf or _ties(model)
        self._rows: dict[str, int] = {}
        for row, name in enumerate(model.tensors.columns.names):
            self._rows.setdefault(self.plain(name), row)

    def plain(self, name: str) -> str:
        """Return a name as rules know it."""
        return name if self.gguf else unwrapped(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def tensor(self, name: str) -> Tensor:
        return self.model.tensors.rows[self._rows[name]]

    def role(self, name: str) -> Role:
        """Return what a name says; any text is accepted."""
        match = (
            None if len(name) > _MAX_NAME else (_GGUF_LAYER if self.gguf else _LAYER).match(name)
        )
        layer, rest = ("", name) if match is None else (match["layer"], match["rest"])
        role, dot, suffix = rest.rpartition(".")
        if dot and suffix in {"weight", "bias"}:
            return Role(layer, role, suffix)
        return Role(layer, rest, "weight")

    def find(self, patterns: Sequence[str], role: Role) -> list[str] | None:
        """Return the names that patterns stand for, or None if one is missing; see `Rule`."""
        filled = [one.replace("{i}", role.layer).replace("{s}", role.suffix) for one in patterns]
        if not any("{e}" in one for one in filled):
            return filled if all(one in self for one in filled) else None
        found: list[str] = []
        for expert in range(_MAX_EXPERTS):
            names = [one.replace("{e}", str(expert)) for one in filled]
            if not all(one in self for one in names):
                break
            found += names
        return found or None


def is_gguf(model: Model) -> bool:
    """Return whether a model's tensors have GGUF's names."""
    if model.metadata.text("general.architecture") is not None:
        return True
    return any(name.startswith("blk.") for name in model.tensors.columns.names)


def _ties(model: Model) -> bool:
    inner = model.config.get("text_config")
    configs = (model.config, inner if isinstance(inner, dict) else {})
    return any(config.get("tie_word_embeddings") is True for config in configs)


_One = TypeVar("_One")


@dataclass(frozen=True, slots=True)
class Match:
    """Two views of as many weights in the same order."""

    reference: TensorView
    candidate: TensorView


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Tensors that are not compared, though they belong together or are known.

    Attributes:
        reference_name: Name of the reference's tensor, or None.
        candidate_name: Name of the candidate's tensor, or None.
        reason: Why not.
    """

    reference_name: str | None
    candidate_name: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Matching:
    """How the tensors of two models belong together.

    Attributes:
        matches: Pairs to compare, in the order of the reference's file (of GGUF's, if one is).
        not_comparable: Tensors that are known to differ or not to fit, with the reason.
        unmatched_reference: Names of the reference's other tensors.
        unmatched_candidate: The same of the candidate.
    """

    matches: tuple[Match, ...]
    not_comparable: tuple[Mismatch, ...]
    unmatched_reference: tuple[str, ...]
    unmatched_candidate: tuple[str, ...]


def match_models(reference: Model, candidate: Model) -> Matching:
    """Match the tensors of two models by name, whatever format each has. Reads no weights."""
    one, other = Names(reference), Names(candidate)
    if one.gguf == other.gguf:
        table = rules.BETWEEN_GGUF if one.gguf else rules.BETWEEN_HUGGING_FACE
        first, back = _Pairing(one, other), _Pairing(other, one, turned=True)
        first.by_name()
        first.by_rules(table)
        back.targets, back.sources = first.sources, first.targets
        back.by_rules(table)
        pairings = [first, back]
    else:
        turned = other.gguf
        first = _Pairing(other, one, turned=True) if turned else _Pairing(one, other)
        first.by_rules(_rules(first.target.model))
        first.by_name()  # models other than language models keep their names in GGUF
        pairings = [first]
    left, right = first.targets, first.sources
    if first.turned:
        left, right = right, left
    mismatches = [mismatch for pairing in pairings for mismatch in pairing.mismatches]
    mismatches += [Mismatch(name, None, reason) for name, reason in _known(one, left)]
    mismatches += [Mismatch(None, name, reason) for name, reason in _known(other, right)]
    return Matching(
        matches=tuple(match for pairing in pairings for match in pairing.matches),
        not_comparable=tuple(mismatches),
        unmatched_reference=tuple(one.tensor(name).name for name in left),
        unmatched_candidate=tuple(other.tensor(name).name for name in right),
    )


def _rules(model: Model) -> Rules:
    if model.architecture in rules.INTERLEAVED:
        return {**rules.HUGGING_FACE, **rules.INTERLEAVED_EXPERTS}
    return rules.HUGGING_FACE


def _known(names: Names, rest: dict[str, None]) -> Iterator[tuple[str, str]]:
    """Take out of `rest` what has no counterpart by nature; yield name and reason."""
    for name in list(rest):
        if names.gguf and names.role(name).role in rules.COMPUTED:
            reason = "the converter computes it from the configuration"
        elif not names.gguf and name.endswith(rules.BUFFERS):
            reason = "it holds no weights, and converters leave it out"
        else:
            continue
        del rest[name]
        yield names.tensor(name).name, reason


class _Pairing:
    """Makes one model's tensors (targets) of another one's (sources).

    Attributes:
        target: The model whose tensors are made.
        source: The other one.
        turned: Whether the targets are the candidate's.
        targets: Names that are not matched yet.
        sources: The same on the other side.
        matches: What was found.
        mismatches: What belongs together and cannot be compared.
    """

    def __init__(self, target: Names, source: Names, *, turned: bool = False) -> None:
        self.target = target
        self.source = source
        self.turned = turned
        self.targets = dict.fromkeys(target)
        self.sources = dict.fromkeys(source)
        self.matches: list[Match] = []
        self.mismatches: list[Mismatch] = []
        self._used: set[str] = set()

    def by_name(self) -> None:
        """Match what has the same name on both sides."""
        for name in list(self.targets):
            if name in self.sources:
                self._try(name, [name], Rule(rules.same, (name,)))
        self._forget_used()

    def by_rules(self, table: Rules) -> None:
        """Match what rules make; a source may be used for several targets."""
        for name in list(self.targets):
            role = self.target.role(name)
            for rule in table.get(role.role, ()):
                names = self._sources(rule, role)
                if names is not None:
                    self._try(name, names, rule)
                    break
        self._forget_used()

    def _forget_used(self) -> None:
        for name in self._used:
            self.sources.pop(name, None)

    def _sources(self, rule: Rule, role: Role) -> list[str] | None:
        if role.suffix not in rule.suffixes or (rule.make is rules.tied and not self.source.tied):
            return None
        return self.source.find(rule.sources, role)

    def _try(self, name: str, names: list[str], rule: Rule) -> None:
        target = self.target.tensor(name)
        del self.targets[name]
        self._used.update(names)
        try:
            _check_factors(self.target, [name])
            _check_factors(self.source, names)
            made = self._view(rule, names, name)
            reference, candidate = self._in_order(TensorView.of(target), made)
            _check_shapes(reference, candidate)
        except NotComparable as error:
            one, other = self._in_order(target.name, self._called(names))
            self.mismatches.append(Mismatch(one, other, str(error)))
        else:
            self.matches.append(Match(reference, candidate))

    def _in_order(self, target: _One, source: _One) -> tuple[_One, _One]:
        """Return what belongs to the reference, and what to the candidate."""
        return (source, target) if self.turned else (target, source)

    def _view(self, rule: Rule, names: list[str], name: str) -> TensorView:
        tensor = self.target.tensor(name)
        sources = [self.source.tensor(one) for one in names]
        try:
            made = rule.make(self._wanted(tensor, name), sources)
            shape = made.parts[0].shape if made.shape is None else made.shape
            return TensorView(self._called(names), shape, made.parts, made.notes)
        except (ValueError, IndexError, ZeroDivisionError) as error:
            # rules do not check shapes
            shapes = ", ".join(str(list(source.shape)) for source in sources[:4])
            reason = f"shapes do not fit: {list(tensor.shape)} of {shapes}"
            raise NotComparable(reason) from error

    def _called(self, names: Sequence[str]) -> str:
        first = self.source.tensor(names[0]).name
        if len(names) == 1:
            return first
        return f"{first} … {self.source.tensor(names[-1]).name} ({len(names)} tensors)"

    def _wanted(self, tensor: Tensor, name: str) -> TargetTensor:
        model = self.target.model
        architecture = model.architecture if self.target.gguf else None
        if architecture not in rules.PERMUTED:
            return TargetTensor(tensor, shifted=architecture in rules.SHIFTED)
        role = self.target.role(name)
        layer = int(role.layer) if role.layer else 0
        heads = _heads(model, "head_count", layer)
        kv_heads = _heads(model, "head_count_kv", layer)
        return TargetTensor(
            tensor, permuted=True, heads=heads, kv_heads=heads if kv_heads is None else kv_heads
        )


def _check_factors(names: Names, of: Sequence[str]) -> None:
    """Raise if a factor that belongs to tensors' weights is not among them."""
    for name in of:
        kind = names.tensor(name).type.name
        factors: list[str] = []
        if names.gguf and kind == "NVFP4":
            factors = [name.removesuffix(".weight") + ".scale"]
        elif not names.gguf and kind.startswith("F8"):
            factors = [name + end for end in rules.SCALES]
        for factor in factors:
            if factor in names:
                called = names.tensor(factor).name
                raise NotComparable(f"the scales in {called!r} are not applied to the weights")


def _check_shapes(reference: TensorView, candidate: TensorView) -> None:
    if without_ones(reference.shape) != without_ones(candidate.shape):
        shapes = f"{list(reference.shape)} and {list(candidate.shape)}"
        raise NotComparable(f"shapes differ: {shapes}")


def _heads(model: Model, key: str, layer: int) -> int | None:
    """Return a number of heads, which may differ from layer to layer."""
    name = f"{model.architecture}.attention.{key}"
    entry = model.metadata.entry(name)
    if entry is None:
        return None
    if entry.length is None:
        return model.metadata.integer(name)
    value = entry.value
    if not isinstance(value, Sequence) or layer >= len(value):
        return None
    found = value[layer]
    return found if isinstance(found, int) else None


_STORED_AS: Final = re.compile(
    r"(?:^|[-_. :/@]+)(?:gguf|mlx|awq|gptq|exl[23]|hf|ud|i1|imat|imatrix|main|latest|"
    r"quantized|[wa]\d+(?:a\d+)?|u?int\d|\d-?bits?|b?f(?:p|loat)?(?:4|8|16|32)|(?:mx|nv)fp\d(?:_moe)?|"
    r"(?:i|t)?q\d(?:_[01])?(?:_?[a-z0-9]{1,4}){0,2}|"
    r"\d{5}-of-\d{5}|safetensors|index|json)$"
)
"""An end of a name that says how weights are stored, or in how many files."""
_OF_ALL: Final = frozenset(
    {"model", "pytorchmodel", "diffusionpytorchmodel", "consolidated", "weights"}
    | {"ggmlmodel", "unsloth"}  # as converters call what they write
)
"""What files of many models are called."""
_LONGEST_NAME: Final = 256
_LEAST_NAME: Final = 4  # letters and digits: fewer tell no model from another
_PLAIN_BITS: Final = 15.0  # for each weight: such weights are stored as F16, BF16 or F32
_SAME_SIZE: Final = 0.05  # of the weights: converters leave out buffers, and what is there twice


def base_name(name: str) -> str:
    """Return a model's name without how its weights are stored, in letters and digits alone.

    ``"gemma-3-270m-it-Q4_K_M.gguf"`` and ``"Gemma 3 270m It"`` are both ``"gemma3270mit"``. What
    tells no model from another, such as ``"model.safetensors"``, is "".
    """
    rest, before = name[:_LONGEST_NAME].casefold(), ""
    while rest != before:
        before, rest = rest, _STORED_AS.sub("", rest)
    letters = "".join(filter(str.isalnum, rest))
    return "" if len(letters) < _LEAST_NAME or letters in _OF_ALL else letters


def base_names(path: Path, title: str) -> set[str]:
    """Return what a model may be called, by where it lies.

    Args:
        path: Its file or folder; of a hub cache the repository's name counts, and of a file that
            is called like many others (``model.safetensors``) its folder's.
        title: What its store or the program calls it: ``"gemma3:270m"``, ``"owner/name"``.
    """
    repository = next(filter(None, map(hub_name, reversed(path.parts))), "")
    names = [name.rpartition("/")[2].partition("@")[0] for name in (title, repository)]
    if not any(map(base_name, names)):
        names.append(path.parent.name)
    return {base for base in map(base_name, names) if base}


def is_quantized(facts: Facts) -> bool:
    """Return whether weights are stored in fewer bits than models are trained in, if any are."""
    return (facts.bits_per_weight or 0.0) < _PLAIN_BITS


def is_original(candidate: Facts, names: Set[str], model: Facts, own: Set[str]) -> bool:
    """Return whether one model is what another was quantized from, as far as can be told.

    It is not quantized, it has the other's shape, and where it lies it is called as the other is;
    names in files alone are no evidence: many derived models keep their base model's.

    Args:
        candidate: What may be the original.
        names: Its `base_names`.
        model: The other one.
        own: Its `base_names`.
    """
    stated = [{base_name(facts.name)} if facts.name else set() for facts in (candidate, model)]
    if not (names & own or names & stated[1] or stated[0] & own):
        return False
    if is_quantized(candidate) or not is_quantized(model):
        return False
    sizes = candidate.parameters or 0, model.parameters or 0
    return (
        (candidate.layers, candidate.embedding_length, candidate.experts)
        == (model.layers, model.embedding_length, model.experts)
    ) and abs(sizes[0] - sizes[1]) <= _SAME_SIZE * max(sizes)
