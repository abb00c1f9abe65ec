"""Save the weights of a tensor as a NumPy file, in the background."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QFileDialog, QWidget

from explorer.errors import ExplorerError
from explorer.formats.tensors import Tensor
from explorer.formats.weights_export import write_npy
from explorer.qt.jobs import Job, JobRunner
from explorer.qt.views.plots.export import file_name
from explorer.tabular import write_atomically

_SUFFIX: Final = ".npy"


class ValuesExport:
    """Saves weights, and tells how that went.

    Args:
        runner: Runs the writing.
        parent: The widget that the file dialog belongs to.
        on_done: Called with the path that was written.
        on_failed: Called with why nothing was.
    """

    def __init__(
        self,
        runner: JobRunner,
        parent: QWidget,
        on_done: Callable[[str], None],
        on_failed: Callable[[ExplorerError], None],
    ) -> None:
        self._runner = runner
        self._parent = parent
        self._on_done = on_done
        self._on_failed = on_failed

    def ask(self, tensor: Tensor) -> None:
        """Ask for a file, and save all weights of a tensor into it."""
        kind = _tr("NumPy array")
        chosen, _ = QFileDialog.getSaveFileName(
            self._parent,
            _tr("Save all values"),
            f"{file_name(tensor.name)}{_SUFFIX}",
            f"{kind} (*{_SUFFIX})",
        )
        if chosen:
            path = Path(chosen)
            if path.suffix.lower() != _SUFFIX:
                path = path.with_name(path.name + _SUFFIX)
            self.save(tensor, path)

    def save(self, tensor: Tensor, path: Path) -> Job:
        """Save all weights of a tensor, float32; the file appears when it is complete."""

        def write(job: Job) -> str:
            _refuse_own_file(tensor, path)
            self._runner.wait_for_kernels([tensor.type.name], job)
            try:
                with write_atomically(path) as stream:
                    write_npy(
                        tensor,
                        stream.buffer,
                        job.check,
                        lambda done: job.report(done, tensor.parameters),
                    )
            except OSError as error:
                what = f"cannot be written: {error.strerror or error}"
                raise ExplorerError(what, path) from error
            return str(path)

        self._runner.need_kernels([tensor.type.name])
        title = _tr("Saving {name}").format(name=path.name)
        return self._runner.run(title, write, self._on_done, self._on_failed)


def _tr(text: str) -> str:
    return QCoreApplication.translate("ValuesExport", text)


def _refuse_own_file(tensor: Tensor, path: Path) -> None:
    """Raise if the file to be written is the one that the weights are in."""
    for extent in tensor.extents:
        try:
            same = path.samefile(extent.source.path)
        except OSError:  # the usual case: there is no such file yet
            continue
        if same:
            raise ExplorerError("is a file of the model itself; choose another name", path)
