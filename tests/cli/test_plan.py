"""`plan`: the planner's figures as text, JSON, CSV and bars; hostile options."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.cli import output
from explorer.cli.machine import named_gpu
from explorer.cli.main import main
from explorer.cli.plan import bar_lengths, plan_command
from explorer.formats import open_model
from explorer.hardware import detect
from explorer.hardware.detect import Machine
from explorer.planner import Device, Host, Settings, plan
from explorer.planner.inputs import plan_record
from explorer.planner.settings import (
    SETTINGS,
    Bytes,
    Count,
    OneOf,
    Ratio,
    Setting,
    Shares,
    Switch,
    Tokens,
)
from tests.helpers.gguf_writer import ARRAY, STRING, U32, Array, GgufFile, TensorSpec
from tests.helpers.safetensors_writer import write_tensors

Capture = pytest.CaptureFixture[str]

GIB = 1 << 30
MIB = 1 << 20
KEYS = [
    *("model", "architecture", "profile", "requested", "effective", "weights", "kv_cache"),
    *("graph", "layers", "devices", "cpu", "gpu_layers", "total_layers", "fully_offloaded"),
    *("gpu_ratio", "quick_estimate_ratio", "vram_total", "total", "solved", "terms", "notes"),
    *("warnings", "environment"),
]


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU, 8 GiB of memory, none of Ollama's variables: whatever machine runs the tests."""
    machine = Machine((), Host(8 * GIB), ("No GPU was found.",))
    monkeypatch.setattr(detect, "detect", lambda: machine)
    for name in list(os.environ):
        if name.startswith("OLLAMA_"):
            monkeypatch.delenv(name)


def write_model(path: Path, name: str = "llama", width: int = 1 << 20, blocks: int = 4) -> Path:
    """Write a model whose blocks, input and output have `width` weights of 4 bytes each."""
    rows = width // 256
    file = GgufFile(
        keys=[
            ("general.architecture", STRING, name),
            (f"{name}.block_count", U32, blocks),
            (f"{name}.embedding_length", U32, 256),
            (f"{name}.context_length", U32, 65536),
            (f"{name}.attention.head_count", U32, 4),
            (f"{name}.attention.head_count_kv", U32, 2),
            ("tokenizer.ggml.tokens", ARRAY, Array(STRING, ["a"] * rows)),
        ],
        tensors=[
            TensorSpec("token_embd.weight", (256, rows), 0, bytes(4 * width)),
            *(
                TensorSpec(f"blk.{i}.attn_q.weight", (width,), 0, bytes(4 * width))
                for i in range(blocks)
            ),
            TensorSpec("output_norm.weight", (256,), 0, bytes(1024)),
            TensorSpec("output.weight", (256, rows), 0, bytes(4 * width)),
        ],
    )
    return file.write(path)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "small.gguf")


ESTIMATE = ("--profile", "ollama-graphsize")


def run(capsys: Capture, *arguments: object, code: int = 0) -> str:
    """Run it, by Ollama's old estimate unless a profile is named."""
    profile = () if "--profile" in arguments else ESTIMATE
    assert main(["plan", *map(str, arguments), *profile]) == code
    return capsys.readouterr().out


def run_json(capsys: Capture, *arguments: object) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(run(capsys, *arguments, "--json"))
    return record


def own_plan(path: Path, settings: Settings, *devices: Device, **more: Any) -> dict[str, Any]:
    """Return the record of a plan that is made without the command line."""
    with open_model(path) as opened:
        record = plan_record(plan(opened, settings, devices, **more))
    as_json: dict[str, Any] = json.loads(json.dumps(record))
    return as_json


def test_json_is_the_planner_s_own_record(model: Path, capsys: Capture) -> None:
    options = ("--context", "4k", "--parallel", 2, "--batch", 256, "--overhead", "16MiB")
    gpu = "name=NVIDIA L4,free=22.5GiB,total=24GiB,library=CUDA,integrated=no"
    record = run_json(capsys, model, *options, "--gpu", gpu, "--gpu", "480MiB", "--spread")
    assert list(record) == KEYS
    settings = Settings(context=4096, parallel=2, batch=256, overhead=16 * MIB, spread=True)
    first = Device("0", "CUDA", 45 * GIB // 2, name="NVIDIA L4", total=24 * GIB, compute=(8, 9))
    assert record == own_plan(model, settings, first, Device("1", "CUDA", 480 * MIB))
    assert record["requested"]["context"] == 4096
    assert record["fully_offloaded"] is True


def test_text_distinguishes_every_figure(model: Path, capsys: Capture) -> None:
    text = run(capsys, model, "--context", "8k", "--gpu", "RTX 3090")
    assert "\x1b" not in text
    lines = text.splitlines()
    assert lines[0] == f"{model}: Fits: 5 of 5 layers on RTX 3090, 23.4 GiB free."
    assert "  Context              8,192 tokens" in lines
    assert "  Weights              20.0 MiB (20,972,544 bytes)" in lines
    heading = "RTX 3090 (CUDA 0), 24.0 GiB free, 5 layers: 0–4"
    below = lines[lines.index(heading) + 1 :]
    parts = [line.split("  ")[1] for line in below[:5]]
    assert parts == ["Weights", "KV cache", "Compute", "Reserved", "Free"]


def test_what_stays_on_the_cpu_is_listed(model: Path, capsys: Capture) -> None:
    text = run(capsys, model, "--num-gpu", 0, "--gpu", "24GiB")
    assert "Does not fit: all 5 layers stay on the CPU." in text
    assert "CPU, 5 layers: 0–4" in text
    assert "--memory" in text
    partly = run(capsys, model, "--num-gpu", 2, "--gpu", "24GiB", "--memory", "1GiB")
    assert "Fits partly: 3 of 5 layers stay on the CPU, " in partly
    assert "CPU, 3 layers: 0–1, 4, with the output layer" in partly
    assert "--memory" not in partly


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("encoding", "blocks"), [("utf-8", "█▓▒░·"), ("ascii", "#=+-.")])
def test_a_terminal_gets_a_bar(model: Path, encoding: str, blocks: str) -> None:
    import pty

    reader, writer = pty.openpty()
    command = [sys.executable, "-m", "explorer", "plan", str(model), "--gpu", "800MiB"]
    variables = {"PYTHONIOENCODING": encoding, "TERM": "xterm", "COLUMNS": "80", "NO_COLOR": ""}
    done = subprocess.run(command, stdout=writer, env=os.environ | variables, check=False)
    os.close(writer)
    text = b""
    try:
        while chunk := os.read(reader, 65536):
            text += chunk
    except OSError:  # Linux: the other end is closed
        pass
    os.close(reader)
    assert done.returncode == 0
    shown = text.decode(encoding)
    assert all(shown.count(block) > 1 for block in blocks)
    assert "\x1b[34m" in shown


def test_a_model_that_ollama_would_refuse_is_one_error(model: Path, capsys: Capture) -> None:
    options = ("--gpu", "460MiB", "--memory", "1MiB", "--json", *ESTIMATE)
    assert main(["plan", str(model), *options]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {model}: ")
    assert "system memory" in err
    assert err.count("\n") == 1


def test_this_machine_is_planned_for_unless_gpus_are_named(
    model: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = run_json(capsys, model)
    assert (record["devices"], record["gpu_layers"]) == ([], 0)
    assert record["notes"][-1] == "No GPU was found."
    card = Device("GPU-1", "CUDA", 10 * GIB, name="Card", total=12 * GIB, driver_major=12)
    monkeypatch.setattr(detect, "detect", lambda: Machine((card,), Host(GIB)))
    assert run_json(capsys, model) == own_plan(model, Settings(), card, host=Host(GIB))


def test_ollama_s_variables_count_where_an_option_is_left_out(
    model: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_CONTEXT_LENGTH", "1234")
    record = run_json(capsys, model, "--gpu", "1GiB")
    assert record["effective"]["context"] == 1234
    assert record["environment"] == {"OLLAMA_CONTEXT_LENGTH": "1234"}
    assert run_json(capsys, model, "--gpu", "1GiB", "--context", 99)["effective"]["context"] == 99


@pytest.mark.parametrize(
    ("spec", "library", "free", "name"),
    [
        ("24GiB", "CUDA", 24 * GIB, ""),
        ("7900 XTX", "ROCm", 24 * GIB, "AMD Radeon RX 7900 XTX"),
        ("name=A100,free=70GiB", "CUDA", 70 * GIB, "A100"),
        ("name=M3 Max,free=40GiB", "Metal", 40 * GIB, "M3 Max"),
    ],
)
def test_a_spec(spec: str, library: str, free: int, name: str) -> None:
    device = named_gpu(spec, 3)
    assert (device.id, device.library, device.free, device.name) == ("3", library, free, name)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        *(("--gpu", value, "--gpu") for value in ("A100", "no such card", "", "3", "-5GiB", "=,=")),
        *(("--gpu", value, "--gpu") for value in ("999999999999TiB", "x" * 5000, "\x1b[31m")),
        ("--gpu", "name=NVIDIA L4,free=x", "--gpu"),
        *(("--context", value, "--context") for value in ("many", "-1", "9" * 5000)),
        *(("--parallel", value, "parallel") for value in ("0", "9" * 30)),
        ("--batch", "1.5", "--batch"),
        ("--num-gpu", "-2", "number, all or auto"),
        ("--num-gpu", "9" * 30, "number, all or auto"),
        ("--gpu-layers", "many", "number, all or auto"),
        ("--cpu-moe", "auto", "or all"),
        ("--overhead", "nothing", "not a size"),
        ("--reserve", "lots", "not a size"),
        ("--memory", "1e9999", "--memory"),
        ("--kv-cache-type", "q5_1", "--kv-cache-type"),
        ("--cache-type-k", "q9", "q9"),
        ("--profile", "latest", "--profile"),
        ("--profile", "ollama-0.30", "--profile"),
        ("--solve", "everything", "--solve"),
        ("--root", "/tmp", "root"),
        ("--split-mode", "row", "no split buffers for row"),
        ("--tensor-split", "a,b", "not a list of shares"),
        ("--tensor-split", "0,0", "not all of them 0"),
        *(("--bandwidth", value, "--bandwidth") for value in ("GPU0", "GPU0=", "GPUX=5GB")),
        *(("--bandwidth", value, "--bandwidth") for value in ("GPU0=0", "RAM=5GB", "GPU0=fast")),
    ],
)
def test_wrong_usage(model: Path, capsys: Capture, option: str, value: str, words: str) -> None:
    assert main(["plan", str(model), option, value]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith("error: ")
    assert words in err
    assert len(err) < 3000
    assert "\x1b" not in err


def test_too_many_gpus(model: Path, capsys: Capture) -> None:
    assert main(["plan", str(model), *("--gpu", "1GiB") * 300]) in (1, 2)
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"not a model", b"GGUF\x03\x00\x00\x00" + b"\xff" * 16),
        GgufFile(keys=[("general.type", STRING, "adapter")]).build(),  # no whole model
    ],
)
def test_a_bad_file_is_one_error(tmp_path: Path, capsys: Capture, content: bytes) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    assert main(["plan", str(path), "--gpu", "1GiB", "--json"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"error: {path}: ")


def test_no_path_at_all(capsys: Capture) -> None:
    assert main(["plan"]) == 2
    assert main(["plan", ""]) == 2
    assert "error: " in capsys.readouterr().err


def test_hostile_names_never_reach_the_terminal(tmp_path: Path, capsys: Capture) -> None:
    path = write_model(tmp_path / "odd\x1b[31m\u202e.gguf", "ll\x1b[2Jama\u202e", 1 << 10)
    texts = [run(capsys, path, "--gpu", "name=\x1b[0mcard,free=1GiB")]
    texts += [run(capsys, path, path, "--gpu", "1GiB"), run(capsys, path, "--explain")]
    for text in texts:
        assert not {"\x1b", "\u202e"} & set(text)
    assert run_json(capsys, path)["architecture"] == "ll\x1b[2Jama\u202e"


def test_many_models_are_a_table(tmp_path: Path, model: Path, capsys: Capture) -> None:
    other = write_model(tmp_path / "other.gguf", blocks=2)
    lines = run(capsys, model, other, "--gpu", "24GiB", "--context", 1024).splitlines()
    assert lines[0].split()[:2] == ["Name", "Fits"]
    names = [line.split()[0] for line in lines[1:3]]
    assert [name[-12:] for name in names] == [str(path)[-12:] for path in (model, other)]
    assert max(map(len, names)) <= 60
    assert [line.split()[1] for line in lines[1:3]] == ["Fits", "Fits"]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_the_words_of_a_setting_ask_for_its_value(setting: Setting) -> None:
    """A command that the window shows asks for what the window's fields ask for."""
    values: dict[type, tuple[Any, ...]] = {
        Tokens: (4096,),
        Count: (3, 128),
        Bytes: (GIB,),
        OneOf: getattr(setting.kind, "choices", ()),
        Shares: ((3.0, 1.5),),
        Ratio: (0.9,),
        Switch: (True,) if getattr(setting.kind, "only_on", "") else (True, False),
    }
    for value in values[type(setting.kind)]:
        Settings(**{setting.name: value})
        words = setting.words(value)
        assert words
        given = plan_command.make_context("plan", ["model.gguf", *words]).params
        assert given[setting.name] == value
    assert setting.words(None) == []


def test_one_bad_model_does_not_stop_the_others(
    tmp_path: Path, model: Path, capsys: Capture
) -> None:
    saved = tmp_path / "plans.csv"
    absent = tmp_path / "absent.gguf"
    options = ("--gpu", "1GiB", "--csv", str(saved), *ESTIMATE)
    assert main(["plan", str(absent), str(model), *options]) == 1
    out, err = capsys.readouterr()
    assert model.name in out
    assert err.startswith(f"error: {absent}: does not exist")
    with saved.open(encoding="utf-8", newline="") as file:
        bad, good = csv.DictReader(file)
    assert (bad["model"], bad["total"]) == (str(absent), "")
    assert "does not exist" in bad["error"]
    assert good["error"] == ""
    with open_model(model) as opened:
        own = plan(opened, Settings(), [Device("0", "CUDA", GIB)])
    assert int(good["total"]) == own.total
    assert int(good["kv_cache"]) == own.cache
    assert good["fully_offloaded"] == "true"


def test_every_profile_at_once(model: Path, capsys: Capture) -> None:
    record = run_json(capsys, model, "--gpu", "1GiB", "--profile", "all")
    plans = record["plans"]
    names = ["llama.cpp", "ollama", "ollama-graphsize"]
    assert [one["profile"] for one in plans] == names
    assert {one["path"] for one in plans} == {str(model)}
    assert all(one["layers"] for one in plans)
    own = run_json(capsys, model, "--gpu", "1GiB", "--profile", "ollama-graphsize")
    assert own == {key: plans[2][key] for key in KEYS}


def test_json_of_many_names_those_that_failed(tmp_path: Path, model: Path, capsys: Capture) -> None:
    absent = tmp_path / "absent.gguf"
    text = run(capsys, model, absent, "--gpu", "1GiB", "--json", code=1)
    good, bad = json.loads(text)["plans"]
    assert good["total"] > 0
    assert (bad["path"], bad["error"]["reason"]) == (str(absent), None)
    assert "does not exist" in bad["error"]["what"]


def test_a_question_is_answered_beside_the_plan(model: Path, capsys: Capture) -> None:
    options = ("--context", 1024, "--gpu", "600MiB")
    record = run_json(capsys, model, *options, "--solve", "context")
    solved = record["solved"]
    assert list(solved) == ["what", "value", "limited_by"]
    assert record["effective"]["context"] == 1024
    most = solved["value"]
    assert 1024 < most < 65536
    fits = run_json(capsys, model, "--context", most, "--gpu", "600MiB")
    more = run_json(capsys, model, "--context", most + 1, "--gpu", "600MiB")
    assert (fits["fully_offloaded"], more["fully_offloaded"]) == (True, False)
    text = run(capsys, model, *options, "--solve", "context")
    assert f"Largest context for one request: {most:,}" in text


def test_where_the_plan_is_refused_the_answer_still_stands(model: Path, capsys: Capture) -> None:
    options = ("--gpu", "1GiB", "--num-gpu", 0, "--memory", "8MiB", "--context", 512)
    assert main(["plan", str(model), *map(str, options), *ESTIMATE]) == 1
    record = run_json(capsys, model, *options, "--solve", "fewest-gpu-layers")
    assert record["gpu_layers"] == record["solved"]["value"] > 0


def test_a_projector_is_counted(tmp_path: Path, model: Path, capsys: Capture) -> None:
    projector = GgufFile(
        keys=[("general.architecture", STRING, "clip")],
        tensors=[TensorSpec("v.blk.0.w", (1 << 18,), 0, bytes(1 << 20))],
    ).write(tmp_path / "mmproj.gguf")
    options = (model, "--gpu", "1GiB", "--context", 2048)
    without = run_json(capsys, *options)
    record = run_json(capsys, *options, "--projector", projector)
    assert record["devices"][0]["projector"] == 1 << 20
    assert record["vram_total"] == without["vram_total"] + (1 << 20)
    GgufFile(
        keys=[("general.architecture", STRING, "clip")],
        tensors=[TensorSpec("mm.2.weight", (8, 48), 0, bytes(4 * 8 * 48))],
    ).write(projector)
    assert main(["plan", *map(str, options), "--projector", str(projector)]) == 1
    assert "is made for a model of width 48, and this one has" in capsys.readouterr().err


def test_explain_prints_formulas(model: Path, capsys: Capture) -> None:
    text = run(capsys, model, "--gpu", "1GiB", "--explain")
    assert "kv_cache.per_layer[0] = 2.00 MiB = int(C * (Dk + Dv) * Ki * P)" in text
    assert "llama.attention.head_count_kv" in text


def test_help_has_examples(capsys: Capture) -> None:
    text = run(capsys, "--help")
    assert "Examples:" in text
    assert "gguf-explorer plan model.gguf --context 32k" in text
    assert main(["--help"]) == 0
    assert "gguf-explorer plan " in capsys.readouterr().out


def test_a_plan_reads_headers_only(tmp_path: Path, model: Path, capsys: Capture) -> None:
    """A file without its weights plans as the whole one does, for nothing of them is read."""
    with open_model(model) as opened:
        start = opened.data_offset
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(model.read_bytes()[:start])
    whole, headers = (run_json(capsys, path, "--gpu", "1GiB") for path in (model, cut))
    assert headers["layers"] == whole["layers"]
    assert headers["devices"] == whole["devices"]


@given(st.lists(st.integers(0, 1 << 60), min_size=1, max_size=8), st.integers(1, 200))
def test_a_bar_is_filled_by_parts_as_long_as_their_shares(sizes: list[int], width: int) -> None:
    lengths, total = bar_lengths(sizes, width), sum(sizes)
    assert sum(lengths) == (width if total else 0)
    for length, size in zip(lengths, sizes, strict=True):
        # a character given to a small part, so that it is seen, is missing in a large one
        assert (length > 0) == (size > 0) or (length == 0 and width < len(sizes))
        assert abs(length - (size * width / total if total else 0)) <= len(sizes)


LOG = """\
load_tensors: offloaded 5/5 layers to GPU
load_tensors:        CUDA0 model buffer size =    16.00 MiB
llama_context: n_seq_max             = 1
llama_context: n_ctx                 = 4096
llama_context: n_ubatch              = 512
llama_kv_cache:      CUDA0 KV buffer size =     8.00 MiB
sched_reserve:      CUDA0 compute buffer size =    10.00 MiB
       eval time =     165.10 ms /     4 tokens (   55.03 ms per token,    18.17 tokens per second)
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text(LOG, encoding="utf-8")
    return path


def test_a_damaged_model_that_would_fit_has_the_colour_of_a_warning(
    model: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    model.write_bytes(model.read_bytes()[:-64])
    assert main(["plan", str(model), "--gpu", "8GiB"]) == 0
    assert "\x1b[33mDamaged. Planned from its header. Fits: " in capsys.readouterr().out


def test_notes_leave_names_of_settings_and_programs_as_they_are(
    model: Path, capsys: Capture
) -> None:
    asked = ("--kv-cache-type", "q4_0", "--no-flash-attention", "--profile", "ollama-graphsize")
    assert main(["plan", str(model), "--gpu", "8GiB", *asked]) == 0
    assert "\n  kv_cache_type is f16 instead of q4_0: " in capsys.readouterr().out


def test_a_log_is_shown_beside_the_plan(model: Path, log: Path, capsys: Capture) -> None:
    assert main(["plan", str(model), "--log", str(log)]) == 0
    text = capsys.readouterr().out
    assert "Measured beside planned" in text
    assert re.search(r"GPU 0: KV cache and state +8.00 MiB +8.00 MiB +none", text)
    assert "Measured: 18.17 tokens/s" in text


def test_a_log_on_standard_input_as_json(
    model: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LOG.encode())))
    assert main(["plan", str(model), "--log", "-", "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)["measured"]
    assert measured["file"] == "-"
    assert measured["tokens_per_second"] == 18.17
    assert measured["buffers"]["GPU0"] == {
        "weights": 16 * MIB,
        "cache": 8 * MIB,
        "compute": 10 * MIB,
    }
    cache = next(one for one in measured["residuals"] if one["what"] == "GPU0 cache")
    assert cache == {"what": "GPU0 cache", "planned": 8 * MIB, "measured": 8 * MIB, "difference": 0}


def test_a_log_without_memory_says_which_option_to_add(
    model: Path, log: Path, capsys: Capture
) -> None:
    log.write_text("verbosity = 3 (adjust with the `-lv N` CLI arg)", encoding="utf-8")
    assert main(["plan", str(model), "--log", str(log)]) == 1
    assert "-lv 4" in capsys.readouterr().err


def test_files_are_planned_as_llama_cpp_allocates(model: Path, capsys: Capture) -> None:
    record = run_json(capsys, model, "--profile", "llama.cpp", "--gpu", "8GiB")
    assert main(["plan", str(model), "--gpu", "8GiB", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == record  # the default of files
    assert record["profile"] == "llama.cpp"
    assert list(record)[: len(KEYS)] == KEYS
    found = record["llama_cpp"]
    assert (found["n_ctx"], found["decided_by"]) == (65536, "fit")
    held = found["buffers"]["GPU0"]
    sizes = [held["weights"], held["cache"], held["compute"] or held["compute_high"] or 0]
    assert record["devices"][0]["total"] == sum(sizes) == record["vram_total"]
    assert held["reserve"] == 703 * MIB


def test_every_option_of_llama_cpp_has_its_effect(model: Path, capsys: Capture) -> None:
    options = (
        *("--context", 8192, "--parallel", 2, "--kv-unified", "--batch", 1024, "--ubatch", 256),
        *("--cache-type-k", "q8_0", "--cache-type-v", "q4_0", "--gpu-layers", 3),
        *("--tensor-split", "3,1", "--cpu-moe", "all", "--no-kv-offload", "--swa-full"),
        *("--reserve", "256MiB", "--margin", "2GiB"),
    )
    two = ("--gpu", "1GiB", "--gpu", "2GiB", "--profile", "llama.cpp")
    found = run_json(capsys, model, *two, *options)["llama_cpp"]
    assert (found["decided_by"], found["gpu_layers"]) == ("you", 3)
    assert found["tensor_split"] == [3, 1]
    assert found["cpu_moe_layers"] == 4
    assert found["buffers"]["GPU1"]["reserve"] == 256 * MIB
    assert found["buffers"]["CPU"]["cache"] > 0
    words = " ".join(found["arguments"])
    for part in (
        "--ctx-size 8192 --parallel 2 --kv-unified --batch-size 1024 --ubatch-size 256",
        "--cache-type-k q8_0 --cache-type-v q4_0",
        "--n-gpu-layers 3 --tensor-split 3,0 --cpu-moe --no-kv-offload --swa-full",
    ):
        assert part in words
    one = run_json(capsys, model, *two, "--split-mode", "none", "--context", 4096)["llama_cpp"]
    assert "GPU1" not in one["buffers"]


def test_a_refusal_of_llama_cpp_is_one_error(model: Path, capsys: Capture) -> None:
    options = ("--cache-type-v", "q8_0", "--no-flash-attention", "--profile", "llama.cpp")
    assert main(["plan", str(model), *options, "--gpu", "1GiB"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"error: {model}: without flash attention values cannot be quantized"
    ]


def test_profiles_side_by_side_say_why_they_differ(model: Path, capsys: Capture) -> None:
    lines = run(capsys, model, "--gpu", "1GiB", "--profile", "all").splitlines()
    assert lines[0] == str(model)
    heads = ("Program", "Fits", "In all", "Weights", "KV cache", "Compute", "On GPUs", "Context")
    assert [head for head in heads if head in lines[1]] == list(heads)
    titles = ("llama.cpp", "Ollama 0.30 and later", "Ollama up to 0.13")
    for title, line in zip(titles, lines[2:5], strict=True):
        assert line.strip().startswith(title)
    assert lines[6].strip().startswith("llama.cpp allocates what its graph needs")


def test_a_plan_in_words_names_the_reserve(model: Path, capsys: Capture) -> None:
    text = run(capsys, model, "--profile", "llama.cpp", "--gpu", "8GiB", "--reserve", "300MiB")
    assert "300 MiB of each GPU is kept for the driver and other programs" in text
    assert "llama.cpp chooses 65,536 tokens, 5 of 5 layers on GPUs" in text
    assert "Arguments of llama-server\n  --ctx-size 65536 --parallel 1 --no-kv-unified" in text


@pytest.mark.parametrize("what", ["context", "parallel", "kv-cache-type", "gpu-layers"])
@pytest.mark.parametrize("profile", ["llama.cpp", "ollama"])
def test_llama_cpp_s_answers_hold(model: Path, capsys: Capture, what: str, profile: str) -> None:
    options = ("--profile", profile, "--gpu", "560MiB", "--reserve", "500MiB", "--context", 8192)
    found = run_json(capsys, model, *options, "--solve", what)["solved"]
    assert found["what"] == what
    assert found["limited_by"]
    option = {"gpu-layers": "--gpu-layers"}.get(what, f"--{what}")
    asked = (*options, "--gpu-layers", "all") if what != "gpu-layers" else options
    if isinstance(found["value"], int):
        step = 256 if what == "context" else 1
        for value, fits in ((found["value"], True), (found["value"] + step, False)):
            record = run_json(capsys, model, *asked, option, value)
            held = record["devices"][0]
            short = held["total"] + held["reserved"] > held["free"]
            at_its_end = value > {"gpu-layers": 5, "parallel": 256}.get(what, 65536)
            assert short is not fits or at_its_end


def test_a_log_s_settings_make_the_plan_but_for_what_was_given(
    model: Path, log: Path, capsys: Capture
) -> None:
    command = (model, "--gpu", "RTX 4070", "--log", log, "--profile", "llama.cpp")
    assert run_json(capsys, *command)["llama_cpp"]["n_ctx"] == 4096
    assert run_json(capsys, *command, "--context", 8192)["llama_cpp"]["n_ctx"] == 8192


def test_the_bound_of_speed_is_bytes_by_bandwidth(model: Path, capsys: Capture) -> None:
    command = (model, "--gpu", "RTX 4070", "--context", 4096)
    own = (*command, "--profile", "llama.cpp")
    record = run_json(capsys, *own)
    bound = record["speed_bound"]
    assert record["measured"] is None
    (device,) = bound["bandwidth"]
    assert device["bytes_per_second"] == 504 * 10**9
    assert bound["tokens_per_second"] == pytest.approx(504 * 10**9 / bound["bytes_per_token"])
    assert bound["empty"]["bytes_per_token"] < bound["bytes_per_token"]
    half = run_json(capsys, *own, "--bandwidth", "GPU0=252GB")["speed_bound"]
    assert half["tokens_per_second"] == pytest.approx(bound["tokens_per_second"] / 2)
    assert half["bandwidth"][0]["from"] == "you"
    text = run(capsys, model, "--gpu", "4GiB", "--profile", "llama.cpp")
    assert "Speed unknown: the bandwidth of CUDA 0" in text
    assert "speed_bound" not in run_json(capsys, *command)


def test_a_plan_without_a_speed_is_a_plan(tmp_path: Path, capsys: Capture) -> None:
    config = {"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 64, "vocab_size": 32}
    config |= {"num_attention_heads": 4, "num_experts": "some"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    write_tensors(tmp_path / "model.safetensors", ("model.embed_tokens.weight", "BF16", [32, 64]))
    own = tmp_path, "--profile", "transformers", "--gpu", "RTX 4070"
    assert "speed_bound" not in run_json(capsys, *own)
    assert "Speed unknown: config.json num_experts is the text 'some'" in run(capsys, *own)


def test_a_model_that_llama_cpp_does_not_load_is_refused(tmp_path: Path, capsys: Capture) -> None:
    path = write_model(tmp_path / "m.gguf", "zzz", 1 << 10)
    assert main(["plan", str(path), "--profile", "llama.cpp", "--json"]) == 1
    out, err = capsys.readouterr()
    assert "'zzz'" in json.loads(out)["refused"]
    assert err.count("\n") == 1


def test_what_another_model_takes_is_no_longer_free(
    model: Path, tmp_path: Path, capsys: Capture
) -> None:
    other = write_model(tmp_path / "other.gguf", blocks=2)
    here = ("--gpu", "4GiB", "--memory", "8GiB", "--profile", "llama.cpp")
    alone, beside = (
        run_json(capsys, model, "--context", 512, *here, *also) for also in ((), ("--also", other))
    )
    (taken,) = beside["also"]
    assert taken["model"] == "other.gguf"
    free = alone["devices"][0]["free"] - taken["devices"][0]
    assert beside["devices"][0]["free"] == free < alone["devices"][0]["free"]
    assert "also" not in alone
    assert "lso loaded: other.gguf takes" in run(capsys, model, *here, "--also", other)


def test_a_plan_names_the_build_that_it_follows(model: Path, capsys: Capture) -> None:
    here = ("--gpu", "4GiB", "--profile", "llama.cpp")
    assert "llama.cpp, as of build 11434" in run(capsys, model, *here)
    old = run(capsys, model, *here, "--build", 10000)
    assert "by the rules of build 10000" in old
    assert "Build 10000 is older than 11401" in old
    assert "16-bit copies" not in old, "those are Metal's"


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script with a first line")
def test_the_users_own_llama_cpp_says_which_build_it_is(
    model: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    own = ("plan", str(model), "--gpu", "4GiB", "--profile", "llama.cpp", "--build", "own")
    assert main(own) == 1
    assert "no llama-server and no llama-fit-params is on the PATH" in capsys.readouterr().err
    server = tmp_path / "llama-server"
    server.write_text("#!/bin/sh\necho 'version: 9100 (1a2b3c4)'\n")
    server.chmod(0o700)
    assert "by the rules of build 9100" in run(capsys, model, *own[2:])
