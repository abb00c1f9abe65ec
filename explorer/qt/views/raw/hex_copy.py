"""Copy bytes to the clipboard in several forms.

A selection may be larger than what is in memory, so its bytes are read by a job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QCoreApplication, QObject
from PySide6.QtGui import QGuiApplication

from explorer.errors import ExplorerError
from explorer.qt.jobs import JobRunner
from explorer.qt.views.progress.job_slot import JobSlot
from explorer.sources import ByteSource
from explorer.text import bytes_text

MOST_BYTES: Final = 4 << 20
"""Most bytes that are copied; as a C array they are 26 MB of text."""


class ByteCopier:
    """Puts runs of bytes into the clipboard.

    Args:
        runner: Runs the reading.
        owner: The view; its end ends the reading.
        tell: Called with a sentence for the user when bytes cannot be copied.
    """

    def __init__(self, runner: JobRunner, owner: QObject, tell: Callable[[str], None]) -> None:
        self._slot = JobSlot(runner, owner)
        self._tell = tell

    def cancel(self) -> None:
        """Stop copying, if something is being copied."""
        self._slot.cancel()

    def copy(self, source: ByteSource, run: range, form: Callable[[bytes], str]) -> None:
        """Copy bytes.

        Args:
            source: The file.
            run: The bytes' offsets.
            form: Makes text of them; called in the worker.
        """
        translate = QCoreApplication.translate
        if len(run) > MOST_BYTES:
            sentence = translate("HexView", "Select at most {size} to copy.")
            self._tell(sentence.format(size=bytes_text(MOST_BYTES)))
            return

        def failed(error: ExplorerError) -> None:
            self._tell(translate("HexView", "Nothing was copied: {reason}").format(reason=error))

        self._slot.run(
            translate("HexView", "Copying bytes"),
            lambda _: form(source.read(run.start, len(run))),
            QGuiApplication.clipboard().setText,
            failed,
        )
