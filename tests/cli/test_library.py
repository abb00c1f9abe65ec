"""`library`, and `inspect` and `check` of what lies in a store."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from explorer.cli.main import main
from tests.helpers.ollama_store import OllamaStore
from tests.helpers.safetensors_writer import write_tensors
from tests.helpers.small_gguf import SmallGguf
from tests.helpers.sparse_models import Shape

Capture = pytest.CaptureFixture[str]
GGUF = SmallGguf(
    keys=[("general.architecture", "llama"), ("general.file_type", 7)],
    tensors=[("a", (4,), 0, 0)],
    data=bytes(16),
).write()


@pytest.fixture
def store(tmp_path: Path) -> OllamaStore:
    store = OllamaStore(tmp_path / "models")
    layers = [store.layer("model", GGUF), store.layer("template", "T")]
    store.manifest(layers, "registry.ollama.ai/library/tiny/latest")
    store.manifest(layers[:1], "hf.co/Org/Tiny/Q8_0")
    return store


def run_json(capsys: Capture, *arguments: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()  # forgets what was printed before
    assert main([*arguments, "--json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_json_as_promised(store: OllamaStore, capsys: Capture) -> None:
    root = f"ollama={store.models}"
    (record,) = run_json(capsys, "library", "--root", root)["stores"]
    assert (record["kind"], record["root"]) == ("ollama", str(store.models))
    assert "blobs" not in record
    models = {model["name"]: model for model in record["models"]}
    assert list(models) == ["hf.co/Org/Tiny:Q8_0", "tiny:latest"]
    modified = models["tiny:latest"].pop("modified")
    assert modified[:2] == "20"
    assert modified.endswith("+00:00")
    used = models["tiny:latest"].pop("used")  # nothing on disks that note nothing
    assert used is None or used.endswith("+00:00")
    assert models["tiny:latest"] == {
        "name": "tiny:latest",
        "path": str(store.manifests / "registry.ollama.ai/library/tiny/latest"),
        "format": "gguf",
        "architecture": "llama",
        "parameters": 4,
        "bytes": len(GGUF) + 1,
        "file_type": "Q8_0",
        "problems": [],
    }


def test_blobs_and_what_uses_them(store: OllamaStore, capsys: Capture) -> None:
    orphan = store.blob(b"orphan")["digest"].replace(":", "-")
    root = f"ollama={store.models}"
    (record,) = run_json(capsys, "library", "--blobs", "--root", root)["stores"]
    used = {blob["bytes"]: blob["used_by"] for blob in record["blobs"]}
    assert used == {len(GGUF): ["hf.co/Org/Tiny:Q8_0", "tiny:latest"], 1: ["tiny:latest"], 6: []}
    assert {"digest": orphan, "bytes": 6, "used_by": []} in record["blobs"]
    assert record["contents"][orphan] == "System prompt"  # a short text without a sign of its own
    assert record["removal"] == [f"rm -- {store.blobs / orphan}"]
    assert main(["library", "--blobs", "--root", root]) == 0
    out = capsys.readouterr().out
    assert "1 unused: 6 B" in out
    assert "2 models" in out


def test_several_stores(store: OllamaStore, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "x.gguf").write_bytes(GGUF)
    (folder / "a\x1b[31m\u202e.gguf").write_bytes(b"junk")
    write_tensors(folder / "y.safetensors", ("w", "BF16", [2, 3]))
    roots = ["--root", f"folder={folder}", "--root", f"ollama={store.models}"]
    stores = run_json(capsys, "library", *roots)["stores"]
    assert [record["kind"] for record in stores] == ["folder", "ollama"]
    models = {model["name"]: model for model in stores[0]["models"]}
    assert models["y.safetensors"]["parameters"] == 6
    assert len(models["a\x1b[31m\u202e.gguf"]["problems"]) == 2
    assert main(["library", *roots]) == 0
    out = capsys.readouterr().out
    assert not {"\x1b", "\u202e"} & set(out)
    assert "cannot be seen" in out


def test_without_roots_the_stores_of_this_machine_are_listed(
    store: OllamaStore, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("OLLAMA_MODELS", str(store.models))
    (record,) = run_json(capsys, "library")["stores"]
    assert record["root"] == str(store.models)
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "none"))
    assert run_json(capsys, "library") == {"stores": []}
    assert main(["library"]) == 0
    assert "--root" in capsys.readouterr().out


@pytest.mark.parametrize("root", ["x", "=", "ollama=", "other=/tmp", "/tmp"])
def test_wrong_roots(root: str, capsys: Capture) -> None:
    assert main(["library", "--root", root]) == 2
    assert "KIND=DIR" in capsys.readouterr().err


def test_a_root_that_is_not_there(tmp_path: Path, capsys: Capture) -> None:
    assert main(["library", "--root", f"folder={tmp_path}/none"]) == 1
    assert "no such folder" in capsys.readouterr().err


def test_inspect_by_name_and_by_manifest(store: OllamaStore, capsys: Capture) -> None:
    root = ("--root", str(store.models))
    by_name = run_json(capsys, "inspect", "ollama:tiny", *root, "--metadata")
    manifest = store.manifests / "registry.ollama.ai/library/tiny/latest"
    assert run_json(capsys, "inspect", str(manifest), "--metadata") == by_name
    assert by_name["path"] == str(manifest)
    assert (by_name["format"], by_name["name"]) == ("gguf", "tiny:latest")
    metadata = {entry["key"]: entry["value"] for entry in by_name["metadata"]}
    assert metadata["ollama.template"] == "T"
    assert main(["inspect", "ollama:hf.co/Org/Tiny:Q8_0", *root]) == 0
    assert main(["inspect", "ollama:none", *root]) == 1
    assert "There are:" in capsys.readouterr().err
    assert main(["inspect", str(manifest), *root]) == 2


def test_inspect_of_tensor_blobs(store: OllamaStore, capsys: Capture) -> None:
    scales = [2, 2]
    tensors = [("w", "U32", [2, 16]), ("w.scale", "BF16", scales), ("w.bias", "BF16", scales)]
    metadata = {"quant_type": "int4", "group_size": "64"}
    path = store.manifest([store.tensor("w", tensors, metadata)], "h/n/m/t")
    record = run_json(capsys, "inspect", str(path), "--tensors")
    assert record["format"] == "ollama"
    (tensor,) = record["tensors"]
    assert tensor["file"].startswith(str(store.blobs))
    assert (tensor["shape"], tensor["type"], tensor["bytes"]) == ([2, 128], "int4", 144)
    assert record["groups"] == [
        {
            "name": "w",
            "kind": "quantized",
            "tensors": ["w", "w.scale", "w.bias"],
            "bytes": 144,
            "quant_type": "int4",
            "group_size": 64,
        }
    ]
    assert main(["inspect", str(path), "--tensors"]) == 0
    assert "int4" in capsys.readouterr().out


def test_check_of_a_store(store: OllamaStore, capsys: Capture) -> None:
    root = str(store.models)
    assert run_json(capsys, "check", root, "--digests") == {
        "path": root,
        "format": "ollama",
        "ok": True,
        "problems": [],
    }
    blob = store.blob_path(store.layer("template", "T"))
    blob.write_bytes(b"X")  # of the same size
    assert main(["check", root]) == 0
    for arguments in ([root], ["ollama:tiny", "--root", root]):
        record = run_json(capsys, "check", *arguments, "--digests", code=1)
        assert "its content has the digest" in record["problems"][-1]["what"]
    blob.unlink()
    record = run_json(capsys, "check", root, code=1)
    assert [problem["where"] for problem in record["problems"]][:1] == [
        "tiny:latest: template layer"
    ]
    assert main(["check", root]) == 1
    assert "missing" in capsys.readouterr().out


def test_check_of_a_store_says_what_llama_cpp_refuses(store: OllamaStore, capsys: Capture) -> None:
    old = SmallGguf(1, keys=[("general.architecture", "llama")]).write()
    store.manifest([store.layer("model", old)], "registry.ollama.ai/library/old/latest")
    record = run_json(capsys, "check", str(store.models), code=1)
    (problem,) = record["problems"]
    assert problem["severity"] == "warning"
    assert problem["where"] == "old:latest: llama.cpp"


def test_check_of_a_model_that_does_not_open(store: OllamaStore, capsys: Capture) -> None:
    store.raw_manifest(b"{", "h/n/m/t")
    assert main(["check", "ollama:h/n/m:t", "--root", str(store.models), "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["format"] is None
    assert err.count("\n") == 1


def test_digests_need_a_store(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(GGUF)
    assert main(["check", str(path), "--digests"]) == 2
    assert "not a store" in capsys.readouterr().err


def test_check_of_a_hub_cache(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "models--a--b"
    snapshot = folder / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (folder / "blobs").mkdir()
    (folder / "blobs" / ("0" * 64)).write_bytes(GGUF)
    (snapshot / "x.gguf").symlink_to("../../blobs/" + "0" * 64)
    assert main(["check", str(tmp_path)]) == 0
    record = run_json(capsys, "check", str(tmp_path), "--digests", code=1)
    assert record["format"] == "huggingface"
    assert "digest" in record["problems"][0]["what"]


# Which models fit


@pytest.fixture
def sized(tmp_path: Path) -> str:
    """A folder with a model of some 4 GiB, and a file that is none."""
    folder = tmp_path / "sized"
    folder.mkdir()
    Shape().write(folder / "eight.gguf")
    (folder / "junk.gguf").write_bytes(b"GGUF")
    return f"folder={folder}"


def test_which_models_fit_a_named_gpu(sized: str, capsys: Capture) -> None:
    gpu = ["--gpu", "name=NVIDIA L4,free=3.5GiB,library=CUDA", "--memory", "64GiB"]
    record = run_json(capsys, "library", "--root", sized, "--fits", *gpu)
    assert record["machine"] == {
        "devices": [{"name": "NVIDIA L4", "library": "CUDA", "free": 7 << 29}],
        "memory": 64 << 30,
        "notes": [],
    }
    fits = {model["name"]: model["fit"] for model in record["stores"][0]["models"]}
    assert fits["junk.gguf"]["fits"] is None
    assert fits["junk.gguf"]["why"]
    found = fits["eight.gguf"]
    layers = found["gpu_layers"]
    assert found | {"why": ""} == {
        "fits": "partly",
        "text": f"partly, {layers} of 33 layers",
        "gpu_layers": layers,
        "total_layers": 33,
        "expert_layers": 0,
        "largest_context": found["largest_context"],
        "profile": "llama.cpp",
        "why": "",
    }
    assert found["largest_context"] % 256 == 0
    assert main(["library", "--root", sized, "--fits", *gpu]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Planned for: L4, 3.50 GiB free, 64.0 GiB of main memory free")
    assert f"  {layers} of 33 layers" in out
    assert f"{found['largest_context']:,}" in out


def test_fits_is_left_out_unless_asked_for(sized: str, capsys: Capture) -> None:
    record = run_json(capsys, "library", "--root", sized)
    assert "machine" not in record
    assert not any("fit" in model for model in record["stores"][0]["models"])
    assert main(["library", "--root", sized, "--gpu", "8GiB"]) == 2
    assert "--fits" in capsys.readouterr().err


def test_a_list_without_fits_loads_no_planner_and_looks_for_no_gpu(store: OllamaStore) -> None:
    code = (
        "import sys; from explorer.cli.main import main;"
        f"assert main(['library', '--root', {f'ollama={store.models}'!r}]) == 0;"
        "late = {'plans', 'hyperparameters', 'engines'};"
        "late = {f'explorer.planner.{name}' for name in late} | {'explorer.hardware', 'psutil'};"
        "loaded = late & set(sys.modules); assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
