"""Counting once more in other bins: the counts of numpy, and a cancel that ends it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from explorer.analysis.histogram import Binning, RunningCounts, count_weights
from explorer.formats import open_model
from tests.helpers.weight_files import huge_model, layer_weights, weights_model


def test_counts_are_those_of_numpy(tmp_path: Path) -> None:
    with open_model(weights_model().write(tmp_path / "weights.gguf")) as model:
        tensor = model.tensors["blk.3.attn_q.weight"]
        weights = layer_weights(3)
        for low, high, bins in ((-0.05, 0.08, 33), (float(weights.min()), 50.0, 256)):
            binning = Binning.of_range(low, high, bins)
            running = RunningCounts([binning])
            done = list(count_weights(tensor, running, 2))
            found = binning.histogram(running.totals[0])
            counts, edges = np.histogram(weights, bins, (low, high))
            assert found.counts.tolist() == counts.tolist()
            np.testing.assert_allclose(found.edges, edges, rtol=1e-6)
            assert done[-1] == weights.size


def test_what_cancel_raises_is_passed_on(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    checks = 0

    def cancel() -> None:
        nonlocal checks
        checks += 1
        if checks == 3:
            raise Stop

    counts = RunningCounts([Binning.of_range(0, 1, 8)])
    with open_model(huge_model(tmp_path / "huge.gguf", 1 << 24)) as model:
        with pytest.raises(Stop):
            list(count_weights(model.tensors.rows[0], counts, check=cancel))
        assert checks == 3
