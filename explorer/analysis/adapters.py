"""LoRA adapters: which tensors they change, and how much, without forming the change.

An adapter adds ``scale * B @ A`` to a weight of rows x columns, with B rows x rank and A rank x
columns. The Frobenius norm of the product follows from two matrices of rank x rank:
``|B @ A|^2 = trace(A' B' B A) = sum((B' B) * (A A'))``, so that of a weight of 8,192 x 28,672 only
the two thin factors are read, a run of rows at a time.

Sources: llama.cpp, `llama-adapter.cpp` and `llama-adapter.h` (names, shapes, `get_scale`),
`convert_lora_to_gguf.py`; LyCORIS, `modules/loha.py`, `modules/locon.py` and `modules/lokr.py`;
PEFT, `tuners/lora/layer.py` (``alpha / r``, with rsLoRA ``alpha / sqrt(r)``); mlx-lm,
`tuner/lora.py` (both factors turned, and a scale of its own).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from explorer.analysis.matching import rules
from explorer.analysis.matching.pairing import Names, is_gguf, unwrapped
from explorer.errors import ExplorerError
from explorer.formats.attachments import KIND_OF_PART, factor_of, part_of
from explorer.formats.model import Model
from explorer.formats.side_files import ADAPTER_PREFIX
from explorer.formats.tensors import Shape, Tensor
from explorer.json_text import JsonLimits, decoded, parse_json
from explorer.parallel import Check, never

_ALPHA: Final = ".alpha"
_TAGS: Final = "ss_tag_frequency"
_MOST_TAGS: Final = 32
_TAG_LIMITS: Final = JsonLimits(containers=1 << 16, values=1 << 20, strings=1 << 20)
_OF_KOHYA: Final = re.compile(r"(?:lora|lycoris)_(?:unet_|te[123]?_|transformer_|prior_)?")
_OF_COMPONENT: Final = re.compile(
    r"\A(?:(?:model\.)?diffusion_model\.|cond_stage_model\.(?:transformer|model)\."
    r"|conditioner\.embedders\.\d+\.(?:transformer|model)\.|text_encoders\.\w+\.transformer\.)"
)
_MOST_RANK: Final = 1 << 13  # two such matrices of float64 take 1 GiB; real ranks end at some 512
_MATRIX: Final = 2  # dimensions
_MOST_PRODUCT: Final = 1 << 21  # weights that are multiplied out at once
_TUCKER: Final = "factors of convolutions in Tucker's form are not multiplied here"
_NOT_WORKED_OUT: Final = "what this kind of adapter changes is not worked out here"
_OF_EXPERTS: Final = (".lora_a", ".lora_b")
"""What names of factors end in that may be stacked; others of three sides are of convolutions."""


@dataclass(frozen=True, slots=True)
class Update:
    """What an adapter adds to one tensor.

    Attributes:
        name: The tensor that it changes, as the adapter names it.
        a: The factor that reads, or None.
        b: The factor that writes, or None.
        rank: What both share; 0 without `b`.
        scale: What the product is multiplied with.
        shape: Shape of the weight that it is added to, rows first; () if it is not known.
        flipped: Whether `a` has the rank in its columns, as GGUF has it for token embeddings.
        turned: Whether `b` has it in its rows, as mlx-lm has it, with `a` flipped.
        problem: Why it cannot be applied; "" if it can.
        parts: The factors of other kinds by their names (``"hada_w1_a"``), in place of both; what
            stands between both in a convolution; the magnitudes of a DoRA.
    """

    name: str
    a: Tensor | None
    b: Tensor | None
    rank: int
    scale: float
    shape: Shape
    flipped: bool = False
    turned: bool = False
    problem: str = ""
    parts: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def factors(self) -> tuple[Tensor, ...]:
        """All factors that there are, the one that writes first."""
        return tuple(one for one in (self.b, self.a, *self.parts.values()) if one is not None)

    @property
    def kind(self) -> str:
        """How the factors make the update: ``"lora"``, or what `KIND_OF_PART` says."""
        return KIND_OF_PART.get(next(iter(self.parts), ""), "lora")

    @property
    def nbytes(self) -> int:
        """Stored bytes of both factors."""
        return sum(tensor.nbytes for tensor in self.factors)


@dataclass(frozen=True)
class Adapter:
    """An adapter as its header describes it.

    Attributes:
        kind: What it calls itself, or its parts say: ``"lora"``.
        alpha: What the product is multiplied with, before it is divided by the rank; None if the
            file does not say.
        updates: What it changes, in the order of the file.
        others: Names of tensors that are no factors: norms, magnitudes, whole weights.
        base: The model that it was made for, as it says; "" if it does not.
        trigger: Words that call up what it learned, as it says; "" if it does not.
        tags: What its training pictures were described with, and how often, most often first.
    """

    kind: str
    alpha: float | None
    updates: tuple[Update, ...]
    others: tuple[str, ...]
    base: str = ""
    trigger: str = ""
    tags: tuple[tuple[str, int], ...] = ()

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks that occur, in rising order."""
        return tuple(sorted({update.rank for update in self.updates if update.rank}))

    @property
    def parameters(self) -> int:
        """Weights of all factors."""
        return sum(tensor.parameters for update in self.updates for tensor in update.factors)


def read_adapter(model: Model) -> Adapter:
    """Return what an adapter's header says; reads no weights."""
    factors: dict[str, list[Tensor | None]] = {}
    parts: dict[str, dict[str, Tensor]] = {}
    others, alphas = [], {}
    for tensor in model.tensors.rows:
        part = factor_of(tensor.name)
        if part is None and tensor.name.endswith(_ALPHA) and tensor.parameters == 1:
            alphas[f"{tensor.name.removesuffix(_ALPHA)}.weight"] = _stored_number(tensor)
        elif part is None and (other := part_of(tensor.name)):
            parts.setdefault(other[0], {})[other[1]] = tensor
        elif part is None:
            others.append(tensor.name)
        else:
            factors.setdefault(part[0], [None, None, None])[part[1]] = tensor
    alpha = _number(model, "adapter.lora.alpha")
    if alpha is None:
        alpha = _number(model, f"{ADAPTER_PREFIX}lora_alpha")
    rooted = model.metadata.get(f"{ADAPTER_PREFIX}use_rslora") is True
    whole = _number(model, f"{ADAPTER_PREFIX}lora_parameters.scale")  # mlx-lm's
    own = _own_alphas(model)
    updates = []
    for name, (a, b, between) in factors.items():
        update = _update(name, a, b, of_mlx=model.format != "gguf")
        this = next((value for end, value in own.items() if _ends(name, end)), alpha)
        scale = _scale(alphas.get(name, this), update.rank, rooted=rooted)
        update = replace(update, scale=scale if whole is None else whole)
        if between is not None:
            held = {"lora_mid": between}
            update = replace(update, shape=(), problem=_TUCKER, parts=held)
        if name in parts:  # magnitudes of a DoRA
            update = replace(update, problem=_NOT_WORKED_OUT, parts=parts.pop(name))
        updates.append(update)
    for name, held in parts.items():
        rank, problem = _rank_of_parts(held), _problem_of_parts(held)
        scale = _scale(alphas.get(name, alpha), rank, rooted=False)
        shape = () if problem else _shape_of_parts(held)
        updates.append(Update(name, None, None, rank, scale, shape, problem=problem, parts=held))
    if alpha is None and len(set(alphas.values())) == 1:
        alpha = next(iter(alphas.values()))
    kind = model.metadata.text("adapter.type") or model.metadata.text(f"{ADAPTER_PREFIX}peft_type")
    kinds = sorted({update.kind for update in updates})
    if (kind or "lora").casefold() == "lora" and kinds:  # PEFT calls a DoRA so, too
        kind = "/".join(kinds)
    return Adapter(
        kind=(kind or "lora").casefold(),
        alpha=alpha,
        updates=tuple(updates),
        others=tuple(others),
        base=_base_name(model),
        trigger=model.metadata.text("modelspec.trigger_phrase") or "",
        tags=_tags(model),
    )


def _tags(model: Model) -> tuple[tuple[str, int], ...]:
    """Return kohya's counts of tags, of all folders of pictures together."""
    text = model.metadata.text(_TAGS)
    if not text:
        return ()
    try:
        folders = parse_json(decoded(text.encode(), model.path, 0), _TAG_LIMITS)
    except (ExplorerError, UnicodeEncodeError):  # not what kohya writes
        return ()
    counts = Counter[str]()
    for folder in folders.values() if isinstance(folders, dict) else ():
        for tag, count in folder.items() if isinstance(folder, dict) else ():
            if isinstance(count, int) and 0 < count < 1 << 53:
                counts[tag.strip()] += count
    return tuple(counts.most_common(_MOST_TAGS))


# LyCORIS: the Hadamard product of two products (LoHa), the Kronecker product of two matrices (LoKr)


def _rank_of_parts(parts: Mapping[str, Tensor]) -> int:
    """Return the rank of the factors; 0 where both matrices of a LoKr are whole."""
    named = (parts.get(name) for name in ("hada_w1_b", "lokr_w2_b", "lokr_w1_b"))
    factor = next((one for one in named if one is not None), None)
    return 0 if factor is None or len(factor.shape) < _MATRIX else factor.shape[0]


def _problem_of_parts(parts: Mapping[str, Tensor]) -> str:
    """Return why the factors make no update; "" if they do."""
    kind = KIND_OF_PART[next(iter(parts))]
    if kind not in {"loha", "lokr"} or any("_t" in name for name in parts):
        return _TUCKER if kind in {"loha", "lokr"} else _NOT_WORKED_OUT
    if any(len(one.shape) < _MATRIX or 0 in one.shape for one in parts.values()):
        return "the factors are not matrices"
    pairs = ("hada_w1", "hada_w2") if "hada" in next(iter(parts)) else ("lokr_w1", "lokr_w2")
    for name in pairs:
        a, b, whole = (parts.get(f"{name}{end}") for end in ("_a", "_b", ""))
        if whole is not None:
            continue
        if a is None or b is None:
            return f"the factor {name} is missing"
        rank = b.shape[0]
        if len(a.shape) != _MATRIX or a.shape[1] != rank or not 0 < rank <= _MOST_RANK:
            return f"the factors do not fit: {list(a.shape)} and {list(b.shape)}"
    shapes = [_whole_shape(parts, name) for name in pairs]
    if pairs[0] == "hada_w1" and shapes[0] != shapes[1]:
        return f"the factors do not fit: {list(shapes[0])} and {list(shapes[1])}"
    return ""


def _whole_shape(parts: Mapping[str, Tensor], name: str) -> Shape:
    """Return the shape of one of the two matrices, as stored or as the product of its factors."""
    if name in parts:
        return parts[name].shape
    return (parts[f"{name}_a"].shape[0], *parts[f"{name}_b"].shape[1:])


def _shape_of_parts(parts: Mapping[str, Tensor]) -> Shape:
    if "hada" in next(iter(parts)):
        return _whole_shape(parts, "hada_w1")
    one, two = (_whole_shape(parts, name) for name in ("lokr_w1", "lokr_w2"))
    return (one[0] * two[0], one[1] * two[1], *two[2:])


def _norm_of_parts(update: Update, check: Check) -> float:
    """Return the norm of what is added; a Kronecker product has the product of both norms."""
    parts = update.parts
    if update.kind == "lokr":
        norms = [
            tensor_norm(parts[name], check)
            if name in parts
            else _norm_of_product(check, (parts[f"{name}_a"], parts[f"{name}_b"]))
            for name in ("lokr_w1", "lokr_w2")
        ]
        return abs(update.scale) * norms[0] * norms[1]
    pairs = [(parts[f"hada_w{n}_a"], parts[f"hada_w{n}_b"]) for n in "12"]
    return abs(update.scale) * _norm_of_product(check, *pairs)


def _norm_of_product(check: Check, *pairs: tuple[Tensor, Tensor]) -> float:
    """Return the norm of products of two factors, multiplied with each other; some rows a time."""
    factors = [(_matrix(one), _matrix(two)) for one, two in pairs]
    columns, rank = factors[0][1].shape[1], max(len(two) for _, two in factors)
    rows, total = max(1, _MOST_PRODUCT // max(columns, rank)), 0.0
    for start in range(0, len(factors[0][0]), rows):
        check()
        block = np.ones(())
        for one, two in factors:
            block = block * (one[start : start + rows] @ two)
        with np.errstate(over="ignore", invalid="ignore"):
            total += float((block * block).sum())
    return math.sqrt(total)


def _matrix(tensor: Tensor) -> NDArray[np.float64]:
    values = tensor.dequantize().astype(np.float64)
    return values.reshape(len(values), -1)


def _number(model: Model, key: str) -> float | None:
    entry = model.metadata.entry(key)
    if entry is None or entry.length is not None or entry.type_name in {"string", "bool"}:
        return None
    value = entry.value
    finite = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if finite and isinstance(value, int | float) else None


_NUMBERS: Final = {"BF16": "<f4", "F16": "<f2", "F32": "<f4", "F64": "<f8"}


def _stored_number(tensor: Tensor) -> float | None:
    """Return the one number of a tensor; None if it is none, or of a type that has none."""
    name = tensor.type.name
    if name not in _NUMBERS:
        return None
    raw = bytes(2 * (name == "BF16")) + tensor.read()
    found = float(np.frombuffer(raw, _NUMBERS[name])[0])
    return found if math.isfinite(found) else None


def _own_alphas(model: Model) -> dict[str, float]:
    """Return the alphas of single modules (PEFT's `alpha_pattern`), by the end of their names."""
    start = f"{ADAPTER_PREFIX}alpha_pattern."
    keys = (entry.key for entry in model.metadata.entries if entry.key.startswith(start))
    found = {key.removeprefix(start): _number(model, key) for key in keys}
    return {end: value for end, value in found.items() if value is not None}


def _ends(name: str, end: str) -> bool:
    module = name.removesuffix(".weight")
    return module == end or module.endswith(f".{end}")


def _scale(alpha: float | None, rank: int, *, rooted: bool) -> float:
    """Return alpha / rank; 1 without alpha, as llama.cpp has it (`get_scale`)."""
    if not alpha or not rank:
        return 1.0
    return alpha / (math.sqrt(rank) if rooted else rank)


def _sides(factor: Tensor | None) -> Shape:
    """Return the shape of a factor; of a convolution that of the matrix that it multiplies as."""
    if factor is None:
        return ()
    if len(factor.shape) <= _MATRIX or factor.name.endswith(_OF_EXPERTS):
        return factor.shape or (1,)
    return factor.shape[0], math.prod(factor.shape[1:])


def _update(name: str, a: Tensor | None, b: Tensor | None, *, of_mlx: bool) -> Update:
    """Return what two factors add, not scaled."""
    reads, writes = _sides(a), _sides(b)
    turned = of_mlx and b is not None and b.name.endswith(_OF_EXPERTS) and len(writes) == _MATRIX
    rank = writes[0 if turned else -1] if len(writes) > 1 else 0
    flipped = turned or _is_flipped(name, reads, rank)
    problem = _problem(reads, writes, rank, flipped=flipped)
    shape: Shape = ()
    if a is not None and not problem:
        inputs = reads[-2:-1] if flipped else reads[-1:] if a.shape == reads else a.shape[1:]
        outputs = writes[-1:] if turned else writes[:-1]
        shape = (*inputs, *outputs) if flipped and not turned else (*outputs, *inputs)
    return Update(name, a, b, rank, 1.0, shape, flipped, turned, problem)


def _is_flipped(name: str, reads: Shape, rank: int) -> bool:
    if not rank or len(reads) != _MATRIX or reads[1] != rank:
        return False
    return name.endswith("token_embd.weight") or reads[0] != rank


def _problem(reads: Shape, writes: Shape, rank: int, *, flipped: bool) -> str:
    if not reads or not writes:
        return f"the factor {'B' if reads else 'A'} is missing"
    if len(reads) < _MATRIX or len(writes) < _MATRIX or 0 in (*reads, *writes):
        return f"the factors are not matrices: {list(reads)} and {list(writes)}"
    if not 0 < rank <= _MOST_RANK:
        return f"a rank of {rank} is not in sight of real ones"
    batches = reads[:-2], writes[:-2]
    fits = reads[-1 if flipped else -2] == rank
    if not fits or (batches[0] != batches[1] and math.prod(batches[0]) != 1):
        return f"the factors do not fit: {list(reads)} and {list(writes)}"
    return ""


def _base_name(model: Model) -> str:
    keys = (
        *("general.base_model.0.name", f"{ADAPTER_PREFIX}base_model_name_or_path"),
        *("ss_sd_model_name", "ss_base_model_version", "modelspec.architecture"),
    )
    return next(filter(None, map(model.metadata.text, keys)), "")


# The norm of an update


def update_norm(update: Update, check: Check = never) -> float:
    """Return the Frobenius norm of what an update adds, ``scale * |B @ A|``.

    Of stacked experts it is that of all of them together. Memory is bounded by two matrices of
    rank x rank in float64 and a run of rows of a factor.

    Raises:
        ExplorerError: The factors do not fit, or cannot be decoded.
    """
    a, b = update.a, update.b
    if update.parts and not update.problem:
        return _norm_of_parts(update, check)
    if update.problem or a is None or b is None:
        raise ExplorerError(f"{update.name!r}: {update.problem}")
    grams_a = list(_grams(a, update.rank, rows=not update.flipped, check=check))
    total = 0.0
    for place, gram_b in enumerate(_grams(b, update.rank, rows=update.turned, check=check)):
        gram_a = grams_a[0 if len(grams_a) == 1 else place]
        with np.errstate(over="ignore", invalid="ignore"):
            total += float((gram_a * gram_b).sum())
    # rounding may leave a little less than nothing
    return abs(update.scale) * math.sqrt(total) if total > 0 else max(0.0, total)


def _grams(tensor: Tensor, rank: int, *, rows: bool, check: Check) -> Iterator[NDArray[np.float64]]:
    """Yield the matrix of rank x rank of each matrix of a factor.

    Args:
        tensor: The factor.
        rank: Its rank.
        rows: Whether its rows are the rank's (A A'), and not its columns (B' B).
        check: Called for each run of weights; raises to stop.
    """
    *stacked, one, two = _sides(tensor)
    size = one * two
    if rows:  # a thin matrix of long rows: all of it, up to the rank's bound
        values = tensor.dequantize().reshape(math.prod(stacked), one, two)
        check()
        for matrix in values:
            wide = matrix.astype(np.float64)
            yield wide @ wide.T
        return
    gram = np.zeros((rank, rank))
    held = np.zeros(0, np.float32)
    left = size
    for chunk in tensor.chunks():
        check()
        held = np.concatenate((held, chunk.values))
        while len(held):
            whole = min(left, len(held) // rank * rank)
            if not whole:
                break
            part = held[:whole].reshape(-1, rank).astype(np.float64)
            gram += part.T @ part
            held, left = held[whole:], left - whole
            if not left:
                yield gram
                gram, left = np.zeros((rank, rank)), size


# The base


def base_tensors(adapter: Adapter, base: Model) -> Mapping[str, Tensor]:
    """Return the tensors of a base that an adapter changes, by the name of the update.

    Names of PEFT are those of Hugging Face; a base in GGUF is matched by the rules of converters.
    """
    names = Names(base)
    found: dict[str, Tensor] = {}
    by_peft: dict[str, str] = {}
    if is_gguf(base):
        for name in names:
            role = names.role(name)
            for rule in rules.HUGGING_FACE.get(role.role, ()):
                one = [each.replace("{i}", role.layer) for each in rule.sources]
                if len(one) == 1 and "{e}" not in one[0]:
                    by_peft.setdefault(one[0].replace("{s}", role.suffix), name)
    by_kohya = {_joined(_OF_COMPONENT.sub("", name)): name for name in reversed(list(names))}
    for update in adapter.updates:
        plain = update.name if update.name in names else names.plain(update.name)
        name = plain if plain in names else by_peft.get(unwrapped(update.name), "")
        name = name or by_kohya.get(_joined(_OF_KOHYA.sub("", update.name, count=1)), "")
        if name in names:
            found[update.name] = names.tensor(name)
    return found


def _joined(name: str) -> str:
    """Return a name as kohya's trainers write it: with underscores for dots."""
    return name.removesuffix(".weight").replace(".", "_")


def tensor_norm(tensor: Tensor, check: Check = never) -> float:
    """Return the Frobenius norm of a tensor; raises as `Tensor.chunks` does."""
    total = 0.0
    for chunk in tensor.chunks():
        check()
        wide = chunk.values.astype(np.float64)
        total += float(wide @ wide)
    return math.sqrt(total) if total >= 0 else math.nan
