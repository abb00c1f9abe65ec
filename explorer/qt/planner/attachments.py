"""What is loaded beside the model: a projector, LoRA adapters, and what drafts tokens."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from PySide6 import QtWidgets
from PySide6.QtCore import Qt

from explorer.errors import PlanError
from explorer.planner.attachments import KINDS, Attachment, check_together, propose, read_attachment
from explorer.planner.engines.llama_cpp.header import Header
from explorer.qt.jobs import Job, JobSlot
from explorer.qt.planner.fields import push_button
from explorer.qt.planner.state import CurrentPlan, PlannedModel, PlannerState
from explorer.qt.services import Services
from explorer.qt.theme import Space
from explorer.qt.widgets.asking import ask_file
from explorer.qt.widgets.building import Flow, column
from explorer.sources import Address
from explorer.text import bytes_text, plain_text, shorten

_MTP: Final = "Speculative decoding (MTP)"
_USUAL_TOKENS: Final = 3  # that llama.cpp drafts
_LONGEST: Final = 36


class AttachmentsBox(QtWidgets.QWidget):
    """Files beside the model: those of its folder are proposed, and added by a click.

    What drafts tokens is among them: a draft model, or the model's own MTP layers.

    Attributes:
        buttons: What is added, each of which removes itself, and then what may be added.
        add_file: Asks for another file.
    """

    def __init__(self, state: PlannerState, app: Services, parent: QtWidgets.QWidget) -> None:
        super().__init__(parent)
        self._state, self._current = state, state.current
        self._reading, self._adding = JobSlot(app.runner, self), JobSlot(app.runner, self)
        self._model: PlannedModel | None = None
        self._proposed: list[Attachment] = []
        self._app, self._report = app, app.report
        self.add_file = push_button(self, "Add file…", "Add a projector, LoRA or draft model")
        self.add_file.clicked.connect(self._ask)
        self.buttons: list[QtWidgets.QPushButton] = []
        self._shown: tuple[object, ...] = ()
        self._flow = column(of=self, spacing=Space.NEAR)
        self._holder: QtWidgets.QWidget | None = None
        self.follow(state.current)
        state.plan_changed.connect(self.follow)

    def tab_chain(self) -> list[QtWidgets.QWidget]:
        """Return what takes the focus, in reading order."""
        return [*self.buttons, self.add_file]

    def follow(self, current: CurrentPlan) -> None:
        """Show what is added to the current model, and what may be."""
        self._current = current
        engine, model = current.engine, current.model
        known = engine is not None and any(one.name == "mtp" for one in engine.settings)
        self.setVisible(known)
        if model is not self._model:
            self._model, self._proposed = model, []
            self._reading.cancel()
            if known and model is not None:
                self._propose(model)
        self._show()

    @property
    def _header(self) -> Header | None:
        """What llama.cpp's rules read of the current model; None where they cannot."""
        header = None if self._current.model is None else self._current.model.h.llama_cpp
        return None if isinstance(header, str) else header

    def _propose(self, model: PlannedModel) -> None:
        path, header = model.path, self._header
        if isinstance(path, Address) or header is None:
            return

        def show(found: list[Attachment]) -> None:
            if model is self._model:
                self._proposed = found
                self._show()

        title = "Looking for files that go with the model"
        self._reading.run(title, lambda job: propose(path, header, job.check), show, self._report)

    def _show(self) -> None:
        inputs, header = self._current.inputs, self._header
        free = [one for one in self._proposed if one not in inputs.attached]
        guesses = header is not None and header.guesses_ahead
        shown = (inputs.attached, tuple(free), guesses, inputs.settings.mtp)
        if shown == self._shown:
            return
        self._shown = shown
        holder = QtWidgets.QWidget(self)
        focused = next((one.objectName() for one in self.buttons if one.hasFocus()), None)
        self.buttons = [self._button(holder, one, added=True) for one in inputs.attached]
        if guesses:
            self.buttons.append(self._mtp_button(holder, added=bool(inputs.settings.mtp)))
        self.buttons += [self._button(holder, one, added=False) for one in free]
        holder.setLayout(Flow(*self.buttons))
        self._flow.addWidget(holder)
        self._flow.addWidget(self.add_file, 0, Qt.AlignmentFlag.AlignLeft)
        if self._holder is not None:
            self._flow.removeWidget(self._holder)
            self._holder.hide()
            self._holder.deleteLater()
        self._holder = holder
        holder.setVisible(bool(self.buttons))
        # Qt puts new ones last of all
        chain = [self.add_file.previousInFocusChain() or self, *self.tab_chain()]
        for before, after in itertools.pairwise(chain):
            self.setTabOrder(before, after)
        for button in self.buttons:
            if button.objectName() == focused:
                button.setFocus()

    def _button(
        self, parent: QtWidgets.QWidget, one: Attachment, *, added: bool
    ) -> QtWidgets.QPushButton:
        """Return the button that adds a file, or removes it."""
        kind = KINDS[one.kind]
        tip = f"{'Remove' if added else 'Add'} the {kind} ({bytes_text(one.nbytes)})"
        if one.kind == "projector" and one.width is None:
            tip += ": not known whether it fits"
        label = f"{'✕' if added else '+'} {kind[0].upper()}{kind[1:]}: {_name(one)}"
        button = push_button(parent, label, tip)
        button.setAccessibleName(f"{tip.partition(' (')[0].replace(' the ', ' ')} {_name(one)}")
        button.setObjectName(str(one.path))
        button.clicked.connect(partial(self._remove if added else self._add, one))
        return button

    def _mtp_button(self, parent: QtWidgets.QWidget, *, added: bool) -> QtWidgets.QPushButton:
        tip = f"Let the model's own MTP layers draft {_USUAL_TOKENS} tokens, which makes it faster"
        button = push_button(parent, f"{'✕' if added else '+'} {_MTP}", tip)
        button.setAccessibleName(f"{'Remove' if added else 'Add'} {_MTP}")
        button.setObjectName(_MTP)
        button.clicked.connect(partial(self._draft_by_itself, on=not added))
        return button

    # Changes

    def _add(self, one: Attachment) -> None:
        held = self._state.inputs.attached
        if one.kind != "lora":  # there is one of each other kind
            held = tuple(other for other in held if other.kind != one.kind)
        changes: dict[str, object] = {"attached": (*held, one)}
        if one.kind == "draft":
            changes["settings"] = replace(self._state.inputs.settings, mtp=None)
        self._state.replace_inputs(**changes)

    def _remove(self, one: Attachment) -> None:
        held = self._state.inputs.attached
        self._state.replace_inputs(attached=tuple(other for other in held if other != one))

    def _draft_by_itself(self, *, on: bool) -> None:
        """Have the model's own layers draft tokens, instead of a draft model."""
        inputs = self._state.inputs
        settings = replace(inputs.settings, mtp=_USUAL_TOKENS if on else None)
        others = tuple(one for one in inputs.attached if one.kind != "draft")
        self._state.replace_inputs(settings=settings, attached=others)

    def _ask(self, _checked: bool = False) -> None:
        title = "Add a projector, a LoRA adapter or a draft model"
        path = ask_file(self._app, self, title, "attachment", "GGUF (*.gguf)")
        if path is not None:
            self.add_path(path)

    def add_path(self, path: Path) -> None:
        """Read a file in a worker, and add it if it goes with the model."""
        header = self._header

        def read(_job: Job) -> Attachment | PlanError:
            try:
                found = read_attachment(path)
                if header is not None:
                    check_together(header, [found])
            except PlanError as error:
                return error
            return found

        def done(found: Attachment | PlanError) -> None:
            if isinstance(found, PlanError):
                self._state.refused.emit(PlanError(f"{path.name}: {found}"))
            else:
                self._add(found)

        self._adding.run(f"Reading {path.name}", read, done, self._report)


def _name(one: Attachment) -> str:
    return shorten(plain_text(one.path.name), _LONGEST)
