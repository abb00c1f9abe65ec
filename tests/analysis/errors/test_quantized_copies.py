"""A real model against its own copies in five types: the more bits, the less is lost."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from explorer.analysis.errors.compare import Comparison, total_of
from explorer.analysis.errors.metrics import ErrorMetrics
from explorer.analysis.matching.pairing import match_models
from explorer.analysis.requantization import requantize
from explorer.analysis.surveys import PairRow
from explorer.formats import open_model
from tests.helpers.model_pairs import write_gguf, write_safetensors

pytestmark = [pytest.mark.slow, pytest.mark.network]

_REAL_SAFETENSORS = "silero-vad==6.2.3"
"""A package that ships a trained model as safetensors, of 310 K weights, under the MIT licence."""

_FALLBACK = {"Q6_K": "Q8_0", "Q5_K": "Q5_1", "Q4_K": "Q5_0", "Q2_K": "Q4_0"}
"""What llama-quantize takes for rows that are not a multiple of 256."""

_TYPES = ("Q8_0", "Q6_K", "Q5_K", "Q4_K", "Q2_K")
_LAYERS = (0, 8, 17)
_NAMES = {
    "attn_output": "self_attn.o_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
}
_TURNED = {"attn_output": "attn_q", "ffn_down": "ffn_up", "attn_norm": "attn_norm"}


def _metrics(rows: list[PairRow]) -> dict[str, ErrorMetrics]:
    """Return the errors by name of the candidate; all were compared."""
    assert all(row.errors is not None for row in rows)
    return {row.pair.candidate_name: row.errors.metrics for row in rows if row.errors}


@pytest.fixture(scope="module")
def real_safetensors(request: pytest.FixtureRequest) -> Path:
    """A real safetensors file, taken once out of its package into pytest's cache."""
    folder = request.config.cache.mkdir("real_safetensors")
    target = folder / "silero_vad_16k.safetensors"
    if not target.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        got = subprocess.run(
            [*command, "--dest", str(folder), _REAL_SAFETENSORS],
            check=False,
            capture_output=True,
            text=True,
        )
        if got.returncode:
            pytest.skip(f"{_REAL_SAFETENSORS} cannot be had: {got.stderr.strip()[-200:]}")
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            target.write_bytes(archive.read(f"silero_vad/data/{target.name}"))
        wheel.unlink()
    return target


def test_a_real_safetensors_model_against_its_own_copies(
    real_safetensors: Path, tmp_path: Path
) -> None:
    with open_model(real_safetensors) as one:
        arrays = {tensor.name: tensor.dequantize() for tensor in one.tensors.rows}
        assert len(arrays) == 15
        totals, whole_blocks = [], []
        for kind in _TYPES:
            types = {
                name: kind if array.shape[-1] % 256 == 0 else _FALLBACK.get(kind, kind)
                for name, array in arrays.items()
                if array.ndim > 1 and array.shape[-1] % 32 == 0
            }
            assert len(types) == 3  # the others are vectors, or convolutions of 3 columns
            with open_model(write_gguf(tmp_path / f"{kind}.gguf", "vad", arrays, types)) as two:
                matching = match_models(one, two)
                assert len(matching.matches) == len(arrays)
                rows = list(Comparison(matching.matches).rows())
                totals.append(total_of(rows).metrics.relative_rmse)
            errors = _metrics(rows)
            for name, found in errors.items():
                assert (found.rmse == 0) == (name not in types)
            whole_blocks.append(errors["stft_conv.weight"].relative_rmse)
    assert totals == sorted(totals)
    assert whole_blocks == sorted(whole_blocks)
    assert whole_blocks[0] < 0.01
    assert whole_blocks[-1] > 0.1


@pytest.fixture
def arrays(real_model: Path) -> dict[str, NDArray[np.float32]]:
    """Weights of the model, as GGUF names them; matrices are turned.

    So no block of a copy is one of the file's own, which a copy of the same type would keep to the
    bit, and rows are whole super-blocks.
    """
    with open_model(real_model) as model:
        return {
            f"blk.{layer}.{role}.weight": model.tensors[f"blk.{layer}.{other}.weight"]
            .dequantize()
            .T.copy()
            for layer in _LAYERS
            for role, other in _TURNED.items()
        }


@pytest.fixture
def reference(arrays: dict[str, NDArray[np.float32]], tmp_path: Path) -> Path:
    """The same as Hugging Face stores them: other names, and norms less 1."""
    one = np.float32(1)
    stored = {}
    for layer in _LAYERS:
        for role, name in _NAMES.items():
            values = arrays[f"blk.{layer}.{role}.weight"]
            stored[f"model.layers.{layer}.{name}.weight"] = (
                values - one if "norm" in role else values
            )
    return write_safetensors(tmp_path / "reference", stored, model_type="gemma3_text")


def test_copies_of_five_types_are_ranked(
    arrays: dict[str, NDArray[np.float32]], reference: Path, tmp_path: Path
) -> None:
    losses: dict[str, list[float]] = {}
    with open_model(reference) as one:
        for kind in _TYPES:
            types = {name: kind for name in arrays if "norm" not in name}
            path = write_gguf(tmp_path / f"{kind}.gguf", "gemma3", arrays, types)
            with open_model(path) as two:
                matching = match_models(one, two)
                assert not matching.not_comparable
                assert not matching.unmatched_reference
                assert not matching.unmatched_candidate
                rows = list(Comparison(matching.matches).rows(2))
                total = total_of(rows).metrics.relative_rmse
            for name, errors in _metrics(rows).items():
                if "norm" in name:
                    assert errors.relative_rmse < 1e-7  # 1 less and 1 more, in float32
                else:
                    losses.setdefault(name, []).append(errors.relative_rmse)
            losses.setdefault("all", []).append(total)
    assert len(losses) == 7
    for name, found in losses.items():
        assert found == sorted(found), (name, found)
        if name != "all":  # the norms' weights are large, and exact
            assert found[0] < 0.01
            assert 0.1 < found[-1] < 0.5


def test_what_if_finds_the_same(real_model: Path, tmp_path: Path) -> None:
    """Rounding in memory gives the errors that a file of that type has."""
    name = "blk.0.attn_output.weight"
    with open_model(real_model) as model:
        tensor = model.tensors[name]
        reported = {row.type: row for row in requantize(tensor, _TYPES)}
        values = {name: tensor.dequantize()}
        for kind in _TYPES:
            path = write_gguf(tmp_path / f"{kind}.gguf", "gemma3", values, {name: kind})
            with open_model(path) as copy:
                comparison = Comparison(match_models(model, copy).matches)
                (row,) = comparison.rows()
                assert copy.tensors[name].nbytes == reported[kind].nbytes
            assert row.errors is not None
            found = reported[kind].errors
            assert found is not None
            assert row.errors.metrics.rmse == found.rmse
            assert row.errors.metrics.percentiles == found.percentiles
            assert row.errors.saturated == reported[kind].saturated_codes
