"""What the panel Overview shows of a model."""

from __future__ import annotations

from PySide6.QtWidgets import QFormLayout, QLabel

from explorer.qt.contents.overview import OverviewView

_ROLES = QFormLayout.ItemRole.LabelRole, QFormLayout.ItemRole.FieldRole


def shown_facts(view: OverviewView) -> dict[str, str]:
    """Return the texts of the form: label → what stands beside it."""
    found = {}
    for form in view.widget().findChildren(QFormLayout):
        for row in range(form.rowCount()):
            label, value = (form.itemAt(row, role).widget() for role in _ROLES)
            assert isinstance(label, QLabel)
            assert isinstance(value, QLabel)
            found[label.text()] = value.text()
    return found
