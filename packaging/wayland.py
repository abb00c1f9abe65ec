"""Starts a program on Wayland: Weston, in a window of the invisible screen.

Weston's own screen would take no keys; in a window of X it takes those of xdotool, and passes them
on as a compositor does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proof import Started, picture_views
from screen import SIZE, Launch, Screen, open_screen, shown
from tools import BUILD, PICTURES, PackagingError, say

SOCKET = "wayland-gguf-explorer"
TITLE = "^weston"  # its class; it has no title
_START_S = 60.0
_LOOK_S = 0.5


@contextmanager
def compositor(screen: Screen) -> Iterator[dict[str, str]]:
    """Run Weston on a screen; what is started with the variables shows its window there.

    Raises:
        PackagingError: Weston does not start.
    """
    width, height = SIZE.split("x")
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            [
                *["weston", "--backend=x11-backend.so", "--shell=kiosk-shell.so", "--no-config"],
                *["--use-pixman", f"--width={width}", f"--height={height}", f"--socket={SOCKET}"],
                f"--log={BUILD / 'weston.log'}",
            ],
            env={**os.environ, "DISPLAY": screen.display, "XDG_RUNTIME_DIR": folder},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            end = time.monotonic() + _START_S
            while not (Path(folder, SOCKET).exists() and screen.window(TITLE)):
                if server.poll() is not None or time.monotonic() > end:
                    raise PackagingError(f"Weston does not start; see {BUILD / 'weston.log'}")
                time.sleep(_LOOK_S)
            yield {
                "XDG_RUNTIME_DIR": folder,
                "WAYLAND_DISPLAY": SOCKET,
                "QT_QPA_PLATFORM": "wayland",  # X is there too, and shall not be taken
            }
        finally:
            server.terminate()
            server.wait()


def prove_on_wayland(program: Started, model: Path) -> None:
    """See that the window opens a model on Wayland, takes keys, and closes.

    Raises:
        PackagingError: Something is not as promised.
    """
    if shutil.which("weston") is None:
        say("weston is not here: not started on Wayland; on Debian: apt-get install weston")
        return
    picture, log = PICTURES / f"{program.name}.png", BUILD / f"{program.name}.log"
    with open_screen() as screen, compositor(screen) as variables:
        launch = Launch(
            [*program.command, "--fresh", model],
            program.home,
            {**program.environment, **variables},
            log,
        )
        empty = screen.picture(picture)
        with shown(screen, launch, TITLE) as window:
            wait_until_painted(screen, picture, empty)
            screen.settled_picture(picture)
            picture_views(program, model, window)
            window.close()
    if text := log.read_text(encoding="utf-8", errors="replace").strip():
        raise PackagingError(f"{program.name}: the window is not silent:\n{text}")
    say(f"{program.name}: look at {picture}")


def wait_until_painted(screen: Screen, picture: Path, empty: bytes) -> None:
    """Wait until something is on a screen that was empty.

    Raises:
        PackagingError: Nothing is, within a minute.
    """
    end = time.monotonic() + _START_S
    while screen.picture(picture) == empty:
        if time.monotonic() > end:
            raise PackagingError("nothing was shown on Wayland")
        time.sleep(_LOOK_S)
