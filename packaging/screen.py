"""An invisible screen, on which a program is started, looked at and closed as a user does.

The program gets no help: it is found by its window's title, closed with Ctrl+Q, and what it shows
is taken from the X server. Needs Xvfb, xdotool, xprop and ImageMagick's import.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools import PackagingError, run, tool

SIZE = "1280x800"
TOOLS = {
    "Xvfb": "xvfb",
    "xdotool": "xdotool",
    "xprop": "x11-utils",
    "import": "imagemagick",
    "identify": "imagemagick",
}
"""Programs that are needed → their Debian packages."""
FEWEST_COLOURS = 40  # an empty window has some, a painted one hundreds
SHOWN_S = 2.0  # until a dialog or a panel is there, on two cores that others use too
_LOOK_S = 0.5
_SETTLED = 4  # looks without a change
_START_S = 120.0
_SETTLE_S = 120.0
_CLOSE_S = 20.0
_KEY_MS = "40"


class Screen:
    """An X server of one's own; made by `open_screen`."""

    def __init__(self, display: str) -> None:
        self.display = display
        self._environment = {"PATH": os.environ.get("PATH", ""), "DISPLAY": display}

    def x(self, *command: str | Path) -> str:
        """Run one of X's tools on this screen."""
        return run(command, environment=self._environment, limit_s=60)

    def window(self, title: str) -> str:
        """Return the id of the visible window whose title or class matches; empty if none does."""
        try:
            found = self.x("xdotool", "search", "--onlyvisible", "--name", "--class", title)
        except PackagingError:  # xdotool's way to say that there is none
            return ""
        return found.split()[0] if found.split() else ""

    def picture(self, path: Path) -> bytes:
        """Save what the screen shows as PNG, without the time of day, and return the bytes."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.x("import", "-window", "root", "-define", "png:exclude-chunks=date,time", path)
        return path.read_bytes()

    def settled_picture(self, path: Path) -> bytes:
        """Save what the screen shows once nothing changes any more, and return the bytes.

        Raises:
            PackagingError: It still changes after two minutes, or hardly anything is painted.
        """
        now, same, end = b"", 0, time.monotonic() + _SETTLE_S
        while same < _SETTLED:
            if time.monotonic() > end:
                raise PackagingError("the window never came to rest")
            time.sleep(_LOOK_S)
            before, now = now, self.picture(path)
            same = same + 1 if now == before else 0
        colours = int(self.x("identify", "-format", "%k", path))
        if colours < FEWEST_COLOURS:
            raise PackagingError(f"{path}: only {colours} colours; the window looks empty")
        return now


@contextmanager
def open_screen() -> Iterator[Screen]:
    """Start an X server on a free display, and end it.

    Raises:
        PackagingError: One of the tools is missing, or the server does not start.
    """
    for name, package in TOOLS.items():
        tool(name, package)
    reading, writing = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writing), "-screen", "0", f"{SIZE}x24", "-nolisten", "tcp"],
        pass_fds=[writing],
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    try:
        with os.fdopen(reading) as answer:
            number = answer.readline().strip()  # when it is ready, or empty when it has ended
        if not number:
            raise PackagingError("Xvfb did not start")
        yield Screen(f":{number}")
    finally:
        server.terminate()
        server.wait()


class Shown:
    """A program with its window on a screen; made by `shown`."""

    def __init__(self, screen: Screen, process: subprocess.Popen[bytes], window: str) -> None:
        self.screen = screen
        self.process = process
        self.window = window

    def has_icon(self) -> bool:
        """Return whether the window has given the desktop its icon."""
        return "Icon (" in self.screen.x("xprop", "-id", self.window, "_NET_WM_ICON")

    def take_keyboard(self) -> None:
        """Give the window the keyboard: by a click on its status bar, which does nothing else."""
        width, height = (int(size) for size in SIZE.split("x"))
        place = [str(width * 3 // 4), str(height - 12)]
        # without a window manager a click alone gives nothing
        self.screen.x("xdotool", "windowfocus", "--sync", self.window)
        self.screen.x("xdotool", "mousemove", *place, "click", "1")

    def press(self, *keys: str) -> None:
        """Press keys, each such as ``ctrl+k``, in the window that has the keyboard."""
        self.screen.x("xdotool", "key", "--delay", _KEY_MS, *keys)

    def go_to(self, name: str) -> None:
        """Go to a tensor, say, by the search over everything; leave the keyboard to the window."""
        self.take_keyboard()
        self.press("ctrl+k")
        time.sleep(SHOWN_S)
        self.screen.x("xdotool", "type", "--delay", _KEY_MS, name)
        time.sleep(SHOWN_S)
        self.press("Return")
        time.sleep(SHOWN_S)
        self.take_keyboard()  # no window has it once a dialog is gone

    def close(self) -> None:
        """Close the program with Ctrl+Q.

        Raises:
            PackagingError: It does not end, or not with exit status 0.
        """
        self.take_keyboard()
        self.press("ctrl+q")
        try:
            status = self.process.wait(_CLOSE_S)
        except subprocess.TimeoutExpired as error:
            raise PackagingError("Ctrl+Q does not close the program") from error
        if status:
            raise PackagingError(f"the program ended with exit status {status}")


@dataclass(frozen=True)
class Launch:
    """How a program is started.

    Attributes:
        command: The program and its arguments.
        cwd: The folder it is started in.
        environment: Its environment variables; the display is added.
        log: The file that gets what it prints.
    """

    command: Sequence[str | Path]
    cwd: Path
    environment: Mapping[str, str]
    log: Path


@contextmanager
def shown(screen: Screen, launch: Launch, title: str) -> Iterator[Shown]:
    """Start a program, wait until its window is there, and see to it that it ends.

    Args:
        screen: Where it appears.
        launch: How it is started.
        title: A regular expression that the window's title contains.

    Raises:
        PackagingError: The program ends, or shows no such window within two minutes.
    """
    with launch.log.open("wb") as output:
        process = subprocess.Popen(
            [str(word) for word in launch.command],
            cwd=launch.cwd,
            env={**launch.environment, "DISPLAY": screen.display},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        end = time.monotonic() + _START_S
        while not (window := screen.window(title)):
            if process.poll() is not None or time.monotonic() > end:
                text = launch.log.read_text(encoding="utf-8", errors="replace")
                raise PackagingError(f"no window with the title {title!r} appeared:\n{text}")
            time.sleep(_LOOK_S)
        yield Shown(screen, process, window)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
