"""Which quant of a model to take: what belongs together, and one recommendation with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from explorer.errors import Choice, FormatError
from explorer.planner.plans import Level
from explorer.present.fits import Target
from explorer.present.tables.quants import UNREAD, ListedModel
from explorer.sources import Address
from explorer.sources.remote.addresses import HUB, REGISTRY, HubPart, parse_address
from explorer.stores.entries import Entry
from explorer.text import bits_text, plain_text, sentence, shorten

_SHARD: Final = re.compile(r"-\d{5}-of-\d{5}$")
_ENDING: Final = re.compile(r"\.(gguf|safetensors)$|-gguf$")
_QUANT: Final = re.compile(r"[-_.](ud-)?(i?q\d\w*|tq\d\w*|b?f16|fp?(8|16|32)|mxfp4\w*)$")
_NO_NAMES: Final = frozenset({"", "model", "ggml-model", "main", "latest"})
_ENOUGH_BITS: Final = 9.0
"""Bits per weight from which on more gain next to nothing: Q8_0 has 8.5."""
_FEW_BITS: Final = 3.5
"""Bits per weight below which quality falls steeply. llama.cpp's table of Llama 2 70B: perplexity
grows by 1.2 % at 4.80 bits, 4.7 % at 3.85, 7.9 % at 3.47 (its README of `examples/quantize`)."""
_GOOD_SPEED: Final = 10.0
"""Tokens per second, of the low end, that are quick enough to read along."""
_UNQUANTIZED_BITS: Final = 15.9
_LONGEST: Final = 60
_HUB_PARTS: Final = 2  # owner and repository


def stem_of(name: str) -> str:
    """Return what all quants of a model are called alike: "qwen3-8b"; empty where nothing is.

    >>> stem_of("unsloth/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf"), stem_of("qwen3:8b-q4_K_M")
    ('qwen3-8b', 'qwen3:8b')
    """
    stem = name.rpartition("/")[2].partition("@")[0].casefold()
    for ending in (_ENDING, _SHARD, _QUANT):
        stem = ending.sub("", stem)
    return "" if stem in _NO_NAMES else stem


def quants_of(path: Path, entries: Iterable[Entry]) -> list[Choice]:
    """Return the downloaded quants of a model; itself alone where nothing else is called alike."""
    known = [entry for entry in entries if entry.format is not None]
    own = next((entry for entry in known if entry.path == path), None)
    if own is None:
        own = Entry(path.name, path, "gguf", 0, None)
        known.append(own)
    stem = stem_of(own.name)
    alike = [one for one in known if one is own or (stem and stem_of(one.name) == stem)]
    folders = {one.name.rpartition("/")[0] for one in alike}
    start = len(folders.pop()) + 1 if len(folders) == 1 and "/" in alike[0].name else 0
    return [Choice(one.path, one.name[start:], one.nbytes) for one in alike]


def address_of(path: Path, name: str, *, of_ollama: bool = False) -> Address | None:
    """Return the address at which the web lists all quants of a model; None where none is known.

    Args:
        path: The model, of this machine or of the web.
        name: Its name in its store.
        of_ollama: Whether that is a name of Ollama.
    """
    if isinstance(path, Address):
        if path.scheme == HUB:
            return HubPart.of(path).address()
        of_ollama, name = path.scheme == REGISTRY, path.rest
    parts = name.partition("@")[0].split("/")
    try:
        if of_ollama:
            return parse_address(f"{REGISTRY}://{name.rpartition(':')[0] or name}")
        if len(parts) > _HUB_PARTS and not isinstance(path, Address):
            return parse_address(f"{HUB}://{'/'.join(parts[:_HUB_PARTS])}")
    except FormatError:  # folders of the user's own, with names that no repository has
        return None
    return None


def original_among(choices: Sequence[ListedModel]) -> int | None:
    """Return the place of the model that was not quantized, of this machine; None without one."""
    here = [at for at, one in enumerate(choices) if not isinstance(one.path, Address)]
    best = max(here, key=lambda at: choices[at].bits, default=None)
    return best if best is not None and choices[best].bits >= _UNQUANTIZED_BITS else None


class Recommendation(NamedTuple):
    """Which of several quants to take.

    Attributes:
        place: Its place among them; None where none can be taken.
        sentence: The name, and why.
    """

    place: int | None
    sentence: str


def recommend(choices: Sequence[ListedModel], target: Target) -> Recommendation | None:
    """Say which quant to take: of those that fit whole, the one with the most bits per weight.

    More than `_ENOUGH_BITS` are not worth their bytes. Where it has less than `_FEW_BITS`, one that
    fits partly, has more and reaches `_GOOD_SPEED` is better. Where none fits whole, it is the
    fastest. None until the headers of all were read.
    """
    at = f"with {target.asked_text}"
    if not choices or any(one.version is UNREAD for one in choices):
        return None
    whole = [place for place, one in enumerate(choices) if one.fit.level is Level.FITS]
    if whole:
        few = [place for place in whole if choices[place].bits <= _ENOUGH_BITS]
        best = max(few, key=lambda place: choices[place].bits, default=-1)
        best = min(whole, key=lambda place: choices[place].bits) if best < 0 else best
        usable = [place for place, one in enumerate(choices) if _is_usable(one)]
        if choices[best].bits < _FEW_BITS and usable:
            better = max(usable, key=lambda place: choices[place].bits)
            return Recommendation(better, _rather(choices[better], choices[best], at))
        more = "" if len(few) == len(whole) else ". More gain next to nothing"
        bits = bits_text(choices[best].bits)
        why = f"It has the most bits per weight ({bits}) of those that fit {at}{more}."
        if len(choices) == 1:
            why = f"It fits {at}."
        return Recommendation(best, f"Take {_name(choices[best])}. {why}{_speed(choices[best])}")
    if all(one.fit.level is None for one in choices):
        which = "any of them" if len(choices) > 1 else "it"
        return Recommendation(None, f"There is no plan for {which}.")
    partly = [place for place, one in enumerate(choices) if one.fit.level is Level.PARTLY]
    if not partly:
        return Recommendation(None, f"{_none(choices)} {at}.")
    best = max(partly, key=lambda place: _most_speed(choices[place]))
    fastest = f"Take {_name(choices[best])}, which runs fastest" if len(choices) > 1 else "It runs"
    why = f"{fastest} with {choices[best].fit.part}."
    return Recommendation(best, f"{_none(choices)} whole {at}. {why}{_speed(choices[best])}")


def _is_usable(choice: ListedModel) -> bool:
    """Return whether one that fits partly has enough bits and is quick enough."""
    likely = None if choice.fit.speed is None else choice.fit.speed.empty.likely
    enough = choice.fit.level is Level.PARTLY and _FEW_BITS <= choice.bits <= _ENOUGH_BITS
    return enough and likely is not None and likely[0] >= _GOOD_SPEED


def _rather(choice: ListedModel, whole: ListedModel, at: str) -> str:
    """Say why to take one that fits partly, where the best that fits whole has few bits."""
    return (
        f"Take {_name(choice)}: it fits partly ({choice.fit.part}) {at} and runs at "
        f"{choice.fit.speed.words if choice.fit.speed else ''}. {_name(whole)} fits whole, but has "
        f"{bits_text(whole.bits)} bits per weight, which costs much quality."
    )


def _none(choices: Sequence[ListedModel]) -> str:
    return "None of them fits" if len(choices) > 1 else "It does not fit"


def _name(choice: ListedModel) -> str:
    return shorten(plain_text(choice.name.rpartition("/")[2]), _LONGEST)


def _most_speed(choice: ListedModel) -> float:
    return 0.0 if choice.fit.speed is None else choice.fit.speed.most


def _speed(choice: ListedModel) -> str:
    return "" if choice.fit.speed is None else f" {sentence(choice.fit.speed.words)}."
