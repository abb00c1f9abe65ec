"""The caches of mlx-lm while it reads a prompt and generates: docs/planner.md, section 18.

Sources: mlx-lm 0.32.2, `models/cache.py` and the `make_cache` of each model. A cache grows by what
each call brings, so its size follows from the calls, which are repeated here without their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from explorer.errors import PlanError
from explorer.planner.folder import Folder
from explorer.planner.layers import State, kv_sizes, layer_kinds, state_elements
from explorer.text import integer_text

PIECE: Final = 2048
"""Tokens of a prompt that are read at once."""

BITS: Final = (2, 3, 4, 5, 6, 8)
"""Bits of a value that a quantized cache may have."""

_GROWTH: Final = 256
_KEPT: Final = 4  # first tokens that a cache of limited size always keeps
_WIDE: Final = 2
_FLOAT: Final = 4
_NO_ROTATING: Final = "RotatingKVCache Quantization NYI"


@dataclass(frozen=True, slots=True)
class Architecture:
    """How mlx-lm makes the caches of an architecture.

    Attributes:
        own: Whether the model makes its caches itself, and so ignores a limited size.
        windows: Whether layers with a window keep no more than that.
        by_pattern: Whether the config's list of layers is not looked at.
        state: What layers without attention keep, or None.
        latent: Whether the cache is the latent of MLA.
        unquantized: Why a quantized cache fails; empty where it works.
    """

    own: bool = False
    windows: bool = False
    by_pattern: bool = False
    state: State | None = None
    latent: bool = False
    unquantized: str = ""


_PLAIN: Final = Architecture()
_OWN: Final = Architecture(own=True, windows=True)
_DELTA: Final = Architecture(own=True, state=State.GATED_DELTA)
_MAMBA: Final = Architecture(own=True, state=State.MAMBA2)

ARCHITECTURES: Final[Mapping[str, Architecture]] = MappingProxyType(
    {
        "llama": _OWN,
        "mistral": _OWN,
        **dict.fromkeys(("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "mixtral", "phi3"), _PLAIN),
        **dict.fromkeys(("granite", "granitemoe", "olmo2", "glm4", "glm4_moe", "gemma"), _PLAIN),
        "gemma2": replace(_PLAIN, unquantized="its soft cap of attention takes no such cache"),
        "gemma3_text": replace(_OWN, by_pattern=True),
        "gpt_oss": _OWN,
        "olmo3": _OWN,
        "cohere2": replace(_OWN, by_pattern=True),
        "deepseek_v2": _PLAIN,
        "deepseek_v3": Architecture(latent=True, unquantized="its attention takes no such cache"),
        "lfm2": Architecture(own=True, state=State.SHORT_CONV),
        "granitemoehybrid": _MAMBA,
        "nemotron_h": _MAMBA,
        **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), _DELTA),
    }
)
"""`model_type` → how mlx-lm makes its caches."""


def architecture_of(folder: Folder) -> Architecture:
    """Return how mlx-lm makes the caches; raise `PlanError` where that is not known."""
    return folder.built_by("mlx-lm", ARCHITECTURES)


class Quantized(NamedTuple):
    """A quantized cache.

    Attributes:
        bits: Bits of a value, one of `BITS`.
        group: Values of a group, which share a scale and a bias.
        start: Tokens from which it is one.
        fails: Why the model cannot use it; empty where it can.
    """

    bits: int
    group: int = 64
    start: int = 5000
    fails: str = ""


class LayerCache(NamedTuple):
    """The cache of a layer.

    Attributes:
        lengths: Elements of a token: of its keys, and of its values.
        heads: Key and value heads.
        window: Tokens that it keeps; 0 for all.
        kept: First tokens that it always keeps.
        fixed: Bytes that it has from the first call on, whatever the tokens.
    """

    lengths: tuple[int, int] = (0, 0)
    heads: int = 0
    window: int = 0
    kept: int = 0
    fixed: int = 0


def layer_caches(
    folder: Folder, limit: int = 0, architecture: Architecture | None = None
) -> Mapping[LayerCache, int]:
    """Return the caches of a model, and how many layers have each.

    `limit` is `--max-kv-size`, 0 for none; it counts where a model makes no caches of its own.
    `architecture` is how they are made, None as mlx-lm makes them.
    """
    architecture, found = architecture or architecture_of(folder), dict[LayerCache, int]()
    kinds = layer_kinds(folder, by_pattern=architecture.by_pattern)
    heads, lengths = kv_sizes(folder, latent=architecture.latent)
    window = folder.number("sliding_window", default=0) if architecture.windows else 0
    for kind in kinds:
        if kind == "state" and architecture.state is not None:
            convolved, held = state_elements(folder, architecture.state)
            cache = LayerCache(fixed=convolved * _WIDE + held * _FLOAT)
        elif kind == "local" and window:
            cache = LayerCache(lengths, heads, window)
        elif kind:
            kept = _KEPT if limit and not architecture.own else 0
            cache = LayerCache(lengths, heads, 0 if architecture.own else limit, kept)
        else:
            continue
        found[cache] = found.get(cache, 0) + 1
    return found


@dataclass
class _Held:
    """A cache as calls fill it: tokens that have room, tokens that came, the next place."""

    cache: LayerCache
    size: int = 0
    offset: int = 0
    place: int = field(default=0)
    quantized: Quantized | None = None

    def take(self, tokens: int) -> None:
        """Take a call of so many tokens."""
        if not self.cache.heads:
            return
        if not self.cache.window:
            self._grow(tokens)
        elif tokens > 1:
            self._join(tokens)
        else:
            self._turn()
        self.offset += tokens

    def _grow(self, tokens: int) -> None:
        if self.offset + tokens > self.size:
            before = self.size if self.offset % _GROWTH == 0 else self.offset
            self.size = before + _GROWTH * -(-tokens // _GROWTH)

    def _join(self, tokens: int) -> None:
        """Put a piece of a prompt behind what the window still needs."""
        held = min(self.size, self.place) if self.place >= self.offset else self.size
        self.size = min(held, self.cache.window - 1) + tokens
        self.place = self.size

    def _turn(self) -> None:
        """Put one token into its place, which comes round again."""
        window = self.cache.window
        if self.offset >= self.size < window:
            self.size += min(_GROWTH, window - self.offset)
            self.place = self.offset
        if self.size > window:
            self.size = self.place = window
        if self.place == window:
            self.place = self.cache.kept
        self.place += 1

    @property
    def nbytes(self) -> int:
        if not self.cache.heads:
            return self.cache.fixed
        if self.quantized is None:
            return self.size * self.cache.heads * sum(self.cache.lengths) * _WIDE
        bits, group = self.quantized.bits, self.quantized.group
        each = (length * bits // 8 + 2 * (length // group) * _WIDE for length in self.cache.lengths)
        return self.size * self.cache.heads * sum(each)


class Moments(NamedTuple):
    """Bytes of all caches: at the end, and at the largest moment."""

    held: int
    largest: int


def run_caches(
    caches: Mapping[LayerCache, int],
    prompt: int,
    generated: int = 0,
    *,
    piece: int = PIECE,
    quantized: Quantized | None = None,
) -> Moments:
    """Return what caches hold after a prompt and some generated tokens.

    Args:
        caches: The caches, and how many layers have each.
        prompt: Tokens of the prompt; all but the last are read in pieces.
        generated: Tokens that were generated and put back.
        piece: Tokens of a piece.
        quantized: How caches are quantized; None for not at all.

    Raises:
        PlanError: A cache cannot be quantized, which fails while it generates.
    """
    held = [(_Held(cache), count) for cache, count in caches.items()]
    largest = total = 0
    for tokens in _calls(prompt, generated, piece):
        for one, _ in held:
            one.take(tokens)
            if quantized is not None and one.cache.heads and one.quantized is None:
                _quantize(one, quantized)
        total = sum(one.nbytes * count for one, count in held)
        largest = max(largest, total)
    return Moments(total, largest)


def read_caches(
    caches: Mapping[LayerCache, int], tokens: int, quantized: Quantized | None = None
) -> int:
    """Return the bytes that a token reads of all caches that hold so many tokens before it."""
    if quantized is not None and tokens < quantized.start:
        quantized = None
    sizes = (
        _Held(one, min(tokens, one.window or tokens), quantized=quantized).nbytes * count
        for one, count in caches.items()
    )
    return sum(sizes)


def _calls(prompt: int, generated: int, piece: int) -> Iterator[int]:
    left = prompt - 1
    while left > 0:
        yield min(piece, left)
        left -= piece
    yield from (1 for _ in range(1 + generated))


def _quantize(one: _Held, quantized: Quantized) -> None:
    """Quantize a cache from its start on."""
    if one.offset < quantized.start:
        return
    tokens = integer_text(max(1, quantized.start))
    if one.cache.window:
        raise PlanError(f"mlx-lm fails from {tokens} tokens on: {_NO_ROTATING}")
    if quantized.fails:
        raise PlanError(
            f"mlx-lm fails from {tokens} tokens on with a quantized cache: {quantized.fails}"
        )
    check_groups(one.cache.lengths, quantized.group)
    one.quantized = quantized


def check_groups(lengths: Sequence[int], group: int) -> None:
    """Raise `PlanError` if values of a head make no whole number of groups."""
    for length in lengths:
        if length % group:
            raise PlanError(
                f"mlx-lm cannot quantize a cache whose heads have {length} values in groups of "
                f"{group}; use --kv-group-size 32 or 64"
            )
