"""The table of a model's tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from explorer.formats.vocabulary import read_vocabulary
from explorer.parallel import Check, never
from explorer.present.tables.table import PLACE, TEXT, Column, Table, scaled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from explorer.formats import Model
    from explorer.formats.vocabulary import Vocabulary, VocabularyColumns

_SCORE_DIGITS: Final = 7  # all that a float32 is sure of


@dataclass(frozen=True, eq=False)
class VocabularyContent:
    """A vocabulary with its texts and sort keys, made in a worker.

    Attributes:
        vocabulary: The vocabulary.
        texts: What its table shows.
        token_ranks: Place of each token in order, int64 [n].
        text_ranks: Place of what each stands for, int64 [n].
    """

    vocabulary: Vocabulary
    texts: VocabularyColumns
    token_ranks: NDArray[np.intp]
    text_ranks: NDArray[np.intp]

    @classmethod
    def of(cls, model: Model, check: Check = never) -> VocabularyContent | None:
        """Decode the vocabulary of a model; None if it has none. For a worker.

        Raises:
            ExplorerError: The file changed since it was opened.
        """
        vocabulary = read_vocabulary(model)
        if vocabulary is None:
            return None
        check()
        texts = vocabulary.display_columns(check)
        check()
        token_ranks = plain_ranks(texts.stored)
        check()
        return cls(vocabulary, texts, token_ranks, plain_ranks(texts.decoded))

    @property
    def table(self) -> Table[int]:
        """Its table; the rows are the numbers of the tokens."""
        vocabulary, texts = self.vocabulary, self.texts

        def kind(row: int) -> str:
            names, name = ", ".join(vocabulary.special_names(row)), texts.type_names[row]
            return f"{name} ({names})" if names else name

        def number(row: int) -> int:
            return row

        columns: list[Column[int]] = [
            Column(
                *("id", "Id", PLACE, "The token's number: what the model reads and writes."),
                number,
                keys=lambda: np.arange(len(texts)),
            ),
            Column(
                *("token", "Token", TEXT),
                "As stored in the file. Bytes that are not text as \\xNN",
                texts.stored.__getitem__,
                keys=lambda: self.token_ranks,
            ),
            Column(
                *("text", "Stands for", TEXT),
                "The text that the token puts into the output",
                texts.decoded.__getitem__,
                keys=lambda: self.text_ranks,
            ),
            Column(
                *("type", "Type", TEXT),
                "The kind of token. In parentheses its use: bos begins a text, eos ends it.",
                kind,
                keys=lambda: texts.types,
            ),
        ]
        scores: Any = vocabulary.scores
        if scores is not None:
            columns.append(
                Column(
                    *("score", "Score", scaled(scores, _SCORE_DIGITS)),
                    "The tokenizer's preference for it when it joins pieces of text.",
                    lambda row: scores[row].item(),
                    keys=lambda: scores,
                )
            )
        return Table(*columns, title="Vocabulary")


def plain_ranks(texts: list[str]) -> NDArray[np.intp]:
    """Return each text's place in order of code points; natural order is not for tokens."""
    order = sorted(range(len(texts)), key=texts.__getitem__)
    ranks = np.empty(len(texts), dtype=np.intp)
    ranks[order] = np.arange(len(texts))
    return ranks
