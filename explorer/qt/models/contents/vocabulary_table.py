"""The vocabulary as a table: id, token, what it stands for, score, type."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QCoreApplication

from explorer.formats.vocabulary import Vocabulary, VocabularyColumns
from explorer.present.explanations import vocabulary_texts
from explorer.qt.models.table import Column
from explorer.text import float_text


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


def plain_ranks(texts: list[str]) -> NDArray[np.intp]:
    """Return each text's place in order of code points; natural order is not for tokens."""
    order = sorted(range(len(texts)), key=texts.__getitem__)
    ranks = np.empty(len(texts), dtype=np.intp)
    ranks[order] = np.arange(len(texts))
    return ranks


def vocabulary_columns(content: VocabularyContent) -> list[Column]:
    """Return the columns of a vocabulary."""
    vocabulary, texts, tips = content.vocabulary, content.texts, vocabulary_texts()

    def tr(text: str) -> str:
        return QCoreApplication.translate("VocabularyTable", text)

    def special(row: int) -> str:
        return ", ".join(vocabulary.special_names(row))

    def kind(row: int) -> str:
        names = special(row)
        name = texts.type_names[row]
        return f"{name} ({names})" if names else name

    columns = [
        Column(
            "id", tr("Id"), str, int, lambda: np.arange(len(texts)), numeric=True, tip=tips["id"]
        ),
        Column(
            "token",
            tr("Token"),
            texts.stored.__getitem__,
            texts.stored.__getitem__,
            lambda: content.token_ranks,
            tip=tips["token"],
        ),
        Column(
            "text",
            tr("Stands for"),
            texts.decoded.__getitem__,
            texts.decoded.__getitem__,
            lambda: content.text_ranks,
            tip=tips["text"],
        ),
        Column("type", tr("Type"), kind, kind, lambda: texts.types, tip=tips["type"]),
    ]
    scores = vocabulary.scores
    if scores is not None:
        columns.append(
            Column(
                "score",
                tr("Score"),
                lambda row: float_text(float(scores[row])),
                lambda row: float(scores[row]),
                lambda: scores,
                numeric=True,
                tip=tips["score"],
            )
        )
    return columns
