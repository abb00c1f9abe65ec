"""Ollama models by their manifest, against the golden store and against small ones made here."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import ExplorerError, FormatError
from explorer.formats import Model, Severity, open_model
from explorer.formats.facts import describe
from explorer.formats.ollama import open as ollama
from explorer.formats.ollama.open import open_manifest
from tests.helpers.json_values import JSON
from tests.helpers.ollama_store import OllamaStore
from tests.helpers.safetensors_writer import safetensors_bytes
from tests.helpers.small_gguf import SmallGguf

_GOLDEN = Path(__file__).resolve().parents[4] / "shared" / "reference" / "blob_expected.json"


@cache
def golden() -> Mapping[str, list[dict[str, Any]]]:
    expected: dict[str, list[dict[str, Any]]] = json.loads(_GOLDEN.read_text())
    return expected


GOLDEN_TENSORS = (
    [
        pytest.param(model, index, id=f"{model.rsplit('/', 1)[-1]}-{tensor['name']}")
        for model, tensors in golden().items()
        for index, tensor in enumerate(tensors)
    ]
    if _GOLDEN.exists()
    else []
)


@pytest.fixture(scope="module")
def golden_models(shared_data: Path) -> Mapping[str, Model]:
    manifests = shared_data / "ollama_store" / "models" / "manifests"
    return {name: open_model(manifests / name.replace(":", "/")) for name in golden()}


@pytest.mark.parametrize(("model_name", "index"), GOLDEN_TENSORS)
def test_golden_tensor(golden_models: Mapping[str, Model], model_name: str, index: int) -> None:
    model, expected = golden_models[model_name], golden()[model_name][index]
    tensor = model.tensors[expected["name"]]
    assert (tensor.type.name, list(tensor.shape)) == (expected["type"], expected["shape"])
    assert tensor.damage is None
    groups = {(group.kind, group.name): group for group in model.groups}
    if "group_size" in expected:
        group = groups["quantized", tensor.name]
        assert group.tensors == tuple(expected["header_keys"])
        assert (group.quant_type, group.group_size) == (expected["type"], expected["group_size"])
        assert (
            group.nbytes
            == tensor.nbytes
            == len(tensor.read())
            == stored_bytes(tensor.file, group.tensors)
        )
        assert tensor.companions is not None
        parts = tensor.companions.parts.values()
        assert tensor.extents == tuple(part.extent for part in parts)
    if "packed_in" in expected:
        kind = "shared_experts" if "shared" in expected["packed_in"] else "experts"
        assert tensor.group == expected["packed_in"]
        assert tensor.name in groups[kind, expected["packed_in"]].tensors


def stored_bytes(path: Path, keys: tuple[str, ...]) -> int:
    """Return what a blob's own header says its tensors take."""
    raw = path.read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    return sum(end - begin for begin, end in (header[key]["data_offsets"] for key in keys))


def test_golden_models_have_no_other_tensors(golden_models: Mapping[str, Model]) -> None:
    for name, model in golden_models.items():
        assert {t.name for t in model.tensors.rows} == {t["name"] for t in golden()[name]}
        assert model.problems == ()
        assert model.parameters == sum(t.parameters for t in model.tensors.rows)
    formats = {name.rsplit("/", 1)[-1]: model.format for name, model in golden_models.items()}
    assert formats == {
        "tinydense:int4": "ollama",
        "tinymoe:latest": "ollama",
        "tinyclassic:latest": "gguf",
    }


@pytest.fixture
def store(tmp_path: Path) -> OllamaStore:
    return OllamaStore(tmp_path / "models")


def problems_of(model: Model) -> dict[str, str]:
    return {problem.where: problem.what for problem in model.problems}


def quantized(name: str, rows: list[int], bits: int, group: int, columns: int = 128) -> Any:
    """Return the stored tensors of an affine weight."""
    scales = [*rows, columns // group]
    return [
        (name, "U32", [*rows, columns * bits // 32]),
        (f"{name}.scale", "BF16", scales),
        (f"{name}.bias", "BF16", scales),
    ]


def test_a_gguf_model_with_what_its_manifest_adds(store: OllamaStore) -> None:
    gguf = SmallGguf(keys=[("general.architecture", "llama")]).write()
    long_license = "x" * 9999
    path = store.manifest(
        [
            store.layer("model", gguf),
            store.layer("projector", gguf + b"\0"),
            store.layer("template", "{{ .Prompt }}"),
            store.layer("system", "Be brief."),
            store.layer("license", "one"),
            store.layer("license", long_license),
            store.layer("params", json.dumps({"temperature": 0.5, "stop": ["a", "b"]})),
            store.layer("messages", json.dumps([{"role": "user", "content": "hi"}, 1])),
        ],
        config={"model_format": "gguf", "file_type": "Q4_0", "renderer": "r"},
    )
    with open_model(path) as model:
        assert (model.format, model.version, model.path) == ("gguf", 3, path)
        assert (model.architecture, model.name) == ("llama", "tiny:latest")
        assert describe(model).file_type == "Q4_0"
        assert model.problems == ()
        assert model.metadata["ollama.template"] == "{{ .Prompt }}"
        assert model.metadata["ollama.system"] == "Be brief."
        assert model.metadata["ollama.license"] == "one"
        assert model.metadata["ollama.license.2"] == long_license
        assert model.metadata["ollama.params.temperature"] == 0.5
        assert model.metadata["ollama.params.stop"] == ["a", "b"]
        assert model.metadata["ollama.messages"] == ["user: hi", "1"]
        assert model.metadata["ollama.config.renderer"] == "r"
        assert str(model.projector) == model.metadata["ollama.projector"]
        assert model.projector is not None
        assert model.projector.parent == store.blobs


def test_a_gguf_file_cannot_name_a_projector(store: OllamaStore) -> None:
    """Else a file from a stranger would choose what the planner opens."""
    plain = SmallGguf(keys=[("ollama.projector", "/etc/passwd")]).write()
    path = store.manifest([store.layer("model", plain)])
    with open_model(path) as model:
        assert model.projector is None


def test_shards_of_a_gguf_model(store: OllamaStore) -> None:
    def shard(number: int) -> bytes:
        keys: Any = [("split.no", number), ("split.count", 2), ("split.tensors.count", 2)]
        return SmallGguf(keys=keys, tensors=[(f"t{number}", (2,), 0, 0)], data=bytes(8)).write()

    layers = [store.layer("model", shard(number)) for number in range(2)]
    with open_model(store.manifest(layers)) as model:
        assert list(model.tensors) == ["t0", "t1"]
        assert model.problems == ()


def test_layers_of_the_first_layout(store: OllamaStore) -> None:
    """Up to 0.15 each tensor is called `data`, and scales are layers of their own."""
    path = store.manifest(
        [
            store.tensor("a.weight", [("data", "U32", [4, 16])], {"quant_type": "int4"}),
            store.tensor("a.weight_scale", [("data", "BF16", [4, 4])]),
            store.tensor("a.weight_qbias", [("data", "BF16", [4, 4])]),
            store.tensor("norm_scale", [("data", "F32", [4])]),
        ]
    )
    with open_model(path) as model:
        assert [(t.name, t.type.name, t.shape) for t in model.tensors.rows] == [
            ("a.weight", "int4", (4, 128)),
            ("norm_scale", "F32", (4,)),
        ]
        assert model.groups[0].tensors == ("a.weight", "a.weight_scale", "a.weight_qbias")
        assert model.groups[0].group_size == 32


def test_a_lone_bias_and_a_lone_scale_are_tensors(store: OllamaStore) -> None:
    path = store.manifest(
        [
            store.tensor("q.weight", quantized("q.weight", [4], 4, 64), {"quant_type": "int4"}),
            store.tensor("q.bias", [("q.bias", "BF16", [4])]),
            store.tensor("router.scale", [("router.scale", "F32", [4])]),
        ]
    )
    with open_model(path) as model:
        assert list(model.tensors) == ["q.weight", "q.bias", "router.scale"]


def test_one_tensor_has_its_layers_name(store: OllamaStore) -> None:
    path = store.manifest(
        [
            store.tensor("a", quantized("other", [2], 8, 64), {"quant_type": "INT8"}),
            store.tensor("b", [("data", "F32", [2])]),
            store.tensor("l.layers.0.mlp.experts", [("l.layers.0.mlp.experts.up", "F32", [2])]),
        ]
    )
    with open_model(path) as model:
        assert list(model.tensors) == ["a", "b", "l.layers.0.mlp.experts.up"]
        assert model.groups[0].tensors == ("a", "a.scale", "a.bias")


def test_fp8_without_a_scale_says_so(store: OllamaStore) -> None:
    layers = [store.tensor(name, [(name, "F8_E4M3", [4, 8])]) for name in ("a.weight", "b.weight")]
    with open_model(store.manifest(layers)) as model:
        what = "is FP8 without a scale: its values are the bare codes, and 1 more like it"
        assert problems_of(model) == {"a.weight": what}


def test_metadata_of_a_tensor_wins_over_that_of_the_blob(store: OllamaStore) -> None:
    tensors = [*quantized("m.x", [2], 4, 32), *quantized("m.y", [2], 8, 64)]
    metadata = {"quant_type": "int4", "group_size": "32", "m.y.quant_type": "int8"}
    metadata["m.y.group_size"] = "64"
    with open_model(store.manifest([store.tensor("m", tensors, metadata)])) as model:
        assert [(t.name, t.type.name, t.group) for t in model.tensors.rows] == [
            ("m.x", "int4", "m"),
            ("m.y", "int8", "m"),
        ]
        assert model.problems == ()
        packed = next(group for group in model.groups if group.name == "m")
        assert (packed.quant_type, packed.group_size) == (None, None)


@pytest.mark.parametrize(
    ("quantization", "expected", "problems"),
    [
        ({"bits": 3, "group_size": 64}, "affine3", 0),
        ({"bits": 6, "group_size": 32, "mode": "affine"}, "affine6", 0),
        ({"bits": 4, "group_size": 64, "m": {"bits": 3, "group_size": 64}}, "affine3", 0),
        ({"bits": 8, "group_size": 64}, "affine3", 1),  # the shapes say otherwise
        (None, "affine3", 1),  # a guess
    ],
)
def test_missing_metadata_is_found_in_config_json(
    store: OllamaStore, quantization: object, expected: str, problems: int
) -> None:
    layers = [store.tensor("m.weight", quantized("m.weight", [2], 3, 64))]
    layers.append(store.layer("json", json.dumps({"quantization": quantization}), "config.json"))
    with open_model(store.manifest(layers)) as model:
        assert model.tensors["m.weight"].type.name == expected
        assert [p.severity for p in model.problems] == [Severity.WARNING] * problems


def test_a_type_that_contradicts_the_shapes(store: OllamaStore) -> None:
    """Importers copy the model's general type into every blob."""
    metadata = {"quant_type": "int4", "group_size": "64"}
    layer = store.tensor("m", quantized("m", [2], 6, 64), metadata)
    with open_model(store.manifest([layer])) as model:
        assert model.tensors["m"].type.name == "affine6"
        assert "int4" in problems_of(model)["m"]


def test_scales_that_fit_nothing_leave_the_weight_as_it_is_stored(store: OllamaStore) -> None:
    tensors = [("m", "U32", [2, 16]), ("m.scale", "BF16", [3, 2]), ("m.bias", "BF16", [3, 2])]
    with open_model(store.manifest([store.tensor("m", tensors)])) as model:
        assert {t.name: t.type.name for t in model.tensors.rows} == {
            "m": "U32",
            "m.scale": "BF16",
            "m.bias": "BF16",
        }
        assert "is not known" in problems_of(model)["m"]


def test_draft_tensors_are_listed_last_and_not_counted(store: OllamaStore) -> None:
    path = store.manifest(
        [
            store.tensor("draft.a", [("draft.a", "F32", [100])]),
            store.tensor("a", [("a", "F32", [3])]),
        ]
    )
    with open_model(path) as model:
        assert [t.name for t in model.tensors.rows] == ["a", "draft.a"]
        assert (model.parameters, model.nbytes) == (3, 12)
        assert model.tensors.totals_by_type["F32"].tensors == 1


def test_layers_that_share_a_blob(store: OllamaStore) -> None:
    same = [("x", "F32", [2])]
    path = store.manifest([store.tensor("a", same), store.tensor("b", same)])
    with open_model(path) as model:
        assert list(model.tensors) == ["a", "b"]
        assert len(model.files) == 1
        assert model.tensors["a"].read() == model.tensors["b"].read()


def test_broken_layers_stay_in_the_list(store: OllamaStore, tmp_path: Path) -> None:
    good = store.tensor("good", [("good", "F32", [2])])
    missing = store.tensor("missing", [("missing", "F32", [3])])
    store.blob_path(missing).unlink()
    cut = store.tensor("cut", [("cut", "F32", [4])])
    os.truncate(store.blob_path(cut), cut["size"] - 1)
    outside = tmp_path / "secret.safetensors"
    outside.write_bytes(store.blob_path(good).read_bytes())
    link = store.tensor("link", [("link", "F32", [5])])
    store.blob_path(link).unlink()
    store.blob_path(link).symlink_to(outside)
    traversal = {**good, "digest": "sha256:../../secret.safetensors", "name": "up"}
    empty = store.layer("tensor", safetensors_bytes({}), "empty")
    junk = store.layer("tensor", b"junk of a blob", "junk")
    no_digest = {"mediaType": good["mediaType"], "name": "none", "size": 1}
    layers = [good, missing, cut, link, traversal, empty, junk, {"mediaType": 1}, 7, no_digest]
    with open_model(store.manifest([*layers, {**good, "name": "again", "size": 1}])) as model:
        problems = problems_of(model)
        rows = {t.name: t for t in model.tensors.rows}
        assert list(rows) == [
            *("good", "missing", "cut", "link", "up", "empty", "junk", "none", "again")
        ]
        assert "does not exist" in problems["missing"]
        assert "the manifest says" in problems["cut"]
        assert "link out of the store" in problems["link"]
        assert "not a SHA-256" in problems["up"]
        assert "digest" in problems["none"]
        assert "the manifest says 1" in problems["again"]
        assert "no tensor" in problems["empty"]
        assert "header" in problems["junk"]
        assert all(rows[name].damage for name in rows if name not in {"good", "again"})
        assert rows["good"].damage is None
        with pytest.raises(FormatError):
            rows["missing"].read()


def test_a_name_in_two_layers_counts_once(store: OllamaStore) -> None:
    layers = [store.tensor("a", [("a", "F32", [2])]), store.tensor("a", [("a", "F32", [3])])]
    with open_model(store.manifest(layers)) as model:
        assert [t.shape for t in model.tensors.rows] == [(2,)]
        assert "more than one layer" in problems_of(model)["a"]


def test_nothing_usable_is_an_error(store: OllamaStore) -> None:
    gone = store.tensor("a", [("a", "F32", [2])])
    store.blob_path(gone).unlink()
    with pytest.raises(FormatError, match="none of its blobs"):
        open_model(store.manifest([gone]))
    weights = store.layer("model", b"not GGUF")
    with pytest.raises(FormatError, match="its blob sha256-"):
        open_model(store.manifest([weights]))
    with pytest.raises(FormatError, match="has no weights here"):
        open_model(store.manifest([], config={"remote_host": "https://ollama.com"}))


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"not JSON", b"{}", b'{"layers": {}}', b'{"layers": 1}', b"\xff\xfe", b"GGUF"],
)
def test_what_is_no_manifest(store: OllamaStore, content: bytes) -> None:
    path = store.raw_manifest(content, "h/n/m/t")
    with pytest.raises(FormatError) as caught:
        open_model(path)
    assert caught.value.path == path


def test_a_manifest_of_a_gigabyte_is_refused_unread(store: OllamaStore) -> None:
    path = store.raw_manifest(b"{", "h/n/m/t")
    os.truncate(path, 1 << 30)
    with pytest.raises(FormatError, match="1073741824 bytes"):
        open_model(path)


def test_many_layers_of_one_blob_are_bounded(
    store: OllamaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ollama, "MAX_TENSORS", 100)
    layer = store.tensor("group", [(f"t{i}", "U8", [1]) for i in range(60)])
    with pytest.raises(FormatError, match="more than 100 tensors"):
        open_model(store.manifest([layer] * 60_000))


def test_opening_can_be_given_up(store: OllamaStore) -> None:
    path = store.manifest([store.tensor(str(i), [(str(i), "F32", [1])]) for i in range(5)])
    calls = []

    def check() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_manifest(path, check)
    assert len(calls) == 3


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "mediaType": JSON
        | st.sampled_from(
            [
                f"application/vnd.ollama.image.{k}"
                for k in ("tensor", "model", "json", "params", "messages", "template")
            ]
        ),
        "digest": JSON | st.just("GOOD"),
        "size": JSON,
        "name": JSON | st.sampled_from(["a", "config.json"]),
    },
)


@given(
    manifest=JSON
    | st.fixed_dictionaries(
        {"layers": JSON | st.lists(JSON | FIELDS, max_size=5)}, optional={"config": JSON | FIELDS}
    ),
    config=JSON,
)
def test_any_json_is_a_model_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, manifest: object, config: object
) -> None:
    store = OllamaStore(tmp_path_factory.mktemp("store") / "models")
    good = store.blob(json.dumps(config).encode("utf-8", "surrogatepass"))["digest"]
    if isinstance(manifest, dict) and isinstance(manifest.get("layers"), list):
        manifest["layers"].append(store.tensor("t", [("t", "F32", [2])]))
    raw = json.dumps(manifest).replace('"GOOD"', json.dumps(good))
    path = store.raw_manifest(raw.encode(), "h/n/m/t")
    with contextlib.suppress(ExplorerError), open_model(path) as model:
        describe(model)
        assert model.metadata["ollama.name"] == "h/n/m:t"


@given(config=JSON | st.fixed_dictionaries({"quantization": JSON, "text_config": JSON}))
def test_any_config_json_opens(tmp_path_factory: pytest.TempPathFactory, config: object) -> None:
    store = OllamaStore(tmp_path_factory.mktemp("store") / "models")
    layers = [store.tensor("m.weight", quantized("m.weight", [2], 4, 64))]
    layers.append(store.layer("json", json.dumps(config), "config.json"))
    with open_model(store.manifest(layers)) as model:
        describe(model)
        assert model.tensors["m.weight"].parameters == 256


def test_a_blob_opens_by_itself(store: OllamaStore) -> None:
    tensors = store.blob_path(store.tensor("m", quantized("m", [2], 8, 64), {"quant_type": "int8"}))
    with open_model(tensors) as model:
        assert (model.format, model.tensors["m"].type.name) == ("safetensors", "int8")
    many: Any = [(f"t{i}", (1,), 24, 32 * i) for i in range(123)]  # 123 is "{"
    content = SmallGguf(tensors=many, data=bytes(32 * 123)).write()
    gguf = store.blob_path(store.layer("model", content))
    with open_model(gguf) as model:
        assert model.format == "gguf"
    with pytest.raises(FormatError, match="GGUF"):
        open_model(store.blob_path(store.layer("template", "text")))


def test_a_tag_may_end_as_a_file_does(store: OllamaStore, tmp_path: Path) -> None:
    layers = [store.layer("model", SmallGguf().write())]
    path = store.manifest(layers, "hf.co/org/repo/model-Q4_0.gguf")
    with open_model(path) as model:
        assert model.metadata["ollama.name"] == "hf.co/org/repo:model-Q4_0.gguf"
    other = tmp_path / "manifests" / "a" / "b" / "c" / "model.gguf"  # no store: there are no blobs
    other.parent.mkdir(parents=True)
    other.write_bytes(SmallGguf().write())
    with open_model(other) as model:
        assert "ollama.name" not in model.metadata


def test_a_model_that_makes_images(store: OllamaStore) -> None:
    index = {"architecture": "ZImage", "parameter_count": 6, "quantization": "FP8"}
    path = store.manifest(
        [
            store.tensor("transformer/x.weight", [("transformer/x.weight", "BF16", [2, 3])]),
            store.layer("json", json.dumps(index), "model_index.json"),
            store.layer("json", "{}", "vae/config.json"),
        ]
    )
    with open_model(path) as model:
        assert model.architecture == "ZImage"
        assert model.metadata["model_index.quantization"] == "FP8"
        assert model.metadata["file.vae/config.json"] == "{}"
        assert list(model.tensors) == ["transformer/x.weight"]
