"""LoRA adapters: what they change and how much, against the product formed in full."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from explorer.analysis.adapters import base_tensors, read_adapter, update_norm
from explorer.cli.main import main
from explorer.errors import ExplorerError
from explorer.formats import open_model
from explorer.formats.attachments import is_adapter
from explorer.formats.facts import describe
from explorer.formats.model import Model
from explorer.present.attachments import kind_text
from explorer.present.tables.facts import model_facts
from tests.helpers.gguf_writer import F32, STRING, GgufFile, TensorSpec
from tests.helpers.model_pairs import arrays_of, write_gguf, write_safetensors
from tests.helpers.small_gguf import model_from

Arrays = dict[str, NDArray[np.float32]]


def gguf_adapter(arrays: Arrays, alpha: float | None = 8.0) -> bytes:
    """Return an adapter as `convert_lora_to_gguf.py` writes it."""
    keys: list[Any] = [
        ("general.type", STRING, "adapter"),
        ("general.architecture", STRING, "llama"),
        ("adapter.type", STRING, "lora"),
    ]
    keys += [] if alpha is None else [("adapter.lora.alpha", F32, alpha)]
    specs = [
        TensorSpec(name, array.shape[::-1], 0, np.ascontiguousarray(array).tobytes())
        for name, array in arrays.items()
    ]
    return GgufFile(keys=keys, tensors=specs).build()


def adapter_of(
    *shapes: tuple[str, tuple[int, ...]], alpha: float | None = 8.0
) -> tuple[Model, Arrays]:
    arrays = arrays_of(dict(shapes), 3)
    return model_from(gguf_adapter(arrays, alpha)), arrays


Q = "blk.0.attn_q.weight"


def test_the_norm_is_that_of_the_product() -> None:
    model, arrays = adapter_of((f"{Q}.lora_a", (4, 64)), (f"{Q}.lora_b", (32, 4)))
    adapter = read_adapter(model)
    (update,) = adapter.updates
    assert (update.name, update.rank, update.scale, update.shape) == (Q, 4, 2.0, (32, 64))
    product = arrays[f"{Q}.lora_b"].astype(np.float64) @ arrays[f"{Q}.lora_a"]
    assert update_norm(update) == pytest.approx(2 * np.linalg.norm(product), rel=1e-9)
    assert (adapter.ranks, adapter.alpha, adapter.parameters) == ((4,), 8.0, 4 * 96)


def test_without_alpha_nothing_is_scaled() -> None:
    model, _ = adapter_of((f"{Q}.lora_a", (4, 64)), (f"{Q}.lora_b", (32, 4)), alpha=None)
    assert read_adapter(model).updates[0].scale == 1


def test_token_embeddings_have_their_factors_turned() -> None:
    name = "token_embd.weight"
    model, arrays = adapter_of((f"{name}.lora_a", (100, 4)), (f"{name}.lora_b", (16, 4)))
    (update,) = read_adapter(model).updates
    assert (update.flipped, update.shape) == (True, (100, 16))
    product = arrays[f"{name}.lora_a"].astype(np.float64) @ arrays[f"{name}.lora_b"].T
    assert update_norm(update) == pytest.approx(2 * np.linalg.norm(product), rel=1e-9)


@pytest.mark.parametrize("shared", [False, True])
def test_experts_are_added_up(shared: bool) -> None:
    name = "blk.0.ffn_up_exps.weight"
    lead = 1 if shared else 3
    model, arrays = adapter_of((f"{name}.lora_a", (lead, 2, 24)), (f"{name}.lora_b", (3, 16, 2)))
    (update,) = read_adapter(model).updates
    assert update.shape == (3, 16, 24)
    product = arrays[f"{name}.lora_b"].astype(np.float64) @ arrays[f"{name}.lora_a"]
    assert update_norm(update) == pytest.approx(4 * np.linalg.norm(product), rel=1e-9)


@given(rank=st.integers(1, 5), rows=st.integers(1, 9), columns=st.integers(1, 9))
def test_any_shape(rank: int, rows: int, columns: int) -> None:
    model, arrays = adapter_of((f"{Q}.lora_a", (rank, columns)), (f"{Q}.lora_b", (rows, rank)))
    (update,) = read_adapter(model).updates
    product = arrays[f"{Q}.lora_b"].astype(np.float64) @ arrays[f"{Q}.lora_a"]
    wanted = 8 / rank * np.linalg.norm(product)
    assert update_norm(update) == pytest.approx(wanted, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    "shapes",
    [
        [(f"{Q}.lora_a", (4, 64))],
        [(f"{Q}.lora_b", (64, 4))],
        [(f"{Q}.lora_a", (5, 64)), (f"{Q}.lora_b", (32, 4))],
        [(f"{Q}.lora_a", (4,)), (f"{Q}.lora_b", (4,))],
        [(f"{Q}.lora_down.weight", (4,)), (f"{Q}.lora_up.weight", (32, 4))],
        [(f"{Q}.lora_a", (2, 4, 8)), (f"{Q}.lora_b", (3, 8, 4))],
    ],
)
def test_factors_that_do_not_fit_are_said(shapes: list[tuple[str, tuple[int, ...]]]) -> None:
    model, _ = adapter_of(*shapes)
    (update,) = read_adapter(model).updates
    assert update.problem
    assert update.shape == ()
    with pytest.raises(ExplorerError):
        update_norm(update)


def peft(folder: Path, config: dict[str, Any]) -> tuple[Path, Arrays]:
    """Write an adapter as PEFT does."""
    start = "base_model.model.model.layers.0."
    arrays = arrays_of(
        {
            f"{start}self_attn.q_proj.lora_A.weight": (4, 64),
            f"{start}self_attn.q_proj.lora_B.weight": (64, 4),
            f"{start}mlp.up_proj.lora_A.default.weight": (4, 64),
            f"{start}mlp.up_proj.lora_B.default.weight": (32, 4),
        }
    )
    write_safetensors(folder, arrays)
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder, arrays


def test_a_folder_of_peft(tmp_path: Path) -> None:
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 16, "base_model_name_or_path": "x/y"}
    folder, arrays = peft(tmp_path / "adapter", config)
    with open_model(folder) as model:
        assert is_adapter(model)
        adapter = read_adapter(model)
        assert (adapter.kind, adapter.alpha, adapter.ranks, adapter.base) == (
            "lora",
            16,
            (4,),
            "x/y",
        )
        names = {update.name: update for update in adapter.updates}
        q = names["model.layers.0.self_attn.q_proj.weight"]
        assert (q.scale, q.shape) == (4.0, (64, 64))
        a, b = list(arrays.values())[:2]
        wanted = 4 * np.linalg.norm(b.astype(np.float64) @ a)
        assert update_norm(q) == pytest.approx(wanted, rel=1e-9)
        facts = {fact.name: fact.text for fact in model_facts(model, describe(model))}
        assert facts["kind"] == "LoRA adapter of rank 4, alpha 16, for 2 tensors, made for x/y"


@pytest.mark.parametrize(
    ("config", "scale"),
    [
        ({"lora_alpha": 16, "use_rslora": True}, 8.0),
        ({"lora_alpha": 16, "alpha_pattern": {"self_attn.q_proj": 4}}, 1.0),
        ({"lora_alpha": "many"}, 1.0),
        ({}, 1.0),
    ],
)
def test_scales_of_peft(tmp_path: Path, config: dict[str, Any], scale: float) -> None:
    folder, _ = peft(tmp_path / "adapter", config)
    with open_model(folder) as model:
        names = {update.name: update for update in read_adapter(model).updates}
        assert names["model.layers.0.self_attn.q_proj.weight"].scale == scale


def test_a_base_of_either_format(tmp_path: Path) -> None:
    folder, _ = peft(tmp_path / "adapter", {"lora_alpha": 16})
    shapes = {"blk.0.attn_q.weight": (64, 64), "blk.0.ffn_up.weight": (32, 64)}
    gguf = write_gguf(tmp_path / "base.gguf", "llama", arrays_of(shapes))
    start = "model.layers.0."
    names = {f"{start}self_attn.q_proj.weight": (64, 64), f"{start}mlp.up_proj.weight": (32, 64)}
    plain = write_safetensors(tmp_path / "base", arrays_of(names))
    with open_model(folder) as model, open_model(gguf) as one, open_model(plain) as other:
        adapter = read_adapter(model)
        assert {t.name for t in base_tensors(adapter, one).values()} == set(shapes)
        assert {t.name for t in base_tensors(adapter, other).values()} == set(names)


def test_inspect_says_what_it_is_and_measures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = arrays_of({f"{Q}.lora_a": (4, 64), f"{Q}.lora_b": (64, 4)})
    path = tmp_path / "adapter.gguf"
    path.write_bytes(gguf_adapter(arrays))
    base = write_gguf(tmp_path / "base.gguf", "llama", {Q: np.ones((64, 64), np.float32)})
    assert main(["inspect", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["adapter"]
    assert "norm" not in found["tensors"][0]
    assert main(["inspect", str(path), "--json", "--base", str(base)]) == 0
    (one,) = json.loads(capsys.readouterr().out)["adapter"]["tensors"]
    product = arrays[f"{Q}.lora_b"].astype(np.float64) @ arrays[f"{Q}.lora_a"]
    assert one["norm"] == pytest.approx(2 * np.linalg.norm(product), rel=1e-9)
    assert one["base_norm"] == pytest.approx(64)
    assert one["relative"] == pytest.approx(one["norm"] / 64)
    assert main(["inspect", str(path), "--base", str(base)]) == 0
    out = capsys.readouterr().out
    assert "LoRA adapter of rank 4, alpha 8, for 1 tensor" in out
    assert "Norm of the base" in out
    assert main(["inspect", str(base), "--measure"]) == 1
    assert "error: " in capsys.readouterr().err


def test_a_model_is_no_adapter(tmp_path: Path) -> None:
    with open_model(write_gguf(tmp_path / "m.gguf", "llama", arrays_of({Q: (4, 4)}))) as model:
        assert not is_adapter(model)
        facts = {fact.name for fact in model_facts(model, describe(model))}
        assert "kind" not in facts


def test_kohya_s_alphas_and_convolutions(tmp_path: Path) -> None:
    """Names of ComfyUI's and kohya's trainers; each module says its own alpha."""
    shapes = {"x.lora_down.weight": (8, 4, 3, 3), "x.lora_up.weight": (32, 8, 1, 1), "x.alpha": ()}
    arrays = arrays_of(shapes, 3)
    arrays["x.alpha"][()] = 4
    product = arrays["x.lora_up.weight"].reshape(32, 8) @ arrays["x.lora_down.weight"].reshape(
        8, 36
    )
    path = tmp_path / "adapter.safetensors"
    write_safetensors(path, arrays)
    with open_model(path) as model:
        adapter = read_adapter(model)
        (update,) = adapter.updates
        assert (adapter.ranks, adapter.alpha, adapter.others) == ((8,), 4.0, ())
        assert (update.name, update.scale, update.shape) == ("x.weight", 0.5, (32, 4, 3, 3))
        assert update_norm(update) == pytest.approx(np.linalg.norm(product) / 2, rel=1e-5)
    write_safetensors(path, {**arrays, "x.lora_mid.weight": np.ones((8, 8, 3, 3), np.float32)})
    with open_model(path) as model, pytest.raises(ExplorerError, match="Tucker's form"):
        update_norm(read_adapter(model).updates[0])


def test_factors_of_mlx_lm_are_turned(tmp_path: Path) -> None:
    arrays = arrays_of({"x.lora_a": (64, 8), "x.lora_b": (8, 32)})
    write_safetensors(tmp_path, arrays)
    said = {"fine_tune_type": "lora", "lora_parameters": {"rank": 8, "scale": 20.0}}
    (tmp_path / "adapter_config.json").write_text(json.dumps(said))
    with open_model(tmp_path) as model:
        (update,) = read_adapter(model).updates
        assert (update.name, update.rank, update.shape) == ("x.weight", 8, (32, 64))
        wanted = 20 * np.linalg.norm(arrays["x.lora_a"] @ arrays["x.lora_b"])
        assert update_norm(update) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("end", ["_lora", ".lora_linear_layer"])
def test_factors_of_older_diffusers(tmp_path: Path, end: str) -> None:
    """huggingface/diffusers#3064: `to_k_lora.down.weight`; `loaders.py`: `lora_linear_layer`."""
    arrays = arrays_of({f"to_k{end}.down.weight": (4, 64), f"to_k{end}.up.weight": (32, 4)})
    write_safetensors(tmp_path / "adapter.safetensors", arrays)
    with open_model(tmp_path / "adapter.safetensors") as model:
        assert is_adapter(model)
        (update,) = read_adapter(model).updates
        assert (update.name, update.rank, update.shape) == ("to_k.weight", 4, (32, 64))


@pytest.mark.parametrize(
    ("shapes", "kind", "rank"),
    [
        ({"hada_w1_a": (32, 4), "hada_w1_b": (4, 48), "hada_w2_a": (32, 4), "hada_w2_b": (4, 48)},
         "loha", 4),
        ({"lokr_w1": (4, 6), "lokr_w2_a": (8, 2), "lokr_w2_b": (2, 8)}, "lokr", 2),
        ({"lokr_w1": (4, 6), "lokr_w2": (8, 8)}, "lokr", 0),
        ({"lokr_w1_a": (4, 2), "lokr_w1_b": (2, 6), "lokr_w2": (8, 8)}, "lokr", 2),
    ],
)  # fmt: skip
def test_factors_of_lycoris(
    tmp_path: Path, shapes: dict[str, tuple[int, ...]], kind: str, rank: int
) -> None:
    arrays = arrays_of({f"lora_unet_x.{name}": shape for name, shape in shapes.items()}, 3)
    arrays["lora_unet_x.alpha"] = np.array(1.0, np.float32)
    path = tmp_path / "adapter.safetensors"
    write_safetensors(path, arrays)

    def whole(name: str) -> NDArray[np.float64]:
        one = arrays.get(f"lora_unet_x.{name}")
        if one is not None:
            return one.astype(np.float64)
        return whole(f"{name}_a") @ whole(f"{name}_b")

    product = whole("hada_w1") * whole("hada_w2") if kind == "loha" else None
    product = np.kron(whole("lokr_w1"), whole("lokr_w2")) if product is None else product
    with open_model(path) as model:
        adapter = read_adapter(model)
        (update,) = adapter.updates
        assert (adapter.kind, update.rank, adapter.others) == (kind, rank, ())
        assert (update.name, update.shape) == ("lora_unet_x.weight", product.shape)
        norm = np.linalg.norm(product) / (rank or 1)
        assert update_norm(update) == pytest.approx(norm, rel=1e-6)


@pytest.mark.parametrize(
    ("names", "kind", "title"),
    [
        (("x.lora_A.weight", "x.lora_B.weight", "x.lora_magnitude_vector"), "dora", "DoRA"),
        (("lora_unet_x.lora_down.weight", "lora_unet_x.lora_up.weight", "lora_unet_x.dora_scale"),
         "dora", "DoRA"),
        (("base_model.model.x.oft_R.weight",), "oft", "OFT"),
        (("base_model.model.x.ia3_l",), "ia3", "(IA)³"),
        (tuple(f"lycoris_x.{part}.weight" for part in ("a1", "a2", "b1", "b2")), "glora", "GLoRA"),
    ],
)  # fmt: skip
def test_kinds_that_are_named_and_not_worked_out(
    tmp_path: Path, names: tuple[str, ...], kind: str, title: str
) -> None:
    path = tmp_path / "adapter.safetensors"
    write_safetensors(path, arrays_of(dict.fromkeys(names, (4, 4)), 3))
    with open_model(path) as model:
        adapter = read_adapter(model)
        (update,) = adapter.updates
        assert (adapter.kind, update.kind, len(update.factors)) == (kind, kind, len(names))
        assert update.name.endswith("x.weight")
        assert not update.name.startswith("base_model")
        assert (kind_text(model) or "").startswith(f"{title} adapter")
        with pytest.raises(ExplorerError, match="not worked out"):
            update_norm(update)


def test_factors_of_lycoris_that_do_not_fit_are_said(tmp_path: Path) -> None:
    path = tmp_path / "adapter.safetensors"
    shapes = {"x.hada_w1_a": (32, 4), "x.hada_w1_b": (3, 48), "y.lokr_w1_a": (4, 4)}
    write_safetensors(path, arrays_of(shapes, 3))
    with open_model(path) as model:
        x, y = read_adapter(model).updates
        assert "[32, 4] and [3, 48]" in x.problem
        assert y.problem == "the factor lokr_w1 is missing"
        with pytest.raises(ExplorerError, match="do not fit"):
            update_norm(x)


def test_what_kohya_says_of_training_and_the_base_it_changes(tmp_path: Path) -> None:
    name = "lora_unet_double_blocks_0_img_attn_qkv"
    arrays = arrays_of({f"{name}.lora_down.weight": (2, 8), f"{name}.lora_up.weight": (6, 2)}, 3)
    tags = {"10_cat": {"cat": 3, " a hat": 1}, "5_dog": {"dog": 2, "cat": 1}}
    said = {"ss_tag_frequency": json.dumps(tags), "ss_sd_model_name": "flux.safetensors"}
    path, base_path = tmp_path / "adapter.safetensors", tmp_path / "base.safetensors"
    write_safetensors(path, arrays, said)
    own = "model.diffusion_model.double_blocks.0.img_attn.qkv.weight"
    write_safetensors(base_path, arrays_of({own: (6, 8)}, 3))
    with open_model(path) as model, open_model(base_path) as base:
        adapter = read_adapter(model)
        assert (adapter.base, adapter.tags[0]) == ("flux.safetensors", ("cat", 4))
        assert sorted(adapter.tags[1:]) == [("a hat", 1), ("dog", 2)]
        found = base_tensors(adapter, base)
        assert [tensor.name for tensor in found.values()] == [own]
    write_safetensors(path, arrays, {"ss_tag_frequency": "[", "modelspec.trigger_phrase": "zyx"})
    with open_model(path) as model:
        assert (read_adapter(model).tags, read_adapter(model).trigger) == ((), "zyx")
