"""What the page of what-ifs says in words."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication

from explorer.analysis.what_if import PRESENT
from explorer.present.errors import error_label, error_text
from explorer.qt.models.what_if.question import Prospect
from explorer.qt.models.what_if.table import (
    Line,
    change_text,
    note_text,
)
from explorer.text import bytes_text, float_text, integer_text


def basis_text(prospect: Prospect) -> str:
    """Return what errors are measured against, and what is left out."""
    question, parts = prospect.question, []
    types = question.document.model.tensors.columns.types
    if question.originals is not None and prospect.measured_against_originals:
        text = _tr(
            "The original, {title}, is rounded. What this file itself has lost against it stands "
            "in the first line."
        )
        parts.append(text.format(title=question.originals.title))
    else:
        if question.originals is not None:
            parts.append(_tr("The reference has no tensor that matches."))
        parts.append(_tr("The file's own weights are rounded."))
        if any(types[row].quantized for piece in prospect.pieces for row in piece.rows):
            parts.append(
                _tr(
                    "They are quantized already: errors come on top of what they have lost "
                    "before. To see all of it, choose the original above."
                )
            )
    if prospect.alone:
        text = _tr("{n} tensors have no partner in the reference and stay as they are.")
        parts.append(text.format(n=integer_text(prospect.alone)))
    if question.matrix is not None:
        text = _tr(
            "The importance matrix knows {n} of {all} tensors; it steers the search, while errors "
            "count all weights alike."
        )
        count, total = prospect.importance_count, len(prospect.pieces)
        parts.append(text.format(n=integer_text(count), all=integer_text(total)))
    return " ".join(parts)


def planned_text(prospect: Prospect) -> str:
    """Return what memory is planned for."""
    if prospect.plan_problem:
        return _tr("There is no memory plan: {why}.").format(why=prospect.plan_problem)
    plan = prospect.plans.get(PRESENT)
    if plan is None:
        return _tr("There is no memory plan for the planner's settings.")
    context = prospect.planned.settings.context
    if context is None:
        text = _tr("Memory is planned with the planner's settings")
    else:
        text = _tr("Memory is planned for a context of {n} tokens").format(n=integer_text(context))
    devices = ", ".join(device.label for device in prospect.planned.devices)
    if devices:
        return _tr("{text}, on {devices}.").format(text=text, devices=devices)
    return _tr("{text}; no GPU is known.").format(text=text)


def line_text(line: Line) -> str:
    """Return a line of the table as one text."""
    parts = [line.title]
    if line.size.problem is None:
        bits = float_text(line.size.bits_per_weight, 5)
        parts.append(_tr("{bits} bits/weight").format(bits=bits))
        size = bytes_text(line.size.nbytes)
        if line.type_name != PRESENT:
            size += f" ({change_text(line.size.nbytes - line.now.nbytes)})"
        parts.append(size)
    relative, sqnr = line.figure("relative_rmse"), line.figure("sqnr_db")
    if relative is not None and sqnr is not None:
        parts.append(_figure("relative_rmse", relative))
        parts.append(_figure("sqnr_db", sqnr))
    if line.plan is not None and line.size.problem is None:
        parts.append(_tr("memory {size}").format(size=bytes_text(line.plan.total)))
    note = note_text(line)
    return "   ".join([*parts, note] if note else parts)


def _figure(name: str, value: float) -> str:
    return f"{error_label(name)} {error_text(name, value)}"


def _tr(text: str) -> str:
    return QCoreApplication.translate("WhatIf", text)
