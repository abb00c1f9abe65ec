"""Save the weights of a tensor as a NumPy file or as CSV, in the background."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QCoreApplication

from explorer.formats.export import refuse_own_file, write_csv, write_npy
from explorer.formats.tensors import Tensor
from explorer.qt.jobs import Job
from explorer.qt.views.saving import FileSaver, file_name
from explorer.tabular import write_atomically


class ValuesExport(FileSaver):
    """Saves weights, and tells how that went; see `FileSaver`."""

    def ask(self, tensor: Tensor) -> None:
        """Ask for a file, and save all weights of a tensor into it."""
        kinds = {_tr("NumPy array"): ".npy", _tr("CSV"): ".csv"}
        path = self.ask_path(_tr("Save all values"), file_name(tensor.name, "values"), kinds)
        if path is not None:
            self.save(tensor, path)

    def save(self, tensor: Tensor, path: Path) -> Job:
        """Save all weights of a tensor, float32: CSV if the name says so, else a NumPy array.

        The file appears when it is complete.
        """
        types = [tensor.type.name]

        def work(job: Job) -> None:
            def report(done: int) -> None:
                job.report(done, tensor.parameters)

            refuse_own_file((extent.source.path for extent in tensor.extents), path)
            self.runner.wait_for_kernels(types, job)
            with write_atomically(path) as stream:
                if path.suffix.lower() == ".csv":
                    write_csv(tensor, stream, job.check, report)
                else:
                    write_npy(tensor, stream.buffer, job.check, report)

        self.runner.need_kernels(types)
        return self.write(_tr("Saving {name}").format(name=path.name), path, work)


def _tr(text: str) -> str:
    return QCoreApplication.translate("ValuesExport", text)
