"""Walk the window as a screen reader does, and list what has no name.

  .venv/bin/python packaging/screen_reader.py [--model PATH] [COMMAND …]

COMMAND is the one-folder program if there is none. Another process reads the tree of accessible
objects through AT-SPI, page by page; every control that the keyboard can reach must have a name.
Needs what screen.py needs, and on Debian: apt-get install at-spi2-core dbus python3-pyatspi
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from pathlib import Path

from frozen import FOLDER, program_in
from proof import Started, new_home, smallest_quantized_tensor
from screen import Launch, Shown, open_screen, shown
from tools import BUILD, PackagingError, fail, run, say, tool

from explorer.paths import demo_model

SYSTEM_PYTHON = "/usr/bin/python3"  # pyatspi is Debian's, and in no registry
PANELS = {
    "Overview": "ctrl+1",  # first, so that nothing is chosen yet
    "Library": "alt+1",
    "Metadata": "ctrl+2",
    "Tensors": "ctrl+3",
    "Vocabulary": "ctrl+4",
    "Raw": "ctrl+5",
    "Summary": "ctrl+6",
    "Weights": "ctrl+7",
    "One tensor": "ctrl+8",
    "All tensors": "ctrl+9",
    "Planner": "alt+5",
}
GROUPS = ("Library", "Model", "Weights", "Compare", "Planner")
# The bus of screen readers starts when it is asked for; Qt joins one that is there.
START_BUS = [
    *("dbus-send", "--session", "--print-reply", "--dest=org.a11y.Bus"),
    *("/org/a11y/bus", "org.a11y.Bus.GetAddress"),
]
_SHOWN_S = "4"  # seconds
_LIMIT_S = 300.0
# Only a line for each nameless control is printed, and at the end how many were looked at.
WALK = """\
import sys
import time
import pyatspi

seconds, *panels = sys.argv[1:]
MOST = 60  # rows of a table: the others are like them
VIEWS = ("chart", "image", "document frame")
looked_at = 0


def children(node):
    found = (node.getChildAtIndex(number) for number in range(min(node.childCount, MOST)))
    return [child for child in found if child is not None]


def walk(node, path, tabs):
    global looked_at
    state, role, name = node.getState(), node.getRoleName(), (node.name or "").strip()
    here = path + [f"{role} {name!r}"]
    if not state.contains(pyatspi.STATE_SHOWING) and len(path) > 1:
        return
    if role == "page tab":
        tabs.append(node)
    if state.contains(pyatspi.STATE_FOCUSABLE):
        looked_at += 1
        # an empty cell is data; the area within a view has the name of the view
        within = role == "filler" and node.parent.getRoleName() in VIEWS and node.parent.name
        if not (name or within or role == "table cell"):
            print(" > ".join(here[-4:]))
    for child in children(node):
        walk(child, here, tabs)


for program in children(pyatspi.Registry.getDesktop(0)):
    tabs = []
    walk(program, [], tabs)
    for tab in tabs:
        if tab.name not in panels:  # a page of the panel in front
            tab.queryAction().doAction(0)
            time.sleep(float(seconds))
            walk(program, [], [])
print(looked_at)
"""


def prove_names(program: Started, model: Path) -> None:
    """See that every control of every panel that the keyboard can reach has a name.

    Raises:
        PackagingError: One has none, or the tree cannot be read.
    """
    run(START_BUS)
    log = BUILD / f"{program.name}.log"
    environment = {
        **program.environment,
        "DBUS_SESSION_BUS_ADDRESS": os.environ["DBUS_SESSION_BUS_ADDRESS"],
        "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "1",  # as if a screen reader had announced itself
    }
    launch = Launch([*program.command, "--fresh", model], program.home, environment, log)
    tensor = smallest_quantized_tensor(program, model)["name"]
    nameless: list[str] = []
    with open_screen() as screen, shown(screen, launch, re.escape(model.name)) as window:
        time.sleep(float(_SHOWN_S))
        window.go_to(tensor)
        for panel, key in PANELS.items():
            nameless += look_at(window, panel, key)
        window.close()
    if nameless:
        raise PackagingError("these have no name:\n" + "\n".join(nameless))


def look_at(window: Shown, panel: str, key: str) -> list[str]:
    """Show a panel and return its nameless controls.

    Raises:
        PackagingError: No control was found at all, or the tree cannot be read.
    """
    window.press(key)
    time.sleep(float(_SHOWN_S))
    said = run([SYSTEM_PYTHON, "-c", WALK, _SHOWN_S, *PANELS, *GROUPS], limit_s=_LIMIT_S)
    *lines, count = said.splitlines()
    found = dict.fromkeys(lines)  # pages of one panel have parts in common
    if int(count) == 0:
        raise PackagingError(f"{panel}: the tree of accessible objects is empty")
    say(f"{panel}: {count} looks at what the keyboard can reach, {len(found)} without a name")
    return [f"{panel}: {line}" for line in found]


def main(arguments: list[str]) -> int:
    """Look at every panel; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="screen_reader.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", type=Path, help="the demo model, if it is left out")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    try:
        session = tool("dbus-run-session", "dbus")
        if "GGUF_EXPLORER_BUS" not in os.environ:  # a bus of its own
            environment = {**os.environ, "GGUF_EXPLORER_BUS": "own"}
            os.execve(session, [session, "--", sys.executable, __file__, *arguments], environment)
        BUILD.mkdir(exist_ok=True)
        model = demo_model() if options.model is None else options.model.absolute()
        command = options.command or [program_in(FOLDER)]
        prove_names(Started("screen-reader", command, new_home("screen-reader")), model)
    except PackagingError as error:
        fail(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
