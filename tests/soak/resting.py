"""What a window holds at rest: with all models closed, nothing under way, and garbage collected.

Two things of Qt's are left out, because both go up and down with what was last done, and both are
bounded. Each window, also the hidden list of a combo box, keeps a picture of itself, 4 bytes for
each pixel: 10.7 MiB where the monkey makes the window largest, 2 MiB where smallest. And the style
keeps pictures of buttons and arrows, of which Qt drops those not used for longest at 10 MiB.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from weakref import ref

import psutil
from PySide6.QtCore import QCoreApplication, QEvent, QObject
from PySide6.QtGui import QGuiApplication, QPixmapCache
from PySide6.QtWidgets import QApplication

from explorer.formats import Model
from explorer.qt.document import Document
from explorer.qt.main_window import MainWindow
from tests.helpers.descendants import descendants
from tests.soak.monkey import Monkey

_IDLE_S = 60.0
_MIB = 1 << 20
_BYTES_OF_PIXEL = 4
_TRIM_THRESHOLD = -1  # `M_TRIM_THRESHOLD` of glibc's malloc.h
_MOST_KEPT = 128 << 10  # as it is at first, before large arrays raise it


class _Allocated(ctypes.Structure):
    """`struct mallinfo2` of glibc 2.33 and later."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


@dataclass(frozen=True)
class AtRest:
    """What is held at rest.

    Attributes:
        actions: How many things were done before.
        own: Bytes of its own in RAM, after what is free was given back to the system, without the
            pictures that windows keep of themselves. Pages of files, such as the code of libraries,
            do not count: the system drops them and reads them again as it likes, on a busy machine
            100 MiB within a minute.
        rss: All bytes in RAM.
        allocated: Bytes that the C library's allocator has given out and not got back, without
            those pictures; 0 where it does not tell. Python's small objects are not among them.
        blocks: Small objects of Python.
        qobjects: Qt's objects that belong to a window.
        descriptors: Open files, pipes and sockets; 0 where the system does not tell.
    """

    actions: int
    own: int
    rss: int
    allocated: int
    blocks: int
    qobjects: int
    descriptors: int

    def __str__(self) -> str:
        return (
            f"{self.own / _MIB:,.1f} MiB of its own in RAM, {self.rss / _MIB:,.1f} MiB with files, "
            f"{self.allocated / _MIB:,.1f} MiB allocated, "
            f"{self.blocks:,} blocks of Python, {self.qobjects:,} objects of Qt, "
            f"{self.descriptors} descriptors"
        )


class Watch:
    """Knows every model that was opened, and keeps none of them.

    Args:
        window: The window that opens them.
    """

    def __init__(self, window: MainWindow) -> None:
        self._window = window
        self._seen: dict[int, ref[Document | Model]] = {}

    def look(self) -> None:
        """Take note of what is open."""
        for document in self._window.documents:
            for part in (document, document.model):
                self._seen[id(part)] = ref(part)

    def kept(self) -> list[str]:
        """Return the models that are not open, and that something keeps all the same."""
        self._seen = {key: held for key, held in self._seen.items() if held() is not None}
        opened = {id(part) for one in self._window.documents for part in (one, one.model)}
        parts = [held() for held in self._seen.values()]
        return sorted(
            f"{type(part).__name__} {str(part.path)!r}"
            for part in parts
            if part is not None and id(part) not in opened
        )


def rest(monkey: Monkey, actions: int) -> AtRest:
    """Close all models, wait until nothing is under way, and return what is held."""
    monkey.close_dialogs()
    window = monkey.window
    monkey.wait(_IDLE_S)
    while window.documents:
        window.close_document(window.documents[0])
    collect(monkey)
    tops = QApplication.topLevelWidgets()
    qobjects = {id(one) for top in tops for one in (top, *descendants(top, QObject))}
    blocks = sys.getallocatedblocks()
    pictures = _pictures_of_windows()
    given_out = max(0, allocated() - pictures)
    return AtRest(
        actions,
        own_memory() - pictures,
        memory(),
        given_out,
        blocks,
        len(qobjects),
        psutil.Process().num_fds() if psutil.POSIX else 0,
    )


def _pictures_of_windows() -> int:
    """Return the bytes of the pictures that windows keep of themselves in the process's memory."""
    if QGuiApplication.platformName() != "offscreen":
        return 0  # they may be with the system
    stores = [top.backingStore() for top in QApplication.topLevelWidgets()]
    sizes = [store.size() for store in stores if store is not None]
    return sum(_BYTES_OF_PIXEL * size.width() * size.height() for size in sizes)


def collect(monkey: Monkey) -> None:
    """Wait until nothing is under way, and free what nobody holds."""
    for _ in range(3):
        monkey.wait(_IDLE_S)
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        QApplication.processEvents()
        gc.unfreeze()  # the program freezes what is there when it loads Numba
        gc.collect()
    QPixmapCache.clear()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def keep_nothing_freed() -> None:
    """Have glibc give the system back what threads free; before they do.

    Else up to 64 MiB at the end of an arena stay, or do not, as it happens, and `malloc_trim`
    leaves them there. The program is a little slower so, and leaks as much as before.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).mallopt(_TRIM_THRESHOLD, _MOST_KEPT)


def memory() -> int:
    """Return the bytes of this process in RAM."""
    return int(psutil.Process().memory_info().rss)


def own_memory() -> int:
    """Return the same without pages of files, where the system tells."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    told = [
        int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon", "RssShmem"))
    ]
    return sum(told) or memory()


def allocated() -> int:
    """Return what the C library's allocator has given out, in bytes; 0 where it does not tell."""
    tell = getattr(ctypes.CDLL(None), "mallinfo2", None) if sys.platform == "linux" else None
    if tell is None:
        return 0
    tell.restype = _Allocated
    told = tell()
    return int(told.uordblks + told.hblkhd)


def left_running(window: MainWindow) -> list[str]:
    """Return what still runs though nothing should."""
    left = [f"job {job.title}" for job in window.runner.jobs]
    count = window.runner._pool.activeThreadCount()
    if count:
        left.append(f"{count} threads of jobs")
    ours = [
        thread.name
        for thread in threading.enumerate()
        if thread is not threading.main_thread() and not thread.name.startswith("Dummy")
    ]
    if len(ours) > (os.cpu_count() or 1):  # pools of decoding threads are kept, and bounded
        left.append(f"threads {ours}")
    return left
