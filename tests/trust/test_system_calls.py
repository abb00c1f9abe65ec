"""The system's own account of what is called.

No socket, unless an address was given; and nothing written but where the user says, in the cache
folder and in that of the settings.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("PySide6", reason="the extra [gui] is not installed")

from explorer.qt.settings import Settings
from explorer.sources import is_address, parse_address
from tests.helpers.demo import copy_demo
from tests.helpers.ollama_store import store_of
from tests.helpers.web import serving

ROOT = Path(__file__).resolve().parents[2]

_COMMANDS = """
import sys
from pathlib import Path
from explorer.cli.main import main
from tests.helpers.commands import calls
model, manifest, store, out = map(Path, sys.argv[1:])
names = ["blk.0.attn_q.weight"]
for arguments in calls(model, manifest, names, [("ollama", store), ("folder", out)], out):
    if main(arguments):
        sys.exit(f"failed: {arguments}")
"""

# The window, which ends some seconds after it noted that it runs.
_WINDOW = """
import os, signal, sys, threading, time
from pathlib import Path
from explorer.cli.main import main

def end():
    while not list(Path(os.environ["GGUF_EXPLORER_CACHE"], "crashes").glob("running-*")):
        time.sleep(0.05)
    time.sleep(3.0)
    signal.raise_signal(signal.SIGTERM)

threading.Thread(target=end, daemon=True).start()
sys.exit(main(sys.argv[1:]))
"""


_WRITES = re.compile(
    r"(?:openat\(AT_FDCWD|open\(|creat\(|mkdir\w*\(|rename\w*\(|unlink\w*\(|rmdir\(|symlink\w*\("
    r'|linkat?\(|truncate\(|f?chmod\w*\(|f?chown\w*\(|mknod\w*\()[^"]*"([^"]*)"(.*)'
)
_OPENS_TO_WRITE = ("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC")
_NOT_FILES = ("/dev/null", "/dev/tty", "/dev/shm/", "/proc/self/")


def written(line: str) -> str:
    """Return the path that a call writes to, removes or changes; "" if it does none of that."""
    match = _WRITES.search(line)
    if match is None or match[1].startswith(_NOT_FILES):
        return ""
    opens = "open(" in line or "openat(" in line
    return match[1] if not opens or any(flag in match[2] for flag in _OPENS_TO_WRITE) else ""


_SOCKET = re.compile(
    r"\b(?:socket|socketpair|connect|bind|listen|accept4?|send\w*|recv\w*|[gs]etsockopt|shutdown"
    r"|getpeername|getsockname)\("
)


def traced(tmp_path: Path, code: str, *arguments: Path | str) -> tuple[int, list[str]]:
    """Run Python under strace; return the exit code, and all calls that must not be.

    These are all that have to do with sockets, and those that write outside of cache, settings and
    the folder ``out``.
    """
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    log = tmp_path / "calls"
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "QT_QPA_PLATFORM": "offscreen",
        "GGUF_EXPLORER_CACHE": str(tmp_path / "cache"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "HOME": str(tmp_path),
    }
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"):
        environment.pop(name, None)
    command = [strace, "-f", "-qq", "-e", "trace=%network,%file", "-o", str(log), sys.executable]
    done = subprocess.run(
        [*command, "-c", code, *map(str, arguments)],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "PTRACE" in done.stderr:
        pytest.skip("strace may not look at processes here")
    lines = [line for line in log.read_text().splitlines() if "(" in line and "SIG" not in line]
    kernels = os.environ.get("NUMBA_CACHE_DIR") or "/none"  # of all tests, guarded likewise
    compiled = os.environ.get("PYTHONPYCACHEPREFIX") or "/none"  # Python's, see tests/__init__.py
    ours = (*(f"{tmp_path}/{name}" for name in ("cache", "config", "out")), kernels, compiled)
    elsewhere = [line for line in lines if written(line) and not written(line).startswith(ours)]
    sockets = [line for line in lines if _SOCKET.search(line)]
    return done.returncode, [*sockets, *elsewhere]


def test_strace_sees_an_address_that_is_read(tmp_path: Path) -> None:
    pytest.importorskip("urllib3", reason="the extra [remote] is not installed")
    demo = copy_demo(tmp_path / "demo").read_bytes()
    code = "import sys; from explorer.cli.main import main; sys.exit(main(sys.argv[1:]))"
    with serving() as web:
        status, calls = traced(tmp_path, code, "check", web.put("/m.gguf", demo))
        assert status == 0
        assert any("connect(" in line for line in calls)
        status, calls = traced(tmp_path, code, "check", web.url + "/m.gguf", "--offline")
    assert status == 1
    assert calls == []


def test_strace_sees_what_is_written_elsewhere(tmp_path: Path) -> None:
    code = "import sys; open(sys.argv[1], 'w'); open(sys.argv[1])"
    status, (call,) = traced(tmp_path, code, tmp_path / "elsewhere")
    assert status == 0
    assert written(call) == str(tmp_path / "elsewhere")


@pytest.mark.slow
def test_no_command_calls_for_a_socket(tmp_path: Path) -> None:
    demo, out = copy_demo(tmp_path / "demo"), tmp_path / "out"
    out.mkdir()
    found = traced(tmp_path, _COMMANDS, demo, *store_of(demo, tmp_path / "store"), out)
    assert found == (0, [])


@pytest.mark.slow
def test_nor_does_the_window_that_remembers_addresses(tmp_path: Path) -> None:
    addresses = [parse_address(text) for text in ("hf://o/n/m.gguf", "https://host/m.gguf")]
    settings = Settings(tmp_path / "config" / "gguf-explorer" / "gguf-explorer.ini")
    for address in addresses:
        settings.add_recent(address)
    settings.session = list(addresses)  # as an older program may have kept it
    settings.write()
    demo = copy_demo(tmp_path / "demo")
    for paths in ([], [demo]):
        assert traced(tmp_path, _WINDOW, *paths) == (143, [])
    kept = Settings(tmp_path / "config" / "gguf-explorer" / "gguf-explorer.ini")
    assert demo in kept.recent  # it was this window's
    assert kept.recent[-2:] == addresses[::-1]
    assert not any(map(is_address, kept.session))
