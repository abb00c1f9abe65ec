"""The search for a layout as docs/planner.md section 7 has it, layer by layer, without shortcuts.

Slow and plain, to compare with `explorer.planner.engines.ollama_013.layout`.
"""

from __future__ import annotations

import numpy as np

Entry = tuple[int, list[int]]


def greedy_fit(
    layers: list[int], free: list[tuple[int, int]], factor: np.float32, wanted: int
) -> list[Entry]:
    """Place layers from last to first, on GPUs (position, free bytes) from last to first."""
    device = len(free) - 1
    entries: list[Entry] = [(free[device][0], [])]
    room = int(np.float32(np.float32(free[device][1]) * factor))
    for i in range(len(layers) - 1, -1, -1):
        if wanted >= 0 and len(layers) - 1 - i >= wanted:
            break
        while layers[i] > room:
            device -= 1
            if device < 0:
                return entries
            entries.insert(0, (free[device][0], []))
            room = int(np.float32(np.float32(free[device][1]) * factor))
        entries[0][1].insert(0, i)
        room -= layers[i]
    return entries


def placed(entries: list[Entry]) -> int:
    """Return the number of layers placed."""
    return sum(len(layers) for _, layers in entries)


def best_fit(
    layers: list[int], free: list[int], integrated: list[bool], wanted: int, forced: bool
) -> list[Entry]:
    """Fit group after group, each at the smallest factor that places as many layers."""
    result: list[Entry] = []
    for flag in dict.fromkeys(integrated):
        group = [(i, free[i]) for i in range(len(free)) if integrated[i] is flag]
        low, high = np.float32(0), np.float32(1000 if wanted >= 0 and forced else 1)
        best = greedy_fit(layers, group, high, wanted)
        count = placed(best)
        while high - low > np.float32(1e-6):
            middle = np.float32(np.float32(low + high) / np.float32(2))
            if middle in (low, high):
                break
            fit = greedy_fit(layers, group, middle, wanted)
            if placed(fit) == count:
                high, best = middle, fit
            else:
                low = middle
        layers = layers[: len(layers) - count]
        wanted -= count
        result = best + result
    return result


def assign(
    layers: list[int],
    free: list[int],
    integrated: list[bool],
    *,
    last_used: int,
    num_gpu: int,
    require_full: bool,
    spread: bool,
) -> list[Entry]:
    """Place layers on the GPUs of one library."""
    if num_gpu >= 0 or spread:
        integrated = [False] * len(free)
    fit: list[Entry] = []
    for _ in range(2):
        num_gpu = min(len(layers), num_gpu)
        if spread:
            fit = best_fit(layers, free, integrated, num_gpu, not require_full)
        else:
            for n in range(last_used + 1, len(free) + 1):
                forced = n == len(free) and not require_full
                fit = best_fit(layers, free[:n], integrated[:n], num_gpu, forced)
                if placed(fit) in (len(layers), num_gpu):
                    break
        if placed(fit) == len(layers):
            return fit
        layers = layers[:-1]
    return fit
