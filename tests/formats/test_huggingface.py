"""Folders and shard indexes: what is there opens, and what is not as the index says is named."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import ExplorerError, FormatError, SeveralModelsError, SourceError
from explorer.formats import Model, Severity, open_model
from explorer.formats.limits import MAX_CONFIG_ENTRIES, MAX_SHARDS
from explorer.formats.model import ProblemLog
from explorer.formats.side_files import chat_templates, side_tokens
from tests.helpers.rewriting import rewrite
from tests.helpers.safetensors_writer import tensors_bytes, write_tensors

INDEX = "model.safetensors.index.json"
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def write_index(folder: Path, places: Any, total: Any = None, name: str = INDEX) -> Path:
    path = folder / name
    path.write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": places}))
    return path


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """Return a folder of two shards with an index."""
    write_tensors(tmp_path / FIRST, ("a", "U8", [2]), ("b", "F32", [2]))
    write_tensors(tmp_path / SECOND, ("c", "U8", [3]))
    write_index(tmp_path, {"c": SECOND, "a": FIRST, "b": FIRST}, 13)
    return tmp_path


def problems_of(model: Model) -> list[tuple[str, str, str]]:
    return [(p.severity.value, p.where, p.what) for p in model.problems]


def test_shards_are_one_model(sharded: Path) -> None:
    for path in (sharded, sharded / INDEX):
        with open_model(path) as model:
            assert problems_of(model) == []
            assert model.path == path
            assert list(model.tensors) == ["a", "b", "c"]
            assert [t.read()[:2] for t in model.tensors.rows] == [b"\0\1", b"\2\3", b"\0\1"]
            assert model.tensors["c"].file.name == SECOND
            assert model.nbytes == 13


def test_missing_and_broken_shards_are_problems(sharded: Path) -> None:
    (sharded / FIRST).unlink()
    with open_model(sharded) as model:
        assert list(model.tensors) == ["c"]
        (severity, where, what) = problems_of(model)[0]
        assert (severity, where) == ("error", FIRST)
        assert "does not exist" in what
        assert "2 tensors of the index" in what
    (sharded / SECOND).write_bytes(b"junk")
    with pytest.raises(FormatError, match="none of its files"):
        open_model(sharded)


def test_cut_shard_still_lists(sharded: Path) -> None:
    content = (sharded / SECOND).read_bytes()
    (sharded / SECOND).write_bytes(content[:-1])
    with open_model(sharded) as model:
        assert model.tensors["c"].damage is not None
        assert model.tensors["a"].damage is None
        assert [where for _, where, _ in problems_of(model)] == [SECOND]


def test_index_and_shards_that_differ(sharded: Path) -> None:
    write_tensors(sharded / SECOND, ("c", "U8", [3]), ("b", "F32", [2]), ("new", "U8", [1]))
    write_index(sharded, {"a": SECOND, "b": SECOND, "c": SECOND, "gone": FIRST, "lost": FIRST}, 99)
    with open_model(sharded) as model:
        assert sorted(t.name for t in model.tensors.rows) == ["a", "b", "c", "new"]
        assert model.tensors["b"].file.name == SECOND
        found = {(where, what) for _, where, what in problems_of(model)}
        assert ("a", f"is in '{FIRST}', the index says '{SECOND}'") in found
        assert ("b", f"is also in '{FIRST}'. The one in '{SECOND}' is shown") in found
        assert ("new", f"is in '{SECOND}', but not in the index") in found
        assert {where for where, what in found if "nor elsewhere" in what} == {"gone", "lost"}
        assert ("total_size", "the index says 99 bytes of tensors, the shards hold 14") in found


@pytest.mark.parametrize(
    "name",
    [
        "../x.safetensors",
        "/etc/passwd",
        "a/../../x",
        "..\\x",
        "C:\\x",
        "C:x",
        "\\\\h\\s\\x",
        "",
        ".",
    ],
)
def test_names_that_leave_the_folder_are_never_opened(
    name: str, sharded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tensors(sharded.parent / "x.safetensors", ("x", "U8", [1]))
    write_index(sharded, {"x": name, "c": SECOND})
    opened: list[str] = []
    really_open = os.open

    def spy(path: Any, *rest: Any, **more: Any) -> int:
        opened.append(os.fspath(path))
        return really_open(path, *rest, **more)

    monkeypatch.setattr(os, "open", spy)
    with open_model(sharded) as model:
        assert list(model.tensors) == ["c"]
        assert any("outside the folder" in what for _, _, what in problems_of(model))
    assert {Path(path).name for path in opened} == {INDEX, SECOND}


@pytest.mark.parametrize("name", ["x\0y", "x" * 5000, "sub", "pipe"])
def test_names_that_cannot_be_opened_are_problems(name: str, sharded: Path) -> None:
    (sharded / "sub").mkdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(sharded / "pipe")
    write_index(sharded, {"x": name, "c": SECOND})
    with open_model(sharded) as model:
        assert list(model.tensors) == ["c"]
        assert problems_of(model)[0][0] == "error"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"weight_map":[]}',
        '{"weight_map":{}}',
        '{"weight_map":{"a":1}}',
        '{"weight_map":{"a":null}}',
        '{"weight_map":{"a":"\\ud800"}}',
        json.dumps({"weight_map": {str(i): str(i) for i in range(MAX_SHARDS + 1)}}),
    ],
)
def test_broken_index(content: str, sharded: Path) -> None:
    (sharded / INDEX).write_text(content)
    with pytest.raises(FormatError) as caught:
        open_model(sharded / INDEX)
    assert caught.value.path == sharded / INDEX
    with open_model(sharded) as model:  # the folder opens without it
        assert list(model.tensors) == ["a", "b", "c"]
        assert problems_of(model)[0][:2] == ("error", INDEX)


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(SECOND),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=9), inner),
        max_leaves=25,
    ),
    whole=st.booleans(),
)
def test_any_index_raises_nothing_else(value: Any, whole: bool, tmp_path: Path) -> None:
    rewrite(tmp_path / SECOND, tensors_bytes([("c", "U8", [3])]))
    content = value if whole else {"weight_map": value, "metadata": value}
    rewrite(tmp_path / INDEX, json.dumps(content).encode())
    with contextlib.suppress(ExplorerError):
        open_model(tmp_path / INDEX).close()


def test_repeated_name_in_index(sharded: Path) -> None:
    text = (sharded / INDEX).read_text().replace('"a":', f'"a": "{FIRST}", "a":')
    (sharded / INDEX).write_text(text)
    with open_model(sharded) as model:
        assert [(severity, where) for severity, where, _ in problems_of(model)] == [
            ("warning", "a")
        ]


def test_the_standard_index_comes_first(sharded: Path) -> None:
    write_tensors(sharded / "model.fp16-00001-of-00001.safetensors", ("half", "F16", [2]))
    write_index(
        sharded,
        {"half": "model.fp16-00001-of-00001.safetensors"},
        name="model.fp16.safetensors.index.json",
    )
    with open_model(sharded) as model:
        assert list(model.tensors) == ["a", "b", "c"]
    with open_model(sharded / "model.fp16.safetensors.index.json") as model:
        assert list(model.tensors) == ["half"]


def test_folder_without_index(tmp_path: Path) -> None:
    write_tensors(tmp_path / "model-10.safetensors", ("c", "U8", [1]))
    write_tensors(tmp_path / "model-2.safetensors", ("b", "U8", [1]), ("a", "U8", [1]))
    write_tensors(tmp_path / "consolidated.safetensors", ("z", "U8", [1]))
    (tmp_path / "._model-2.safetensors").write_bytes(b"made by macOS")
    with open_model(tmp_path) as model:
        assert list(model.tensors) == ["b", "a", "c"]
        assert [(s, w) for s, w, _ in problems_of(model)] == [
            ("warning", "consolidated.safetensors")
        ]
    (tmp_path / "model-2.safetensors").unlink()
    (tmp_path / "model-10.safetensors").unlink()
    with open_model(tmp_path) as model:
        assert list(model.tensors) == ["z"]
        assert problems_of(model) == []


def test_shards_without_an_index_are_counted(tmp_path: Path) -> None:
    names = [f"model-0000{number}-of-00003.safetensors" for number in (1, 3)]
    for name in names:
        write_tensors(tmp_path / name, (name, "U8", [1]))
    (tmp_path / "config.json").write_text("{}")
    whole = "Open the folder or repository for the whole model"
    for path, problem in (
        (tmp_path, ("error", names[0], "1 of 3 shards are missing: number 2")),
        (tmp_path / names[1], ("warning", names[1], f"is one of 3 shards, read alone. {whole}")),
    ):
        with open_model(path) as model:
            assert problems_of(model) == [problem]


def test_two_files_with_the_same_tensor(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")  # else they are two models
    write_tensors(tmp_path / "a.safetensors", ("x", "U8", [1]))
    write_tensors(tmp_path / "b.safetensors", ("y", "U8", [1]), ("x", "F32", [1]), ("z", "U8", [2]))
    content = (tmp_path / "b.safetensors").read_bytes()
    (tmp_path / "b.safetensors").write_bytes(content[:-1])
    with open_model(tmp_path) as model:
        assert [(t.name, t.file.name) for t in model.tensors.rows] == [
            ("x", "a.safetensors"),
            ("y", "b.safetensors"),
            ("z", "b.safetensors"),
        ]
        assert model.tensors["z"].damage is not None  # damage moves with the rows
        assert model.tensors["y"].damage is None
        assert ("error", "x") in [(s, w) for s, w, _ in problems_of(model)]


def test_folder_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("hello")
    with pytest.raises(FormatError, match="holds no model files"):
        open_model(tmp_path)


def test_folder_of_gguf(tmp_path: Path, shared_data: Path) -> None:
    content = (shared_data / "ggml-vocab-bert-bge.gguf").read_bytes()
    (tmp_path / "a.gguf").write_bytes(content)
    (tmp_path / "mmproj-a.gguf").write_bytes(content)
    with open_model(tmp_path) as model:
        assert model.format == "gguf"
        assert model.files[0].path.name == "a.gguf"
    (tmp_path / "b.gguf").write_bytes(content)
    with pytest.raises(FormatError, match=r"2 GGUF models .*Choose one"):
        open_model(tmp_path)


def test_unrelated_files_are_never_merged(tmp_path: Path) -> None:
    write_tensors(tmp_path / "lora-a.safetensors", ("x", "U8", [1]))
    write_tensors(tmp_path / "lora-b.safetensors", ("y", "U8", [1]))
    with pytest.raises(SeveralModelsError, match=r"2 models \(.*'lora-b.*Choose one") as caught:
        open_model(tmp_path)
    assert [one.name for one in caught.value.choices] == [
        *("lora-a.safetensors", "lora-b.safetensors")
    ]
    for choice in caught.value.choices:
        assert choice.nbytes == choice.path.stat().st_size
        with open_model(choice.path) as model:
            assert len(model.tensors) == 1


def test_a_gguf_beside_safetensors_is_not_passed_over(
    sharded: Path, tmp_path: Path, shared_data: Path
) -> None:
    content = (shared_data / "ggml-vocab-bert-bge.gguf").read_bytes()
    (sharded / "q8.gguf").write_bytes(content)
    (sharded / "mmproj.gguf").write_bytes(content)
    (sharded / "imatrix.gguf").write_bytes(content)
    with pytest.raises(SeveralModelsError) as caught:
        open_model(sharded)
    assert [one.name for one in caught.value.choices] == [INDEX, "q8.gguf"]
    with open_model(sharded / INDEX) as model:
        assert list(model.tensors) == ["a", "b", "c"]
    (sharded / INDEX).unlink()
    (sharded / "config.json").write_text('{"model_type": "tiny"}')
    with pytest.raises(SeveralModelsError) as caught:
        open_model(sharded)
    first = caught.value.choices[0]
    assert first.path == sharded / "config.json"
    with open_model(first.path) as model:
        assert (model.architecture, list(model.tensors)) == ("tiny", ["a", "b", "c"])
    alone = tmp_path / "empty" / "config.json"
    alone.parent.mkdir()
    alone.write_text("{}")
    with pytest.raises(FormatError, match="JSON"):
        open_model(alone)


@pytest.mark.skipif(os.name != "posix", reason="symbolic links need rights on Windows")
def test_snapshot_of_the_hub_cache(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    write_tensors(blobs / "1234", ("a", "U8", [2]))
    (blobs / "5678").write_text('{"model_type": "tiny"}')
    (snapshot / "model.safetensors").symlink_to("../../blobs/1234")
    (snapshot / "config.json").symlink_to("../../blobs/5678")
    for path in (snapshot, snapshot / "model.safetensors"):
        with open_model(path) as model:
            assert model.architecture == "tiny"
            assert list(model.tensors) == ["a"]
    (blobs / "1234").unlink()  # a partial download
    with pytest.raises(ExplorerError):
        open_model(snapshot)


def test_config_is_a_mapping_and_metadata(tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "eos_token_id": [1, 2],
        "scales": [1, 0.5],
        "architectures": ["LlamaForCausalLM"],
        "rope_scaling": {"type": "yarn", "factor": {"x": [[1, 2], [3]]}},
        "nothing": None,
        "mixed": [1, "a", {"b": None}],
        "empty": {},
        "big": 2**70,
    }
    path = write_tensors(tmp_path / "m.safetensors", ("a", "U8", [2]))
    (tmp_path / "config.json").write_text(json.dumps(config))
    with open_model(path) as model:
        assert model.config == config
        assert model.architecture == "llama"
        assert [(e.key, e.type_name, e.length, e.value) for e in model.metadata.entries] == [
            ("config.model_type", "string", None, "llama"),
            ("config.hidden_size", "int64", None, 64),
            ("config.rms_norm_eps", "float64", None, 1e-5),
            ("config.tie_word_embeddings", "bool", None, False),
            ("config.eos_token_id", "array[int64]", 2, [1, 2]),
            ("config.scales", "array[float64]", 2, [1, 0.5]),
            ("config.architectures", "array[string]", 1, ["LlamaForCausalLM"]),
            ("config.rope_scaling.type", "string", None, "yarn"),
            ("config.rope_scaling.factor.x", "array[array[int64]]", 2, [[1, 2], [3]]),
            ("config.mixed", "string", None, '[1, "a", {"b": null}]'),
            ("config.empty", "string", None, "{}"),
            ("config.big", "string", None, str(2**70)),
        ]


@pytest.mark.parametrize("content", ["", "[1]", '{"a": NaN}', '"x"', "{" * 999])
def test_broken_config_is_a_warning(content: str, tmp_path: Path) -> None:
    write_tensors(tmp_path / "m.safetensors", ("a", "U8", [2]))
    (tmp_path / "config.json").write_text(content)
    with open_model(tmp_path) as model:
        assert model.config == {}
        assert [(p.severity, p.where) for p in model.problems] == [
            (Severity.WARNING, "config.json")
        ]


def test_endless_config_is_cut(tmp_path: Path) -> None:
    write_tensors(tmp_path / "m.safetensors", ("a", "U8", [2]))
    (tmp_path / "config.json").write_text(json.dumps({str(i): i for i in range(9999)}))
    with open_model(tmp_path) as model:
        assert len(model.metadata) == MAX_CONFIG_ENTRIES
        assert len(model.config) == 9999
        assert len(model.problems) == 1


def make_snapshot(cache: Path, repository: str = "models--org--name") -> Path:
    snapshot = cache / repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (cache / repository / "blobs").mkdir()
    return snapshot


@pytest.mark.parametrize("indexed", [True, False])
def test_links_out_of_the_cache_are_never_opened(indexed: bool, tmp_path: Path) -> None:
    snapshot = make_snapshot(tmp_path / "hub")
    outside = write_tensors(tmp_path / "secret.safetensors", ("secret", "U8", [1]))
    blob = snapshot.parents[1] / "blobs" / "1234"
    write_tensors(blob, ("a", "U8", [2]))
    (snapshot / FIRST).symlink_to("../../blobs/1234")
    (snapshot / SECOND).symlink_to(outside)
    if indexed:
        write_index(snapshot, {"a": FIRST, "secret": SECOND})
    with open_model(snapshot) as model:
        assert list(model.tensors) == ["a"]
        assert [where for _, where, _ in problems_of(model)] == [SECOND]


def test_a_shard_that_is_a_link(sharded: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Old hub clients linked plain folders to a hub's blobs; nothing else is opened."""
    outside = tmp_path_factory.mktemp("outside")
    blob = make_snapshot(outside / "hub").parents[1] / "blobs" / "1234"
    (sharded / FIRST).rename(blob)
    (sharded / FIRST).symlink_to(blob)
    with open_model(sharded) as model:
        assert list(model.tensors) == ["a", "b", "c"]
    elsewhere = outside / "elsewhere.safetensors"
    blob.rename(elsewhere)
    (sharded / FIRST).unlink()
    (sharded / FIRST).symlink_to(elsewhere)
    with open_model(sharded) as model:
        assert list(model.tensors) == ["c"]
        assert "outside the folder" in problems_of(model)[0][2]


@pytest.mark.parametrize("name", ["config.json", INDEX])
def test_a_side_file_that_leads_out_is_not_read(
    sharded: Path, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    """Else a stranger's file gets into a report that is made to be passed on."""
    outside = tmp_path_factory.mktemp("outside") / "secret.json"
    outside.write_text(json.dumps({"secret": "mine", "weight_map": {"a": FIRST}}))
    (sharded / name).unlink(missing_ok=True)
    (sharded / name).symlink_to(outside)
    with open_model(sharded) as model:
        assert list(model.tensors) == ["a", "b", "c"]
        assert (
            "error",
            name,
            "is a link out of the model's folder. It is not read",
        ) in problems_of(model)
        assert not model.config
        assert "config.secret" not in model.metadata


@pytest.mark.parametrize(
    "name",
    ["tokenizer.json", "tokenizer_config.json", "vocab.json", "chat_template.jinja",
     "additional_chat_templates", "additional_chat_templates/tools.jinja"],
)  # fmt: skip
def test_a_tokenizer_or_template_that_leads_out_is_a_problem_of_the_model(
    sharded: Path, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    """They are read when they are asked for; what is wrong with them is said at once."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "tools.jinja").write_text("secret")
    link = sharded / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside / "tools.jinja" if link.suffix else outside)
    with open_model(sharded) as model:
        what = "is a link out of the model's folder. It is not read"
        assert ("error", name, what) in problems_of(model)
        log = ProblemLog()
        assert chat_templates(model, log) == {}
        assert side_tokens(model, log) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.safetensors")
    with pytest.raises(SourceError, match="pipe"):
        open_model(tmp_path / "m.safetensors")


def test_files_are_closed(sharded: Path) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("counts open files as Linux lists them")
    before = len(os.listdir("/proc/self/fd"))
    open_model(sharded).close()
    (sharded / FIRST).write_bytes(tensors_bytes([])[:-1])
    (sharded / SECOND).write_bytes(b"junk")
    with pytest.raises(FormatError):
        open_model(sharded)
    assert len(os.listdir("/proc/self/fd")) == before
