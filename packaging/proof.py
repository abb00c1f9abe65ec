"""Start an installed program and see that it does what its package promises."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from screen import SHOWN_S, Launch, Shown, open_screen, shown
from tools import BUILD, PICTURES, PackagingError, new_folder, run, say, user_environment

from explorer import __version__

_PLAIN_TYPES = frozenset({"F32", "F16", "BF16", "F64"})
VIEWS = {"weights": "ctrl+7", "survey": "ctrl+9"}
"""Panels that decode weights → the key that shows them."""


@dataclass(frozen=True)
class Started:
    """An installed program and how it is started.

    Attributes:
        name: What the package is called, for messages and files.
        command: The program, before its arguments.
        home: The folder of a user who has nothing else.
        caches: Where programs keep their caches, within the home folder.
    """

    name: str
    command: Sequence[str | Path]
    home: Path
    caches: Path = Path(".cache")

    @property
    def cache(self) -> Path:
        """The folder of its own cache."""
        return self.home / self.caches / "gguf-explorer"

    @property
    def environment(self) -> dict[str, str]:
        """Its environment variables."""
        return user_environment(self.home)

    def output(self, *arguments: str | Path, cwd: Path | None = None) -> str:
        """Run a command of the program and return what it prints."""
        return run([*self.command, *arguments], cwd=cwd or self.home, environment=self.environment)


def new_home(name: str) -> Path:
    """Return an empty home folder."""
    return new_folder(BUILD / "homes" / name)


def files_of(folder: Path) -> Mapping[Path, int]:
    """Return every file below a folder with the time of its last change, in nanoseconds."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def smallest_quantized_tensor(program: Started, model: Path) -> dict[str, Any]:
    """Return what the program prints about the tensor that is quickest to decode by a kernel.

    Raises:
        PackagingError: The model has no quantized tensor.
    """
    record = json.loads(program.output("inspect", model, "--json", "--tensors"))
    quantized = [
        tensor for tensor in record["tensors"] if tensor["type"].upper() not in _PLAIN_TYPES
    ]
    if not quantized:
        raise PackagingError(f"{model}: has no quantized tensor to try the kernels on")
    return min(quantized, key=lambda entry: entry["parameters"])


def prove_commands(program: Started, model: Path) -> None:
    """See that the command line works, and that compiled kernels are found again.

    The first start compiles; the second, from another folder, must not write to the cache.

    Raises:
        PackagingError: Something is not as promised.
    """
    version = program.output("--version").strip()
    if version != f"gguf-explorer {__version__}":
        raise PackagingError(f"{program.name}: --version says {version!r}")
    tensor = smallest_quantized_tensor(program, model)
    say(f"{program.name}: statistics of {tensor['name']} ({tensor['type']})")
    seconds, answers, caches = [], [], []
    for folder in (program.home, new_folder(program.home / "another folder")):
        start = time.monotonic()
        answers.append(program.output("stats", model, tensor["name"], "--json", cwd=folder))
        seconds.append(time.monotonic() - start)
        caches.append({p: t for p, t in files_of(program.cache).items() if p.suffix == ".nbc"})
    if not caches[0]:
        raise PackagingError(f"{program.name}: no compiled kernel was kept in {program.cache}")
    if caches[0] != caches[1]:
        raise PackagingError(f"{program.name}: the second start compiled kernels again")
    if answers[0] != answers[1] or json.loads(answers[0])["count"] != tensor["parameters"]:
        raise PackagingError(f"{program.name}: two starts gave different statistics")
    say(f"{program.name}: compiled in {seconds[0]:.1f} s; second start {seconds[1]:.1f} s")


def prove_window(program: Started, model: Path, *, kernels: bool = True) -> Path:
    """See that the window opens a model, has its icon, and closes.

    Args:
        program: What is started.
        model: What it opens.
        kernels: Whether the views are to be shown that need kernels.

    Returns:
        The first screenshot, to be looked at.

    Raises:
        PackagingError: Something is not as promised.
    """
    picture, log = PICTURES / f"{program.name}.png", BUILD / f"{program.name}.log"
    command = [*program.command, "--fresh", model]
    launch = Launch(command, program.home, program.environment, log)
    title = re.escape(model.name)
    with open_screen() as screen, shown(screen, launch, title) as window:
        screen.settled_picture(picture)
        if not window.has_icon():
            raise PackagingError(f"{program.name}: the window has no icon")
        if kernels:
            picture_views(program, model, window)
        window.close()
    text = log.read_text(encoding="utf-8", errors="replace").strip()
    if text:
        raise PackagingError(f"{program.name}: the window is not silent:\n{text}")
    say(f"{program.name}: look at {picture}")
    return picture


def picture_views(program: Started, model: Path, window: Shown) -> None:
    """Take pictures of a tensor's histogram and of the map of the whole model.

    The map shows what the command `survey` has found: both know one cache.

    Raises:
        PackagingError: A view is not shown or stays empty, or the survey failed.
    """
    tensor = smallest_quantized_tensor(program, model)["name"]
    program.output("survey", model)
    window.go_to(tensor)
    before = window.screen.picture(PICTURES / f"{program.name}-tensors.png")
    for view, key in VIEWS.items():
        window.press(key)
        time.sleep(SHOWN_S)  # the panel is made when it is first shown
        picture = PICTURES / f"{program.name}-{view}.png"
        now = window.screen.settled_picture(picture)
        if now == before:
            raise PackagingError(f"{program.name}: {key} does not show the panel {view}")
        before = now
        say(f"{program.name}: look at {picture}")
