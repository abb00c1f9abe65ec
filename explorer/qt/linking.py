"""One selection, followed by every panel that knows what is selected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from PySide6.QtCore import QObject

from explorer.formats.tensors import parse_name
from explorer.qt.models.document import Document
from explorer.qt.panels import Panels
from explorer.qt.views.contents.open_models import OpenModelsView

# Stacks of layers beside the language model's: vision, audio, encoder, decoder, projector.
_SIDE_STACKS: Final = ("v.", "a.", "enc.", "dec.", "mm.", "vision", "audio")
_OUTPUT_ROLES: Final = frozenset({"output", "lm_head", "output_norm", "model.norm"})


class SelectionLink(QObject):
    """Makes tree, metadata, tensor table and raw bytes show the same key or tensor.

    A panel that is made to follow answers with a signal of its own; that one is not followed again.
    """

    def __init__(self, open_models: OpenModelsView, panels: Panels, parent: QObject) -> None:
        super().__init__(parent)
        self._open_models = open_models
        self._panels = panels
        self._document: Document | None = None
        self._busy = False
        panels.metadata.key_selected.connect(self.select_key)
        panels.tensors.table.row_selected.connect(self.select_tensor)
        panels.raw.key_activated.connect(self._select_key_by_name)
        panels.raw.tensor_activated.connect(self.select_tensor)
        panels.layer_chosen.connect(self._select_layer)

    def set_document(self, document: Document | None) -> None:
        """Follow selections of this model from now on."""
        self._document = document

    def select_key(self, position: int) -> None:
        """Select a metadata entry everywhere."""

        def follow(document: Document) -> None:
            key = document.model.metadata.entries[position].key
            self._panels.metadata.reveal(position)
            self._open_models.reveal_key(document, key)
            self._panels.raw.reveal_key(key)

        self._once(follow)

    def select_tensor(self, row: int) -> None:
        """Select a tensor everywhere."""

        def follow(document: Document) -> None:
            self._panels.tensors.reveal(row)
            self._open_models.reveal_tensor(document, row)
            self._panels.raw.reveal_tensor(row)
            self._panels.select_layer(_layer_of(document, row))

        self._once(follow)

    def _select_key_by_name(self, key: str) -> None:
        position = key_position(self._document, key)
        if position is not None:
            self.select_key(position)

    def _select_layer(self, layer: int) -> None:
        """Select the first tensor of a layer."""
        if self._document is not None:
            row = _first_of_layer(self._document, layer)
            if row is not None:
                self.select_tensor(row)

    def _once(self, follow: Callable[[Document], None]) -> None:
        if self._busy or self._document is None:
            return
        self._busy = True
        try:
            follow(self._document)
        finally:
            self._busy = False


def key_position(document: Document | None, key: str) -> int | None:
    """Return the position of the first metadata entry with that key, or None."""
    entries = () if document is None else document.model.metadata.entries
    return next((i for i, entry in enumerate(entries) if entry.key == key), None)


def _layer_of(document: Document, row: int) -> int:
    """Return the layer of a tensor as plans count them, the output layer last; -1 for none."""
    name = parse_name(document.model.tensors.columns.names[row])
    if name.layer is not None:
        return -1 if name.stack.startswith(_SIDE_STACKS) else name.layer
    blocks = document.facts.layers
    return blocks if blocks is not None and name.role in _OUTPUT_ROLES else -1


def _first_of_layer(document: Document, layer: int) -> int | None:
    """Return the row of the first tensor of a layer, or None if the model has none."""
    layers = document.arrays.layers
    if layer == document.facts.layers:
        rows = np.flatnonzero((layers == layer) | (layers < 0))  # the output's have no number
    else:
        rows = np.flatnonzero(layers == layer)
    return next((row for row in rows.tolist() if _layer_of(document, row) == layer), None)
