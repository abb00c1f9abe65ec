"""Disks of the test's own: one that is full, and one that fails while it is being read.

They are made by the superuser, on Linux. Elsewhere the tests that need one skip.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_MIB = 1 << 20


class Disk:
    """A disk whose content is a file.

    Attributes:
        folder: Where it is mounted, read-only.
    """

    def __init__(self, folder: Path, image: Path) -> None:
        self.folder = folder
        self._image = image

    def unplug(self, path: Path, kept_bytes: int) -> None:
        """Let every read fail that goes beyond what the system has in memory already.

        Args:
            path: A file of the disk.
            kept_bytes: What stays in memory of that file, from its beginning.
        """
        with open(path, "rb") as file:
            file.read(kept_bytes)
            os.truncate(self._image, _MIB)
            os.posix_fadvise(file.fileno(), kept_bytes, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def disk_with(base: Path, *files: Path) -> Iterator[Disk]:
    """Make a disk that holds copies of some files."""
    image, folder = base / "disk.img", base / "disk"
    folder.mkdir()
    nbytes = sum(file.stat().st_size for file in files) * 2 + 8 * _MIB
    with open(image, "wb") as file:
        file.truncate(nbytes)
    _run("mkfs.ext4", "-q", "-F", str(image))
    _mount("-o", "loop", str(image), str(folder))
    try:
        for file in files:
            shutil.copy(file, folder)
    finally:
        _run("umount", str(folder))
    _mount("-o", "loop,ro", str(image), str(folder))
    try:
        yield Disk(folder, image)
    finally:
        _run("umount", "-l", str(folder))


@contextmanager
def small_disk(base: Path, nbytes: int) -> Iterator[Path]:
    """Make a disk that is soon full; yield its folder."""
    folder = base / "small"
    folder.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={nbytes}", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        _run("umount", "-l", str(folder))


@contextmanager
def read_only_disk(base: Path) -> Iterator[Path]:
    """Make a disk that is empty and stays so; yield its folder."""
    with small_disk(base, _MIB) as folder:
        _mount("-o", "remount,ro", str(folder))
        yield folder


def _mount(*arguments: str) -> None:
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only the superuser of a Linux system may mount a disk")
    _run("mount", *arguments)


def _run(*command: str) -> None:
    """Run a program of the system, or skip the test where that is not allowed."""
    program = shutil.which(command[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(
        [program, *command[1:]], capture_output=True, text=True, timeout=30, check=False
    )
    if done.returncode:
        pytest.skip(f"{' '.join(command)}: {done.stderr.strip()}")
