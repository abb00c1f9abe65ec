"""Names that rules know, with unexpected shapes: reported, never raised."""

from __future__ import annotations

import tempfile
from math import prod
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from explorer.analysis.errors.compare import Comparison
from explorer.analysis.matching import rules
from explorer.analysis.matching.pairing import match_models
from explorer.formats import Model, open_model
from tests.helpers.gguf_writer import ARRAY, I32, STRING, U32, Array, GgufFile, TensorSpec
from tests.helpers.safetensors_writer import tensors_bytes

_SHAPES = st.lists(st.integers(0, 6), max_size=4).map(tuple)
_HEADS = st.one_of(
    st.none(), st.integers(0, 9), st.lists(st.integers(-3, 9), max_size=2), st.text(max_size=2)
)
_SOURCES = sorted(
    {
        source.replace("{i}", "0").replace("{e}", expert).replace("{s}", "weight")
        for table in (rules.HUGGING_FACE, rules.INTERLEAVED_EXPERTS)
        for alternatives in table.values()
        for rule in alternatives
        for source in rule.sources
        for expert in "01"
    }
)
_ROLES = sorted(
    f"blk.0.{role}.weight" if role not in {"token_embd", "output"} else f"{role}.weight"
    for role in {**rules.HUGGING_FACE, **rules.BETWEEN_GGUF}
)


def _gguf(
    folder: Path, architecture: str, shapes: dict[str, tuple[int, ...]], heads: object
) -> Model:
    keys: list[tuple[str | bytes, int, object]] = [("general.architecture", STRING, architecture)]
    key = f"{architecture}.attention.head_count"
    if isinstance(heads, int):
        keys.append((key, U32, heads))
    elif isinstance(heads, list):
        keys.append((key, ARRAY, Array(I32, heads)))
    elif isinstance(heads, str):
        keys.append((key, STRING, heads))
    specs = [
        TensorSpec(name, shape[::-1], 0, bytes(4 * prod(shape))) for name, shape in shapes.items()
    ]
    file = GgufFile(keys=keys, tensors=specs, tail=bytes(64))
    return open_model(file.write(folder / "made.gguf"))


@given(
    st.dictionaries(st.sampled_from(_ROLES), _SHAPES, max_size=8),
    st.dictionaries(st.sampled_from(_SOURCES), _SHAPES, max_size=8),
    st.sampled_from(["llama", "gemma3", "gpt-oss", "deepseek2", "unheard of"]),
    _HEADS,
    st.sampled_from(["F32", "U8", "BF16"]),
)
def test_any_shapes(
    roles: dict[str, tuple[int, ...]],
    sources: dict[str, tuple[int, ...]],
    architecture: str,
    heads: object,
    kind: str,
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        other = folder / "made.safetensors"
        other.write_bytes(tensors_bytes([(n, kind, list(shape)) for n, shape in sources.items()]))
        with _gguf(folder, architecture, roles, heads) as one, open_model(other) as two:
            for pair in ((one, two), (two, one), (one, one), (two, two)):
                found = match_models(*pair)
                for match in found.matches:
                    assert match.reference.parameters == match.candidate.parameters
                for row in Comparison(found.matches).rows():
                    assert row.errors is not None, row.error
                    if pair[0] is pair[1]:
                        assert not row.errors.metrics.max_abs_error > 0
                known = {*found.unmatched_reference}
                known |= {one.reference_name for one in found.not_comparable if one.reference_name}
                known |= {t.name for match in found.matches for t in match.reference.tensors}
                missing = set(pair[0].tensors) - known
                # several tensors that do not fit together are reported as one
                assert not missing or any("tensors)" in str(pair) for pair in found.not_comparable)


@given(st.dictionaries(st.text(min_size=1, max_size=30), _SHAPES, max_size=4))
def test_any_names(shapes: dict[str, tuple[int, ...]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        clean = {n.encode("utf-8", "replace").decode(): shape for n, shape in shapes.items()}
        with _gguf(Path(name), "llama", clean, 2) as model:
            found = match_models(model, model)
            names = [match.reference.name for match in found.matches]
            known = {t.name for t in model.tensors.rows}
            assert {*names, *(one.reference_name for one in found.not_comparable)} == known
            assert np.all([match.reference.parameters >= 0 for match in found.matches])
