"""What each figure means: one text for its tool tip, for "What's this?", and for those who ask.

The texts of errors and of what tensors are ranked by stand beside their tables (`errors.texts`,
`survey.texts`); all others are here. Each function returns the texts of one table, list or picture
by the stable name of the figure, in the user's language: nothing is kept, so that another language
is another answer. All are the program's own words and hold nothing of a model.
"""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication


def translated(text: str) -> str:
    """Return a text of `explorer.present` in the user's language."""
    return QCoreApplication.translate("Present", text)
