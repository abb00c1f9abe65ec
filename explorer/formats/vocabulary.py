"""The vocabulary that a GGUF file carries: tokens, scores, types and special ids.

Keys are those of docs/gguf.md section 9. Files lie: arrays of a vocabulary differ in length, tokens
are numbers, ids point beyond the end. What can be used is used, and the rest is a problem to show.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from itertools import compress, repeat
from operator import contains
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from explorer.formats.facts import TOKEN_TYPE_KEY, TOKEN_TYPES
from explorer.formats.model import (
    Metadata,
    Model,
    NumberArray,
    Problem,
    Severity,
    StringArray,
    decode_text,
)
from explorer.formats.tensor_filter import in_ranges, parse_bounds, parse_ranges
from explorer.parallel import Check, never
from explorer.text import plain_text

SPACE_MARK: Final = "\u2581"
"""What stands for a space in SentencePiece: a lower one eighth block."""

NO_TYPE: Final = -1
"""In place of a token type that the file does not give."""

_LITERAL_TYPES: Final = frozenset(
    {2, 3, 4}
)  # unknown, control, user-defined (docs/gguf.md section 9)
_BYTE_TYPE: Final = 6

_BYTE_TOKEN: Final = re.compile("<0x([0-9A-Fa-f]{2})>")
_RWKV_ESCAPE: Final = re.compile(rb"\\(?:x([0-9a-f]{2})|(.))", re.DOTALL)
_RWKV_NAMED: Final = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}


class Scheme(Enum):
    """How a tokenizer writes what its tokens stand for (llama.cpp, src/llama-vocab.cpp).

    Control and user-defined tokens stand for themselves in all of them.

    Attributes:
        BYTE_LEVEL: Each byte is one printable character of a table of 256 (GPT-2, src/encoder.py,
            `bytes_to_unicode`), so that a space is ``Ġ``.
        SPACE_MARK: SentencePiece and kin: a space is ``▁``, a byte is ``<0x0A>``.
        HASHES: WordPiece of older files: ``##`` before all pieces of a word but the first. Newer
            ones write ``▁`` before the first.
        RWKV: Escapes, ``\\n`` and ``\\x0a``.
        BYTE_TOKENS: Text as it is, a byte is ``<0x0A>``.
        PLAIN: Not known; nothing is changed.
    """

    BYTE_LEVEL = auto()
    SPACE_MARK = auto()
    HASHES = auto()
    RWKV = auto()
    BYTE_TOKENS = auto()
    PLAIN = auto()


_SCHEMES: Final[Mapping[str | None, Scheme]] = MappingProxyType(
    {
        "gpt2": Scheme.BYTE_LEVEL,
        "llama": Scheme.SPACE_MARK,
        "t5": Scheme.SPACE_MARK,
        "gemma4": Scheme.SPACE_MARK,
        "bert": Scheme.HASHES,
        "rwkv": Scheme.RWKV,
        "plamo2": Scheme.BYTE_TOKENS,
        "plamo3": Scheme.BYTE_TOKENS,
    }
)


def _byte_alphabet() -> dict[int, int]:
    """Return the byte of each character: printable ones are themselves, others lie from 256 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(256)) - set(printable))
    return {byte: byte for byte in printable} | {256 + i: byte for i, byte in enumerate(others)}


_ALPHABET: Final[Mapping[int, int]] = _byte_alphabet()
# For `str.translate`: a character of Latin-1 that is not in the alphabet is moved out of Latin-1,
# so that encoding fails and the slow way, which keeps it, is taken. ASCII is the same in both ways.
_TO_LATIN_1: Final = dict(_ALPHABET) | dict.fromkeys((*range(0x80, 0xA1), 0xAD), 0x2400)


def decode_token(stored: str, kind: int, scheme: Scheme) -> str:
    """Return what a stored token of a type (or `NO_TYPE`) stands for.

    A byte that is not UTF-8 by itself is a lone surrogate (PEP 383). A token that stands for itself
    comes back as the same object, so that it takes no memory twice.
    """
    return stored if kind in _LITERAL_TYPES else _DECODERS[scheme](stored, kind)


def _from_byte_level(stored: str, _kind: int) -> str:
    if stored.isascii():
        return stored
    try:
        raw = stored.translate(_TO_LATIN_1).encode("latin-1")
    except UnicodeEncodeError:  # characters beside the alphabet, as added tokens have them
        raw = b"".join(
            bytes((_ALPHABET[ord(character)],))
            if ord(character) in _ALPHABET
            else character.encode("utf-8", "surrogateescape")
            for character in stored
        )
    return decode_text(raw)


def _from_byte_token(stored: str, kind: int) -> str:
    byte = _BYTE_TOKEN.fullmatch(stored) if kind in (_BYTE_TYPE, NO_TYPE) else None
    return stored if byte is None else decode_text(bytes.fromhex(byte[1]))


def _from_hashes(stored: str, _kind: int) -> str:
    return stored[2:] if len(stored) > 2 and stored.startswith("##") else stored


def _from_rwkv(stored: str, _kind: int) -> str:
    def escape(match: re.Match[bytes]) -> bytes:
        if match[1] is not None:
            return bytes.fromhex(match[1].decode("ascii"))
        return _RWKV_NAMED.get(match[2], match[2])

    return decode_text(_RWKV_ESCAPE.sub(escape, stored.encode("utf-8", "surrogateescape")))


_DECODERS: Final[dict[Scheme, Callable[[str, int], str]]] = {
    Scheme.BYTE_LEVEL: _from_byte_level,
    Scheme.SPACE_MARK: lambda stored, kind: _from_byte_token(stored.replace(SPACE_MARK, " "), kind),
    Scheme.HASHES: _from_hashes,
    Scheme.RWKV: _from_rwkv,
    Scheme.BYTE_TOKENS: _from_byte_token,
    Scheme.PLAIN: lambda stored, _kind: stored,
}

MAX_SHOWN: Final = 2000
"""Characters of a token that are shown and searched; the longest real ones have some hundred."""

_CHUNK: Final = 8192
_TERM: Final = re.compile(
    r"(?:^|(?<=\s))(?:(?P<key>id|type|len):(?P<value>\S*)|len(?P<sign>>=|<=|>|<|=)(?P<number>\d{0,9}))"
    r"(?=\s|$)",
    re.ASCII,
)


@dataclass(frozen=True, eq=False)
class VocabularyColumns:
    """A vocabulary's tokens as text, a row for each id, made once in a worker for a table."""

    stored: list[str]  # the tokens as the file has them, safe to show
    decoded: list[str]  # what they stand for, safe to show
    type_names: list[str]  # names of their types, "" where the file gives none
    types: NDArray[np.int64]  # their types, -1 where the file gives none, int64 [n]
    lengths: NDArray[np.int64]  # characters of what they stand for, `MAX_SHOWN` at most, int64 [n]
    _haystacks: list[str]
    _kinds: dict[int, str]

    def __len__(self) -> int:
        return len(self.stored)

    def add(self, texts: Sequence[str], meant: Sequence[str]) -> None:
        """Add tokens behind the others: as the file has them, and what they stand for."""
        for text, meaning in zip(texts, meant, strict=True):
            shown = plain_text(text)
            shown_meaning = shown if meaning is text else plain_text(meaning)
            self.stored.append(shown)
            self.decoded.append(shown_meaning)
            self._haystacks.append(_haystack(text, meaning, shown, shown_meaning))

    def search(self, text: str) -> NDArray[np.int64]:
        """Find tokens; any text is accepted.

        ``id:123``, ``id:100-200``, ``type:control``, ``len>20`` (also ``>= < <= =``) narrow it.
        The rest of the text is looked for in the token as stored, as decoded and as shown, without
        regard to case. By itself it counts with its blanks, since " the" and "the" are two tokens;
        quotation marks keep blanks beside other terms.

        Returns:
            Ids in rising order, int64 [m].
        """
        mask = np.ones(len(self), dtype=np.bool_)
        needle = text
        for match in _TERM.finditer(text):
            found = self._term_mask(match)
            if found is not None:
                mask &= found
                needle = needle.replace(match[0], "", 1)
        if needle != text:
            needle = needle.strip()
        if len(needle) > 1 and needle[0] == needle[-1] == '"':
            needle = needle[1:-1]
        if needle:
            everything = bool(mask.all())
            hay = self._haystacks if everything else list(compress(self._haystacks, mask.tolist()))
            mask[mask] = np.frombuffer(bytes(map(contains, hay, repeat(needle.lower()))), np.bool_)
        return np.flatnonzero(mask).astype(np.int64, copy=False)

    def _term_mask(self, match: re.Match[str]) -> NDArray[np.bool_] | None:
        """Return what a term lets through, everything while it is being typed; None for no term."""
        key, value = match["key"], match["value"] or match["number"]
        if not value:
            return np.ones(len(self), dtype=np.bool_)
        if key == "type":
            return self._type_mask(value.lower())
        ranges = parse_ranges(value) if key is not None else None
        if key == "id":
            ids = np.arange(len(self), dtype=np.int64)
            return None if ranges is None else in_ranges(ids, ranges)
        if ranges is not None:
            return in_ranges(self.lengths, ranges)
        bounds = parse_bounds(match["sign"] or "=", value, "plain")
        return None if bounds is None else bounds.of_integers(self.lengths)

    def _type_mask(self, value: str) -> NDArray[np.bool_]:
        wanted = tuple(filter(None, value.split(",")))
        kinds = [
            kind
            for kind, name in self._kinds.items()
            if name.startswith(wanted) or str(kind) in wanted
        ]
        return np.isin(self.types, np.array(kinds, dtype=np.int64))


def _haystack(text: str, meaning: str, shown: str, shown_meaning: str) -> str:
    """Return what is searched for one token, in lower case.

    A shown text that differs from the true one is searched too. NUL separates the parts.
    """
    parts = text if meaning is text else f"{text}\0{meaning}"
    if shown != text or shown_meaning != meaning:
        parts = f"{parts}\0{shown}\0{shown_meaning}"
    return parts.lower()


_PREFIX: Final = "tokenizer.ggml."
_ID_SUFFIX: Final = "_token_id"
_TOKENS_KEY: Final = _PREFIX + "tokens"
_SCORES_KEY: Final = _PREFIX + "scores"
_MODEL_KEY: Final = _PREFIX + "model"

_LOOKED_AT: Final = 50_000  # tokens: enough to meet the first that begins a word
_INT64_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A model's tokens; a token's id is its position."""

    tokens: StringArray  # the tokens as stored
    tokenizer: str | None = None  # its kind ("gpt2", "llama", …), or None
    scores: NDArray[np.float64] | None = None  # NaN where there are too few, float64 [n]
    types: NDArray[np.int64] | None = None  # -1 where there are too few, int64 [n]; None if none
    special: Mapping[str, int] = field(default_factory=dict)  # id by use: "bos", "unknown", …
    problems: tuple[Problem, ...] = ()  # what is wrong with the vocabulary

    def __len__(self) -> int:
        return len(self.tokens)

    def raw(self, token_id: int) -> bytes:
        """Return the bytes of a token as stored."""
        return self.tokens.raw(token_id)

    def text(self, token_id: int) -> str:
        """Return what a token stands for; a byte that is not UTF-8 is a lone surrogate in it."""
        kind = NO_TYPE if self.types is None else int(self.types[token_id])
        return decode_token(self.tokens[token_id], kind, self.scheme)

    def special_names(self, token_id: int) -> tuple[str, ...]:
        """Return what a token is used for: ``("bos", "eos")``; nothing for most."""
        return tuple(name for name, special_id in self.special.items() if special_id == token_id)

    @cached_property
    def scheme(self) -> Scheme:
        """How the tokenizer writes what its tokens stand for."""
        scheme = _SCHEMES.get(self.tokenizer, Scheme.PLAIN)
        if scheme is Scheme.HASHES:
            mark = SPACE_MARK.encode()
            first = range(min(len(self.tokens), _LOOKED_AT))
            if any(self.raw(token_id).startswith(mark) for token_id in first):
                return Scheme.SPACE_MARK
        return scheme

    def display_columns(self, check: Check = never) -> VocabularyColumns:
        """Make the columns of a table of all tokens, in a worker; `check` raises to stop."""
        types = np.full(len(self), NO_TYPE, np.int64) if self.types is None else self.types
        kinds: list[int] = types.tolist()
        names = {kind: TOKEN_TYPES.get(kind, str(kind)) for kind in set(kinds)} | {NO_TYPE: ""}
        type_names = [names[kind] for kind in kinds]
        lengths = np.zeros(len(self), np.int64)
        columns = VocabularyColumns([], [], type_names, types, lengths, [], names)
        for first in range(0, len(self), _CHUNK):
            check()
            rows = slice(first, first + _CHUNK)
            texts = self.tokens[rows]
            if int(self.tokens.lengths[rows].max()) > MAX_SHOWN:
                texts = [text[:MAX_SHOWN] for text in texts]
            meant = list(map(decode_token, texts, kinds[rows], repeat(self.scheme)))
            lengths[rows] = list(map(len, meant))
            columns.add(texts, meant)
        return columns


def read_vocabulary(model: Model) -> Vocabulary | None:
    """Read the vocabulary of a model's metadata. For a worker: it reads the file.

    Returns:
        The vocabulary, with what is wrong in `problems`; None if the model carries no tokens.

    Raises:
        ExplorerError: The file changed since it was opened, or the arrays are too large to decode.
    """
    metadata = model.metadata
    entry = metadata.entry(_TOKENS_KEY)
    if entry is None:
        return None
    problems: list[Problem] = []
    tokens = entry.value
    if not isinstance(tokens, StringArray):
        _note(problems, _TOKENS_KEY, f"is {entry.type_name}, not an array of strings")
        nothing = np.zeros(0, dtype=np.int64)
        tokens = StringArray(b"", nothing, nothing)
    tokenizer = metadata.text(_MODEL_KEY)
    if tokenizer is None:
        _note(problems, _MODEL_KEY, "is missing, so tokens are shown as they are stored")
    count = len(tokens)
    return Vocabulary(
        tokens=tokens,
        tokenizer=tokenizer,
        scores=_read_scores(metadata, count, problems),
        types=_read_types(metadata, count, problems),
        special=_read_special(metadata, count, problems),
        problems=tuple(problems),
    )


def _read_scores(
    metadata: Metadata, count: int, problems: list[Problem]
) -> NDArray[np.float64] | None:
    values = _read_numbers(metadata, _SCORES_KEY, "fiu", count, problems)
    if values is None:
        return None
    scores = np.full(count, np.nan)
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        scores[: len(values)] = values
    return scores


def _read_types(
    metadata: Metadata, count: int, problems: list[Problem]
) -> NDArray[np.int64] | None:
    values = _read_numbers(metadata, TOKEN_TYPE_KEY, "iu", count, problems)
    if values is None:
        return None
    if values.dtype.kind == "u":
        values = np.minimum(values, np.uint64(_INT64_MAX))
    types = np.full(count, NO_TYPE, dtype=np.int64)
    types[: len(values)] = values
    return types


def _read_numbers(
    metadata: Metadata, key: str, kinds: str, count: int, problems: list[Problem]
) -> NDArray[np.generic] | None:
    """Return an array of one of NumPy's kinds, cut to `count`; None if there is none to use."""
    entry = metadata.entry(key)
    if entry is None:
        return None
    value = entry.value
    if not isinstance(value, NumberArray) or value.values.dtype.kind not in kinds:
        wanted = "numbers" if "f" in kinds else "whole numbers"
        _note(problems, key, f"is {entry.type_name}, not an array of {wanted}. It is left out")
        return None
    if len(value) != count:
        _note(problems, key, f"has {len(value)} elements, where there are {count} tokens")
    return value.values[:count]


def _read_special(metadata: Metadata, count: int, problems: list[Problem]) -> dict[str, int]:
    special: dict[str, int] = {}
    for key in metadata:
        if not (key.startswith(_PREFIX) and key.endswith(_ID_SUFFIX)):
            continue
        token_id = metadata.integer(key)
        if token_id is None:
            _note(problems, key, "is not a whole number")
        elif not 0 <= token_id < count:
            _note(problems, key, f"is {token_id}, where there are {count} tokens")
        else:
            special[key[len(_PREFIX) : -len(_ID_SUFFIX)]] = token_id
    return special


def _note(problems: list[Problem], where: str, what: str) -> None:
    problems.append(Problem(Severity.WARNING, where, what))
