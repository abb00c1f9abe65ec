"""Metadata as a table: key, type, value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QCoreApplication

from explorer.formats.columns import text_ranks
from explorer.present.explanations import metadata_texts
from explorer.present.model import type_text
from explorer.qt.models.document import Document
from explorer.qt.models.table import Column
from explorer.text import plain_text


def metadata_columns(document: Document) -> list[Column]:
    """Return the columns of a model's metadata."""
    entries = document.model.metadata.entries
    keys = [plain_text(entry.key) for entry in entries]
    types = [type_text(entry) for entry in entries]
    previews = document.previews
    tips = metadata_texts()

    def column(name: str, title: str, texts: Sequence[str]) -> Column:
        cell = texts.__getitem__
        return Column(name, title, cell, cell, lambda: text_ranks(texts), tip=tips[name])

    def tr(text: str) -> str:
        return QCoreApplication.translate("MetadataTable", text)

    return [
        column("key", tr("Key"), keys),
        column("type", tr("Type"), types),
        column("value", tr("Value"), previews),
    ]


def metadata_mask(document: Document, text: str) -> NDArray[np.bool_]:
    """Return which entries hold every word of `text` in key, type or value."""
    words = text.casefold().split()
    entries = document.model.metadata.entries
    return np.array(
        [
            all(word in f"{entry.key} {entry.type_name} {preview}".casefold() for word in words)
            for entry, preview in zip(entries, document.previews, strict=True)
        ],
        dtype=np.bool_,
    )
