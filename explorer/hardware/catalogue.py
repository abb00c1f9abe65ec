"""The catalogue of GPUs, `resources/gpu_catalogue`, and finding one by what people call it.

The figures are data, with a source in each row.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Final

from explorer.errors import ExplorerError
from explorer.hardware.detect import working_set_bytes
from explorer.paths import resource
from explorer.planner import Device
from explorer.planner.devices import CPU, compute_capability
from explorer.planner.speed import Bandwidth
from explorer.text import plain_text, shorten

# "RTX 3090", "rtx3090", "3090" and "NVIDIA GeForce RTX 3090" are one card; "A100" is four. So names
# are matched in steps from strict to lenient, and the first step that matches anything decides: one
# product, or several to choose from. Plain similarity only gives hints, since "RTX 3080" is as
# similar to "RTX 3090" as a typing mistake is.

_WORD: Final = re.compile(r"[a-z0-9]+")
_RUN: Final = re.compile(r"[a-z]+|[0-9]+")
_SIZE: Final = re.compile(r"\b([0-9]+)\s*gi?b\b")
_LONGEST: Final = 100

# Often left out, and never what distinguishes two products.
_DECORATION: Final = {
    *("nvidia", "geforce", "tesla", "amd", "radeon", "instinct", "intel", "apple"),
    *("gpu", "graphics", "generation", "edition"),
}
_SERIES: Final = {"rtx", "gtx", "gt", "rx", "arc"}


def _words(name: str) -> list[str]:
    """Return the words of a name; a size in GB or GiB is one word."""
    return _WORD.findall(_SIZE.sub(r"\1gb", name[:_LONGEST].casefold()))


def _spans(name: str) -> set[str]:
    """Return the words of a name, and each run of words as one: ``"rtx"``, ``"rtx4060ti"``."""
    words = _words(name)
    ends = range(1, len(words) + 1)
    return {"".join(words[start:end]) for end in ends for start in range(end)}


def _keys(name: str) -> tuple[str, str, str]:
    """Return the name in full, without decoration, and without the series as well."""
    runs = [run for word in _words(name) for run in _RUN.findall(word)]
    plain = [run for run in runs if run not in _DECORATION]
    bare = [run for run in plain if run not in _SERIES]
    return "".join(runs), "".join(plain), "".join(bare)


GPU_FILE: Final = "gpu_catalogue/gpus.csv"

_GIB: Final = 1 << 30
_GB: Final = 10**9
_SHOWN_CANDIDATES: Final = 12
_TRUTH: Final = {"yes": True, "no": False}


class CatalogueError(ExplorerError):
    """A name that no GPU has, or that several have.

    Attributes:
        matching: The names of all GPUs that fit.
        similar: Where none fits, names that were perhaps meant, best first.
    """

    def __init__(
        self, what: str, *, matching: Iterable[str] = (), similar: Iterable[str] = ()
    ) -> None:
        super().__init__(what)
        self.matching = tuple(matching)
        self.similar = tuple(similar)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One row of the catalogue."""

    name: str  # vendor and product: "NVIDIA GeForce RTX 3090"
    vendor: str  # "NVIDIA", "AMD", "Intel" or "Apple"
    kind: str  # "consumer", "workstation", "server" or "embedded"
    library: str  # "CUDA", "ROCm", "Vulkan" or "Metal"
    memory_bytes: int  # memory as it is marketed
    usable_bytes: int  # the most that the GPU can have of it
    memory_type: str | None  # "GDDR6", "HBM3", … or None
    bus_bits: int | None  # width of the memory bus, or None
    bandwidth_bytes_per_s: int | None  # peak bandwidth of the memory, or None
    compute: tuple[int, int] | None  # NVIDIA's compute capability, or None
    integrated: bool  # whether the memory is shared with the processor
    year: int  # year of its release
    sources: tuple[str, ...]  # of the figures: keys of `sources.csv`, perhaps with a page
    note: str = ""  # a remark, or nothing

    def device(self, identity: str = "0") -> Device:
        """Return it as a plan takes it, with nothing else in its memory."""
        return Device(
            id=identity,
            library=self.library,
            free=self.usable_bytes,
            integrated=self.integrated,
            name=self.name,
            total=self.memory_bytes,
            compute=self.compute,
        )


class Catalogue:
    """GPUs by name."""

    def __init__(self, gpus: Iterable[Gpu]) -> None:
        self.gpus = tuple(gpus)
        names = [gpu.name for gpu in self.gpus]
        self._keys, self._spans = list(map(_keys, names)), list(map(_spans, names))
        self._extra_words = [  # that a name may have: sizes without a unit, the kind of memory
            {word[:-2] for word in _words(gpu.name) if re.fullmatch("[0-9]+gb", word)}
            | set(_words(gpu.memory_type or ""))
            for gpu in self.gpus
        ]

    def find(self, name: str) -> Gpu:
        """Return the GPU of a name, however it is spelt: ``"rtx3090"``, ``"Tesla T4"``.

        Raises:
            CatalogueError: No GPU or several are called so.
        """
        matching = self._matching(name)
        if len(matching) == 1:
            return self.gpus[matching[0]]
        shown = shorten(plain_text(name), 80)
        if not matching:
            keys = [keys[1] for keys in self._keys]
            near = get_close_matches(_keys(name)[1], keys, n=3, cutoff=0.5)
            similar = [self.gpus[keys.index(key)].name for key in dict.fromkeys(near)]
            hint = f". Similar: {', '.join(similar)}" if similar else ""
            what = f"no GPU of the catalogue is called {shown!r}{hint}"
            raise CatalogueError(f"{what}. Give its free memory instead", similar=similar)
        candidates = [self.gpus[row].name for row in matching]
        listed = ", ".join(candidates[:_SHOWN_CANDIDATES])
        more = len(candidates) - _SHOWN_CANDIDATES
        listed += f" and {more} more" if more > 0 else ""
        what = f"several GPUs are called {shown!r}: {listed}"
        raise CatalogueError(what, matching=candidates)

    def _matching(self, name: str) -> list[int]:
        """Return the rows of all GPUs that a name fits, on the first step that fits any.

        In the last step, each word of the name is a word of the product, or several that follow
        each other: ``"RTX 6000"`` fits the RTX 6000 Ada, but not the RTX A6000. Extra words, and
        a size without its unit, do not name it alone.
        """
        words = set(_words(name))
        if not words:
            return []
        for step, key in enumerate(_keys(name)):
            found = [row for row, keys in enumerate(self._keys) if key and keys[step] == key]
            if found:
                return found
        return [
            row
            for row, (spans, extra) in enumerate(zip(self._spans, self._extra_words, strict=True))
            if words & spans and words <= spans | extra
        ]

    def search(self, words: str) -> tuple[Gpu, ...]:
        """Return the GPUs whose name, vendor, kind or library has every word; all for no word.

        A size, such as ``12GB``, is that of the memory. Of one size cards of their own come first,
        before those that share main memory, and the newest of them.
        """
        text = words[:200].casefold()
        wanted = [f" {size}gb " for size in _SIZE.findall(text)] + _SIZE.sub("", text).split()
        found = [gpu for gpu in self.gpus if all(word in _search_text(gpu) for word in wanted)]
        if _SIZE.search(text):
            found.sort(key=lambda gpu: (gpu.integrated, -gpu.year))
        return tuple(found)


def _search_text(gpu: Gpu) -> str:
    name = gpu.name.casefold()
    size = f"{round(gpu.memory_bytes / _GIB)}gb"
    return f" {size} {name} {name.replace(' ', '')} {gpu.kind} {gpu.library.casefold()}"


MAIN_MEMORY_BANDWIDTH: Final = 102_400_000_000
"""Assumed where nobody says better: two channels of DDR5-6400. Servers have more."""


def find_bandwidths(
    devices: Iterable[Device], given: Mapping[str, int] | None = None
) -> dict[str, Bandwidth]:
    """Return how fast each GPU and the CPU read their memory.

    Args:
        devices: The GPUs, in the order of the plan: ``"GPU0"`` …
        given: Bytes a second that the user gave, by ``"GPU0"`` … or ``"CPU"``.
    """
    found: dict[str, Bandwidth] = {}
    shared: Bandwidth | None = None
    for number, device in enumerate(devices):
        name = f"GPU{number}"
        found[name] = _bandwidth(name, device)
        if device.integrated and found[name].bytes_per_second:
            shared = found[name]  # its memory is the machine's
    if shared is not None:
        found[CPU] = Bandwidth(CPU, shared.bytes_per_second, shared.origin)
    else:
        origin = "assumed: two channels of DDR5-6400. Give the machine's own"
        found[CPU] = Bandwidth(CPU, MAIN_MEMORY_BANDWIDTH, origin)
    for name, rate in (given or {}).items():
        if name in found:
            found[name] = Bandwidth(name, rate, "you")
    return found


def named_bandwidths(devices: Iterable[Device], by_name: Mapping[str, int]) -> dict[str, Bandwidth]:
    """Return the same, where what the user gave is kept by the names of GPUs."""
    found = tuple(devices)
    names = {f"GPU{number}": gpu.name or gpu.key for number, gpu in enumerate(found)}
    given = {place: by_name.get(name, 0) for place, name in {**names, CPU: CPU}.items()}
    return find_bandwidths(found, {place: rate for place, rate in given.items() if rate})


def _bandwidth(name: str, device: Device) -> Bandwidth:
    if not device.name:
        return Bandwidth(name, None, "bandwidth unknown: the GPU has no name")
    try:
        gpu = load_catalogue().find(device.name)
    except CatalogueError as error:
        rates = {load_catalogue().find(one).bandwidth_bytes_per_s for one in error.matching}
        if len(rates) == 1 and None not in rates:  # variants of one card with the same memory
            return Bandwidth(name, rates.pop(), f"catalogue: {error.matching[0]}")
        return Bandwidth(name, None, "bandwidth unknown: the catalogue has no such GPU, or several")
    if gpu.bandwidth_bytes_per_s is None:
        return Bandwidth(name, None, f"not in the catalogue for {gpu.name}")
    return Bandwidth(name, gpu.bandwidth_bytes_per_s, f"catalogue: {gpu.name}")


@cache
def load_catalogue() -> Catalogue:
    """Return the catalogue that the program ships.

    Raises:
        FileNotFoundError: The installation lacks it.
    """
    return Catalogue(read_gpus(resource(GPU_FILE).read_text(encoding="utf-8").splitlines()))


def read_gpus(lines: Iterable[str]) -> Iterator[Gpu]:
    """Yield the GPUs of a catalogue file.

    Raises:
        ValueError: A row lacks a field or has one that cannot be read.
    """
    for row in csv.DictReader(lines):
        try:
            yield _gpu(row)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"GPU catalogue, row {row.get('name')!r}: {error!r}") from error


def _gpu(row: dict[str, str]) -> Gpu:
    memory = round(float(row["memory_gib"]) * _GIB)
    usable = working_set_bytes(memory) if row["library"] == "Metal" else memory
    if row["usable_gib"]:
        usable = round(float(row["usable_gib"]) * _GIB)
    bandwidth = row["bandwidth_gb_s"]
    return Gpu(
        name=row["name"],
        vendor=row["vendor"],
        kind=row["kind"],
        library=row["library"],
        memory_bytes=memory,
        usable_bytes=usable,
        memory_type=row["memory_type"] or None,
        bus_bits=int(row["bus_bits"]) if row["bus_bits"] else None,
        bandwidth_bytes_per_s=round(float(bandwidth) * _GB) if bandwidth else None,
        compute=compute_capability(row["compute"] or None),
        integrated=_TRUTH[row["integrated"]],
        year=int(row["year"]),
        sources=tuple(row["sources"].split()),
        note=row["note"],
    )
