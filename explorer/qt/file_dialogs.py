"""The dialogs that ask for a model: files, or a folder."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QFileDialog, QWidget


def ask_models(parent: QWidget) -> list[Path]:
    """Ask for models to open; return their files, none if the user thought better of it."""
    names, _ = QFileDialog.getOpenFileNames(parent, _tr("Open models"), "", _kinds())
    return [Path(name) for name in names]


def ask_model_folder(parent: QWidget) -> Path | None:
    """Ask for the folder of a model; return it, or None."""
    name = QFileDialog.getExistingDirectory(parent, _tr("Open a model's folder"))
    return Path(name) if name else None


def ask_reference(parent: QWidget) -> Path | None:
    """Ask for a model to compare with; return its file, or None."""
    title = _tr("Open a model to compare with")
    name, _ = QFileDialog.getOpenFileName(parent, title, "", _kinds())
    return Path(name) if name else None


def _kinds() -> str:
    return _tr("Models (*.gguf *.safetensors *.safetensors.index.json);;All files (*)")


def _tr(text: str) -> str:
    return QCoreApplication.translate("MainWindow", text)
