"""The vocabulary that a GGUF file carries: tokens, scores, types and special ids.

Keys are those of gguf.md section 9. Files lie: arrays of one vocabulary differ in length, tokens
are numbers, ids point beyond the end. What can be used is used, and the rest is a problem to show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from explorer.formats.enums import TOKEN_TYPE_KEY
from explorer.formats.metadata import Metadata, NumberArray, StringArray
from explorer.formats.model import Model, Problem, Severity
from explorer.formats.token_text import NO_TYPE, SPACE_MARK, Scheme, decode_token, scheme_of
from explorer.formats.vocabulary_columns import VocabularyColumns, make_columns

_PREFIX: Final = "tokenizer.ggml."
_ID_SUFFIX: Final = "_token_id"
_TOKENS_KEY: Final = _PREFIX + "tokens"
_SCORES_KEY: Final = _PREFIX + "scores"
_MODEL_KEY: Final = _PREFIX + "model"

_LOOKED_AT: Final = 50_000  # tokens: enough to meet the first that begins a word
_INT64_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A model's tokens; a token's id is its position.

    Attributes:
        tokens: The tokens as stored.
        tokenizer: Kind of tokenizer (`tokenizer.ggml.model`: ``"gpt2"``, ``"llama"``, …), or None.
        scores: Scores, NaN where the file has too few, float64 [n]; None if it has none.
        types: Token types, -1 where the file has too few, int64 [n]; None if it has none.
        special: Id by what it is for: ``"bos"``, ``"eos"``, ``"unknown"``, ``"padding"``, …
        problems: What is wrong with the vocabulary.
    """

    tokens: StringArray
    tokenizer: str | None = None
    scores: NDArray[np.float64] | None = None
    types: NDArray[np.int64] | None = None
    special: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def __len__(self) -> int:
        return len(self.tokens)

    def raw(self, token_id: int) -> bytes:
        """Return the bytes of a token as stored."""
        return self.tokens.raw(token_id)

    def text(self, token_id: int) -> str:
        """Return what a token stands for; a byte that is no UTF-8 is a lone surrogate in it."""
        kind = NO_TYPE if self.types is None else int(self.types[token_id])
        return decode_token(self.tokens[token_id], kind, self.scheme)

    def special_names(self, token_id: int) -> tuple[str, ...]:
        """Return what a token is used for: ``("bos", "eos")``; nothing for most."""
        return tuple(name for name, special_id in self.special.items() if special_id == token_id)

    @cached_property
    def scheme(self) -> Scheme:
        """How the tokenizer writes what its tokens stand for."""
        if self.tokenizer != "bert":
            return scheme_of(self.tokenizer, has_space_marks=False)
        mark = SPACE_MARK.encode()
        looked_at = range(min(len(self.tokens), _LOOKED_AT))
        return scheme_of(
            "bert", has_space_marks=any(self.raw(i).startswith(mark) for i in looked_at)
        )

    def display_columns(self, check: Callable[[], None] = lambda: None) -> VocabularyColumns:
        """Make the columns of a table of all tokens. For a worker: it takes a moment.

        Args:
            check: Called every few thousand tokens; raises to give up.
        """
        types = self.types
        if types is None:
            types = np.full(len(self), NO_TYPE, dtype=np.int64)
        return make_columns(self.tokens, types, self.scheme, check)


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
        _note(problems, key, f"is {entry.type_name}, not an array of {wanted}; it is left out")
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
