"""Folders in MLX's format: a weight with its scales is one tensor, in one file or over shards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from explorer.formats import Model, Severity, open_model
from explorer.formats.facts import describe
from explorer.formats.safetensors.groups import group_of_name, is_group_name
from tests.helpers.safetensors_writer import entry, safetensors_bytes, write_tensors
from tests.helpers.tensors import read_rows


def mlx(module: str, rows: list[int], bits: int, group: int, columns: int = 128) -> Any:
    """Return the stored tensors of a module that MLX quantized."""
    scales = [*rows, columns // group]
    return [
        (f"{module}.weight", "U32", [*rows, columns * bits // 32]),
        (f"{module}.scales", "F16", scales),
        (f"{module}.biases", "F16", scales),
    ]


def write_config(folder: Path, **fields: object) -> None:
    (folder / "config.json").write_text(json.dumps(fields))


def listed(model: Model) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(tensor.name, tensor.type.name, tensor.shape) for tensor in model.tensors.rows]


def test_an_mlx_folder(tmp_path: Path) -> None:
    tensors = [
        *mlx("model.embed_tokens", [10], 8, 64),
        *mlx("model.layers.0.mlp.up_proj", [6], 4, 32),
        ("model.layers.0.self_attn.q_proj.bias", "F16", [6]),
        ("model.norm.weight", "F16", [128]),
    ]
    write_tensors(tmp_path / "model.safetensors", *tensors)
    own = {"bits": 8, "group_size": 64}
    write_config(
        tmp_path,
        model_type="llama",
        quantization={"bits": 4, "group_size": 32, "model.embed_tokens": own},
    )
    with open_model(tmp_path) as model:
        assert model.format == "safetensors"
        assert model.problems == ()
        assert listed(model) == [
            ("model.embed_tokens.weight", "int8", (10, 128)),
            ("model.layers.0.mlp.up_proj.weight", "int4", (6, 128)),
            ("model.layers.0.self_attn.q_proj.bias", "F16", (6,)),
            ("model.norm.weight", "F16", (128,)),
        ]
        tensor = model.tensors["model.layers.0.mlp.up_proj.weight"]
        assert tensor.companions is not None
        layout = tensor.companions.layout
        assert (layout.reader, layout.bits, layout.group_size) == ("packed.Affine", 4, 32)
        types = {role: part.type.name for role, part in tensor.companions.parts.items()}
        assert types == {"weight": "U32", "scales": "F16", "biases": "F16"}
        assert tensor.parameters == 6 * 128
        assert tensor.nbytes == 6 * 64 + 2 * 6 * 4 * 2
        assert tensor.type.nbytes(tensor.parameters) == tensor.nbytes
        assert [group.tensors for group in model.groups] == [
            tuple(name for name, _, _ in tensors[:3]),
            tuple(name for name, _, _ in tensors[3:6]),
        ]
        assert model.parameters == 10 * 128 + 6 * 128 + 6 + 128
        assert describe(model).file_type == "int8"  # most of the bytes
        assert tensor.read() == b"".join(
            extent.source.read(extent.offset, extent.nbytes) for extent in tensor.extents
        )


def test_companions_in_another_shard(tmp_path: Path) -> None:
    weight, *companions = mlx("m.layers.0.mlp.switch_mlp.up", [4, 6], 4, 64)
    write_tensors(tmp_path / "model-00001-of-00002.safetensors", weight)
    write_tensors(tmp_path / "model-00002-of-00002.safetensors", *companions)
    places = {weight[0]: "model-00001-of-00002.safetensors"}
    places |= {name: "model-00002-of-00002.safetensors" for name, _, _ in companions}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    write_config(tmp_path, quantization={"bits": 4, "group_size": 64})
    for path in (tmp_path, index):
        with open_model(path) as model:
            assert model.problems == ()
            assert listed(model) == [(weight[0], "int4", (4, 6, 128))]
            files = {extent.source.path.name for extent in model.tensors[weight[0]].extents}
            assert len(files) == 2
            assert {(group.name, group.kind) for group in model.groups} == {
                (weight[0], "quantized"),
                ("m.layers.0.mlp.switch_mlp", "experts"),
            }


def test_damage_of_a_companion_is_damage_of_the_tensor(tmp_path: Path) -> None:
    path = write_tensors(tmp_path / "m.safetensors", *mlx("a", [2], 8, 64))
    path.write_bytes(path.read_bytes()[:-1])
    with open_model(path) as model:
        assert "a.biases" in (model.tensors["a.weight"].damage or "")


def test_one_guess_is_reported_for_all(tmp_path: Path) -> None:
    path = write_tensors(tmp_path / "m.safetensors", *mlx("a", [2], 4, 64), *mlx("b", [2], 4, 64))
    with open_model(path) as model:
        assert [kind for _, kind, _ in listed(model)] == ["int4", "int4"]
        (problem,) = model.problems
        assert problem.severity is Severity.WARNING
        assert "1 more" in problem.what


def test_scales_of_other_makers_stay_tensors(tmp_path: Path) -> None:
    path = write_tensors(
        tmp_path / "m.safetensors",
        ("a.weight", "U8", [4, 4]),
        ("a.other.scale", "F32", [4]),
        ("b.weight", "BF16", [4, 4]),
        ("b.scales", "BF16", [4]),
        ("c.scales", "BF16", [4]),
    )
    with open_model(path) as model:
        assert len(model.tensors) == 5
        assert (tuple(model.groups), model.problems) == ((), ())


def test_scales_with_scales_count_once(tmp_path: Path) -> None:
    chain = [("a", "U8", [2, 64]), ("a.scale", "U8", [2, 8]), ("a.scale.scale", "U8", [2, 1])]
    for number, tensors in enumerate((chain, chain[::-1])):
        path = write_tensors(tmp_path / f"{number}.safetensors", *tensors)
        with open_model(path) as model:
            assert model.nbytes == 2 * (64 + 8 + 1)


def test_experts_are_grouped_by_name(tmp_path: Path) -> None:
    names = [f"model.layers.{layer}.mlp.experts.{i}.w" for layer in range(2) for i in range(3)]
    names += ["model.layers.0.mlp.shared_experts.w", "model.layers.0.mlp.gate.w"]
    path = write_tensors(tmp_path / "m.safetensors", *((name, "U8", [2]) for name in names))
    with open_model(path) as model:
        assert [(g.name, g.kind, len(g.tensors), g.nbytes) for g in model.groups] == [
            ("model.layers.0.mlp.experts", "experts", 3, 6),
            ("model.layers.1.mlp.experts", "experts", 3, 6),
            ("model.layers.0.mlp.shared_experts", "shared_experts", 1, 2),
        ]
        assert model.tensors["model.layers.1.mlp.experts.2.w"].group == model.groups[1].name
        assert model.tensors["model.layers.0.mlp.gate.w"].group is None


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("model.layers.3.mlp.experts.gate_proj.weight", "model.layers.3.mlp.experts"),
        ("layers.3.moe.experts.0.w1.weight", "layers.3.moe.experts"),
        (
            "backbone.layers.3.mixer.shared_experts.up.weight",
            "backbone.layers.3.mixer.shared_experts",
        ),
        ("model.layers.1.mlp.switch_mlp.down_proj.weight", "model.layers.1.mlp.switch_mlp"),
        ("model.layers.1.mlp.shared_expert.up_proj.weight", "model.layers.1.mlp.shared_expert"),
        ("model.layers.1.mlp.shared_expert_gate.weight", None),
        ("model.layers.1.mlp.experts", None),
        ("experts.0.weight", None),
        ("model.layers.1.mlp.gate.weight", None),
        (("layers.1." * 500) + "experts.w", None),
    ],
)
def test_group_of_a_name(name: str, group: str | None) -> None:
    assert group_of_name(name) == group
    if group is not None:
        assert is_group_name(group)


@pytest.mark.parametrize("shape", [[], [1], [2], [2, 1], [2, 3], [6]])
def test_each_global_scale_holds_for_its_groups(tmp_path: Path, shape: list[int]) -> None:
    factors = 2.0 ** np.arange(1, 1 + int(np.prod(shape)))
    header = {
        "__metadata__": {"quant_type": "nvfp4", "group_size": "16"},
        "a.weight": entry("U32", [2, 3, 4], 0, 96),
        "a.weight.scale": entry("U8", [2, 3, 2], 96, 108),
        "a.weight.global_scale": entry("F32", shape, 108, 108 + 4 * factors.size),
    }
    ones = b"\x22" * 96 + b"\x38" * 12  # 1.0 in E2M1, and in E4M3
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors_bytes(header, ones + factors.astype("<f4").tobytes()))
    wanted = np.repeat(factors, 192 // factors.size).reshape(2, 3, 32)
    with open_model(path) as model:
        assert listed(model) == [("a.weight", "nvfp4", (2, 3, 32))]
        tensor = model.tensors["a.weight"]
        np.testing.assert_array_equal(tensor.dequantize(), wanted)
        for row in range(6):  # a run that does not begin at the first group
            found = read_rows(tensor, row, row + 1)
            np.testing.assert_array_equal(found, wanted.reshape(6, 32)[row : row + 1])


def test_no_weights_may_have_no_global_scales(tmp_path: Path) -> None:
    path = write_tensors(
        tmp_path / "m.safetensors",
        ("a.weight", "U32", [0, 3, 4]),
        ("a.weight.scale", "U8", [0, 3, 2]),
        ("a.weight.global_scale", "F32", [0]),
    )
    with open_model(path) as model:
        assert model.tensors["a.weight"].dequantize().shape == (0, 3, 32)


SHAPES = st.lists(st.integers(0, 64), max_size=3)
TYPES = st.sampled_from(["U32", "U8", "BF16", "F16", "F32", "F8_E4M3"])


@given(
    parts=st.fixed_dictionaries(
        {".weight": st.tuples(TYPES, SHAPES), ".scales": st.tuples(TYPES, SHAPES)},
        optional={
            ".biases": st.tuples(TYPES, SHAPES),
            ".weight.scale": st.tuples(TYPES, SHAPES),
            ".weight.bias": st.tuples(TYPES, SHAPES),
            ".global_scale": st.tuples(TYPES, SHAPES),
        },
    ),
    metadata=st.none()
    | st.dictionaries(
        st.sampled_from(["quant_type", "group_size", "a.weight.quant_type"]),
        st.text(max_size=5) | st.sampled_from(["int4", "INT8", "nvfp4", "16", "64"]),
    ),
)
@example({".weight": ("U32", [0]), ".scales": ("U8", [])}, None)
@example({".weight": ("U32", []), ".scales": ("BF16", []), ".biases": ("BF16", [])}, None)
def test_any_parts_keep_every_byte(
    tmp_path_factory: pytest.TempPathFactory, parts: Any, metadata: dict[str, str] | None
) -> None:
    path = tmp_path_factory.mktemp("any") / "m.safetensors"
    tensors = [(f"a{ending}", kind, shape) for ending, (kind, shape) in parts.items()]
    write_tensors(path, *tensors)
    if metadata is not None:
        raw = path.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8 : 8 + length]) | {"__metadata__": metadata}
        path.write_bytes(safetensors_bytes(header, raw[8 + length :]))
    with open_model(path) as model:
        stored = path.stat().st_size - model.files[0].header_bytes
        assert model.nbytes == stored
        for tensor in model.tensors.rows:
            assert tensor.damage is None
            assert len(tensor.read()) == tensor.nbytes
            if tensor.companions is not None and "global_scale" not in tensor.companions.parts:
                assert tensor.type.nbytes(tensor.parameters) == tensor.nbytes
