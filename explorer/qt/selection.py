"""What is selected: the current model, and a metadata key or tensors of it.

The window has one `Selection`. A panel reads it while it is shown; nothing is pushed into a hidden
panel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from PySide6.QtCore import QObject, Signal

from explorer.formats.tensors import parse_name
from explorer.qt.document import Document

# Stacks of layers beside the language model's: vision, audio, encoder, decoder, projector.
_SIDE_STACKS: Final = ("v.", "a.", "enc.", "dec.", "mm.", "vision", "audio")
_OUTPUT_ROLES: Final = frozenset({"output", "lm_head", "output_norm", "model.norm"})


class Selection(QObject):
    """The current model, and what of it is selected.

    Attributes:
        document: The current model.
        rows: Content rows of the selected tensors, the current one first; a selected key keeps
            them.
        whole_layer: Whether the layer of the first tensor is selected as a whole.
        key: Position of the selected metadata entry; None if a tensor was selected after it.
        moves: Number of changes so far, by which a panel knows what it has shown.

    Signals:
        changed: Another model, key or tensor is selected.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.document: Document | None = None
        self.rows: tuple[int, ...] = ()
        self.whole_layer = False
        self.key: int | None = None
        self.moves = 0

    @property
    def layer(self) -> int:
        """Layer of the first tensor as plans count them, the output layer last; -1 for none."""
        if self.document is None or not self.rows:
            return -1
        return _layer_of(self.document, self.rows[0])

    def show_document(self, document: Document | None) -> None:
        """Make a model the current one, with nothing selected."""
        if document is not self.document:
            self.document = document
            self._select((), None)

    def select_tensors(
        self, rows: Sequence[int], *, again: bool = False, layer: bool = False
    ) -> None:
        """Select tensors.

        Args:
            rows: Their content rows, the current one first.
            again: Show them even if they are selected already: the user asked for them.
            layer: Whether the layer of the first one is meant as a whole.
        """
        same = self.key is None and (tuple(rows), layer) == (self.rows, self.whole_layer)
        if self.document is not None and (again or not same):
            self._select(tuple(rows), None, layer=layer)

    def select_key(self, position: int, *, again: bool = False) -> None:
        """Select a metadata entry; `again` as in `select_tensors`."""
        if self.document is not None and (again or position != self.key):
            self._select(self.rows, position, layer=self.whole_layer)

    def select_key_named(self, key: str) -> None:
        """Select the first metadata entry with a key, if there is one."""
        position = key_position(self.document, key)
        if position is not None:
            self.select_key(position)

    def select_layer(self, layer: int) -> None:
        """Select a layer by its first tensor; the output layer has the number after the last."""
        document = self.document
        if document is None:
            return
        layers = document.arrays.layers
        output = layer == document.facts.layers  # its tensors have no number
        rows = np.flatnonzero((layers == layer) | (layers < 0) if output else layers == layer)
        row = next((row for row in rows.tolist() if _layer_of(document, row) == layer), None)
        if row is not None:
            self.select_tensors([row], layer=True)

    def _select(self, rows: tuple[int, ...], key: int | None, *, layer: bool = False) -> None:
        self.rows, self.key, self.whole_layer = rows, key, layer
        self.moves += 1
        self.changed.emit()


def key_position(document: Document | None, key: str) -> int | None:
    """Return the position of the first metadata entry with that key, or None."""
    entries = () if document is None else document.model.metadata.entries
    return next((i for i, entry in enumerate(entries) if entry.key == key), None)


def _layer_of(document: Document, row: int) -> int:
    name = parse_name(document.model.tensors.columns.names[row])
    if name.layer is not None:
        return -1 if name.stack.startswith(_SIDE_STACKS) else name.layer
    blocks = document.facts.layers
    return blocks if blocks is not None and name.role in _OUTPUT_ROLES else -1
