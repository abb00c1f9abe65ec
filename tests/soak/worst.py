r"""The worst legal files: what opening and looking at them costs, in a table.

    python -m tests.soak.worst
    python -m tests.soak.worst --files gguf-keys,json-config --actions open,report --best-of 1

Each file is at most 50 MB and as expensive as its format allows. Each action runs in a process of
its own, after it ran once on a small model, so that imports and kernels are not measured. Times are
those of the processor, the best of three; memory is the most over the idle program. A file that
costs more than `MAX_SECONDS` or `MAX_BYTES` of `tests/helpers/limits.py` to open is a finding.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from explorer.cli.main import main as command_line
from explorer.errors import ExplorerError
from explorer.formats import open_model
from tests.helpers.gguf_writer import (
    ARRAY,
    F32,
    STRING,
    U8,
    U32,
    Array,
    GgufFile,
    Raw,
    TensorSpec,
    small_model,
)
from tests.helpers.limits import MAX_BYTES, MAX_SECONDS
from tests.helpers.memory import most_memory
from tests.helpers.ollama_store import OllamaStore
from tests.helpers.safetensors_writer import safetensors_bytes, tensors_bytes

MOST_BYTES: Final = 50_000_000
ACTIONS: Final = ("open", "check", "inspect", "report", "survey")
SECONDS: Final = 60  # of the processor; an action that takes longer is ended

Build = Callable[[Path], Path]


def _gguf(make: Callable[[], GgufFile]) -> Build:
    return lambda folder: make().write(folder / "worst.gguf")


def _keys(count: int, kind: int, value: Any, name: str = "key.number.{}") -> GgufFile:
    return GgufFile(keys=[(name.format(i), kind, value) for i in range(count)])


_FILE = GgufFile()  # packs numbers
_MOST_KEYS = 65_536
_MOST_TENSORS = 131_072


def _array(kind: int, count: int, content: bytes) -> Raw:
    return Raw(_FILE.number("I", kind) + _FILE.count(count) + content)


def _strings(count: int, *texts: str) -> Raw:
    return _array(STRING, count, b"".join(map(_FILE.string, texts)) * (count // len(texts)))


def _vocabulary(count: int) -> GgufFile:
    tokens = b"".join(_FILE.string(f"t{number:06}") for number in range(count))
    return GgufFile(
        keys=[
            ("general.architecture", STRING, "llama"),
            ("tokenizer.ggml.model", STRING, "gpt2"),
            ("tokenizer.ggml.tokens", ARRAY, _array(STRING, count, tokens)),
            ("tokenizer.ggml.scores", ARRAY, _array(F32, count, bytes(4 * count))),
            ("tokenizer.ggml.token_type", ARRAY, _array(U32, count, bytes(4 * count))),
        ]
    )


def _nested(keys: int, arrays: int) -> GgufFile:
    """Arrays of empty arrays."""
    inner = (_FILE.number("I", U8) + _FILE.count(0)) * arrays
    return _keys(keys, ARRAY, _array(ARRAY, arrays, inner))


def _deep(keys: int, depth: int) -> GgufFile:
    """One array in another, as deep as allowed."""
    inner = (_FILE.number("I", ARRAY) + _FILE.count(1)) * (depth - 2)
    return _keys(keys, ARRAY, _array(ARRAY, 1, inner + _FILE.number("I", U8) + _FILE.count(0)))


def _tensors(
    count: int, name: str, dims: Callable[[int], tuple[int, ...]], kinds: tuple[int, ...] = (0,)
) -> GgufFile:
    """Tensors without bytes, or beyond the file's end."""
    return GgufFile(
        keys=[("general.architecture", STRING, "llama")],
        tensors=[
            TensorSpec(name.format(i), dims(i), kinds[i % len(kinds)], b"", 0) for i in range(count)
        ],
        tail=bytes(64),
    )


def _of_one(_: int) -> tuple[int, ...]:
    return (0,)


def _different(i: int) -> tuple[int, ...]:
    return (32 * (i % 1000), i // 1000 + 1, i % 7 + 1, 1)


def _long(name: str, size: int) -> str:
    return "{}." + (name * size)[:size]


_GGUF: Mapping[str, Build] = {
    "65,536 keys": _gguf(partial(_keys, _MOST_KEYS, U8, 1)),
    "65,536 keys, texts of 700 bytes": _gguf(partial(_keys, _MOST_KEYS, STRING, "t" * 700)),
    "12,000 keys, texts of 4,096 bytes": _gguf(partial(_keys, 12_000, STRING, "t" * 4096)),
    "65,536 times one key": _gguf(partial(_keys, _MOST_KEYS, U8, 1, "same")),
    "500 keys of 65,000 letters": _gguf(partial(_keys, 500, U8, 1, _long("k", 64_990))),
    "500 keys of 32,000 parts": _gguf(partial(_keys, 500, U8, 1, _long("k.", 64_990))),
    "65,536 arrays of 3 texts": _gguf(
        partial(_keys, _MOST_KEYS, ARRAY, Array(STRING, ["a", "", "b"]))
    ),
    "65,536 arrays of 700 numbers": _gguf(
        partial(_keys, _MOST_KEYS, ARRAY, _array(U8, 700, bytes(700)))
    ),
    "65,536 arrays of 80 empty texts": _gguf(lambda: _keys(_MOST_KEYS, ARRAY, _strings(80, ""))),
    "40 arrays of 150,000 empty texts": _gguf(lambda: _keys(40, ARRAY, _strings(150_000, ""))),
    "6,000,000 empty texts": _gguf(lambda: _keys(1, ARRAY, _strings(6_000_000, ""))),
    "5,500,000 texts, every second empty": _gguf(
        lambda: _keys(1, ARRAY, _strings(5_500_000, "", "a"))
    ),
    "170,000 texts of 280 letters": _gguf(lambda: _keys(1, ARRAY, _strings(165_000, "t" * 280))),
    "50,000 arrays in one": _gguf(partial(_nested, 1, 50_000)),
    "40 keys of 1,250 arrays": _gguf(partial(_nested, 40, 1_250)),
    "40 keys of 90,000 arrays": _gguf(partial(_nested, 40, 90_000)),
    "3,300 arrays, 15 deep": _gguf(partial(_deep, 3_300, 15)),
    "2,000,000 tokens": _gguf(partial(_vocabulary, 2_000_000)),
    "a text of 49 MB": _gguf(
        lambda: GgufFile(keys=[("tokenizer.chat_template", STRING, "{{ x }}" * 7_000_000)])
    ),
    "131,072 empty tensors": _gguf(partial(_tensors, _MOST_TENSORS, "t{}", _of_one)),
    "90,000 empty tensors": _gguf(partial(_tensors, 90_000, "blk.{}.weight", _of_one)),
    "131,072 layers of 4 dimensions": _gguf(
        partial(_tensors, _MOST_TENSORS, "blk.{}.ffn_up.weight", _different, (0, 1, 2, 12, 30))
    ),
    "131,072 tensors of unknown types": _gguf(
        partial(_tensors, _MOST_TENSORS, "t{}", _different, tuple(range(1000, 1257)))
    ),
    "131,072 tensors of one name": _gguf(partial(_tensors, _MOST_TENSORS, "same", _different)),
    "131,072 names of 240 bytes": _gguf(partial(_tensors, _MOST_TENSORS, _long("n", 233), _of_one)),
    "131,072 names of 120 parts": _gguf(
        partial(_tensors, _MOST_TENSORS, _long("n.", 233), _of_one)
    ),
    "500 names of 32,000 parts": _gguf(partial(_tensors, 500, _long("n.", 64_990), _of_one)),
    "131,072 experts": _gguf(
        partial(_tensors, _MOST_TENSORS, "blk.0.ffn_up.{}.weight", _different)
    ),
}


def _safetensors(header: Callable[[], object]) -> Build:
    def build(folder: Path) -> Path:
        path = folder / "worst.safetensors"
        path.write_bytes(safetensors_bytes(header()))
        return path

    return build


def _entries(count: int, name: str, shape: str = "[0]", rest: str = "") -> str:
    return (
        "{"
        + ",".join(
            f'"{name.format(i)}":{{"dtype":"F32","shape":{shape.format(i)},'
            f'"data_offsets":[0,0]{rest}}}'
            for i in range(count)
        )
        + "}"
    )


def _grouped(count: int) -> str:
    """Weights whose scales and biases are tensors of their own."""
    parts = [
        (f"layers.{i}.q.{part}", dtype, shape)
        for i in range(count)
        for part, dtype, shape in (
            ("weight", "U32", "[0,8]"),
            ("scales", "F16", "[0,1]"),
            ("biases", "F16", "[0,1]"),
        )
    ]
    return (
        "{"
        + ",".join(
            f'"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[0,0]}}'
            for name, dtype, shape in parts
        )
        + "}"
    )


_SAFETENSORS: Mapping[str, Build] = {
    "90,000 empty tensors": _safetensors(partial(_entries, 90_000, "blk.{}.weight")),
    "100,000 empty tensors": _safetensors(partial(_entries, 100_000, "t{}")),
    "100,000 tensors of 100 dimensions": _safetensors(
        partial(_entries, 80_000, "t{}", "[0" + ",1" * 99 + "]")
    ),
    "100,000 tensors, each shape another": _safetensors(
        partial(_entries, 100_000, "t{}", "[0,{}]")
    ),
    "one tensor of 400,000 dimensions": _safetensors(
        partial(_entries, 1, "t{}", "[0" + ",1" * 400_000 + "]")
    ),
    "100,000 times one name": _safetensors(partial(_entries, 100_000, "same")),
    "100,000 names of 150 parts": _safetensors(partial(_entries, 70_000, _long("n.", 280))),
    "names of escapes": _safetensors(
        lambda: _entries(20_000, "{}" + r"\u0041" * 180).replace(": ", ":")
    ),
    "entries with 4 more fields": _safetensors(
        partial(_entries, 65_000, "t{}", "[0]", ',"a":1,"b":[],"c":{{}},"d":true')
    ),
    "33,333 groups of weight, scales, biases": _safetensors(partial(_grouped, 33_333)),
    "metadata of 40,000 texts": _safetensors(
        lambda: {"__metadata__": {f"key {i}": "t" * 400 for i in range(40_000)}}
    ),
    "metadata of 150,000 texts": _safetensors(
        lambda: {"__metadata__": {f"key {i}": "" for i in range(150_000)}}
    ),
    "metadata of 20 MB in one text": _safetensors(
        lambda: {"__metadata__": {"k": "t" * 20_000_000}}
    ),
    "numbers of 4,000 digits": _safetensors(
        lambda: _entries(1, "t")[:-2] + ',"x":[' + ",".join(["9" * 4000] * 5_000) + "]}}"
    ),
    "50 MB of white space": _safetensors(lambda: b"{}" + b" " * 49_000_000),
    "8,000,000 empty lists": _safetensors(lambda: '{"a":{"x":[' + "[]," * 8_000_000 + "[]]}}"),
    "99,000 empty lists": _safetensors(lambda: '{"a":{"x":[' + "[]," * 99_000 + "[]]}}"),
    "390,000 numbers": _safetensors(lambda: '{"a":{"x":[' + "1234," * 390_000 + "1]}}"),
    "99,000 texts": _safetensors(lambda: '{"a":{"x":[' + '"ab",' * 99_000 + "1]}}"),
    "99,000 keys": _safetensors(
        lambda: '{"a":{"x":{' + ",".join(f'"{i}":{i}' for i in range(99_000)) + "}}}"
    ),
    "250,000 keys of one entry": _safetensors(
        lambda: (
            '{"a":{'
            + ",".join(f'"dtype":0,"{i}a":0,"{i}b":0,"{i}c":0,"{i}d":0' for i in range(50_000))
            + "}}"
        )
    ),
    "brackets": _safetensors(lambda: "[" * 20_000_000),
    "objects": _safetensors(lambda: '{"a":' * 100_000),
    "quotes": _safetensors(lambda: '"' * 20_000_000),
    "beginnings": _safetensors(
        lambda: '{"a":{"dtype":' + ',"":{"dtype":' * 99_000 + "1" * 20_000_000
    ),
    "sorted beginnings": _safetensors(
        lambda: '{"a":{"data_offsets":[0,1' + ',"":{"data_offsets":[0,1' * 99_000 + "}"
    ),
    "one long name": _safetensors(lambda: '{"' + "x" * 24_000_000 + '":1}'),
    "long text": _safetensors(lambda: "x" * 49_000_000),
    "emoji": _safetensors(lambda: '{"__metadata__":{"x":"' + "x" * 20_000_000 + '\U0001f600"}}'),
    "backslashes": _safetensors(lambda: '{"' + "\\\\" * 10_000_000 + '":1}'),
}


def _beside(name: str, content: Callable[[], object]) -> Build:
    """A folder with a small model and one JSON file."""

    def build(folder: Path) -> Path:
        (folder / "model.safetensors").write_bytes(tensors_bytes([("a", "F32", [2, 3])]))
        value = content()
        text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        (folder / name).write_text(text)
        return folder

    return build


_INDEX = "model.safetensors.index.json"
_JSON: Mapping[str, Build] = {
    "config: 290,000 fields": _beside("config.json", lambda: {str(i): i for i in range(290_000)}),
    "config: 74,000 objects": _beside("config.json", lambda: [{} for _ in range(74_000)]),
    "config: a list of 299,000 numbers": _beside(
        "config.json", lambda: {"a": list(range(299_000))}
    ),
    "config: a list of 74,000 lists": _beside("config.json", lambda: {"a": [[1]] * 74_000}),
    "config: 4,000 fields of lists": _beside(
        "config.json", lambda: {str(i): [i] * 95 for i in range(4_000)}
    ),
    "config: 1,000,000 small members": _beside(
        "config.json", lambda: {"a": {str(i): 0 for i in range(1_000_000)}}
    ),
    "config: texts of 23 MB": _beside(
        "config.json", lambda: {str(i): "t" * 6_000 for i in range(3_800)}
    ),
    "config: 120 deep, 3,000 times": _beside(
        "config.json", lambda: '{"a":[' + ",".join(["[" * 30 + "]" * 30] * 3_000) + "]}"
    ),
    "config: 4,000 fields below 120 keys of 100,000 letters": _beside(
        "config.json",
        lambda: (
            "".join(f'{{"{"k" * 100_000}":' for _ in range(120))
            + json.dumps({str(i): i for i in range(4_000)})
            + "}" * 120
        ),
    ),
    "config: numbers of 4,000 digits": _beside(
        "config.json", lambda: '{"a":[' + ",".join(["9" * 4_000] * 5_800) + "]}"
    ),
    "config: one key 290,000 times": _beside(
        "config.json", lambda: "{" + ",".join(['"a":1'] * 290_000) + "}"
    ),
    "index: 290,000 tensors of one shard": _beside(
        _INDEX, lambda: {"weight_map": {f"t{i}": "model.safetensors" for i in range(290_000)}}
    ),
    "index: 290,000 tensors of 1,000 shards": _beside(
        _INDEX,
        lambda: {
            "weight_map": {f"t{i}": f"{i % 1_000}.safetensors" for i in range(290_000)}
            | {"a": "model.safetensors"}
        },
    ),
    "index: 290,000 shards": _beside(
        _INDEX, lambda: {"weight_map": {f"t{i}": f"{i}.safetensors" for i in range(290_000)}}
    ),
    "index: 1,000 names of 20,000 parts": _beside(
        _INDEX,
        lambda: {
            "weight_map": {f"t{i}": f"{i}/" + "a/" * 10_000 for i in range(999)}
            | {"a": "model.safetensors"}
        },
    ),
}


def _manifest(layers: Callable[[OllamaStore], object]) -> Build:
    def build(folder: Path) -> Path:
        store = OllamaStore(folder / "models")
        return store.manifest(layers(store), config={"model_format": "gguf"})

    return build


def _with_model(store: OllamaStore, *layers: dict[str, Any]) -> list[dict[str, Any]]:
    return [store.layer("model", small_model().build()), *layers]


def _layers_of_one_text(store: OllamaStore) -> list[dict[str, Any]]:
    return _with_model(store) + [store.layer("license", "MIT")] * 65_000


def _tensor_layers(store: OllamaStore) -> list[dict[str, Any]]:
    one = store.tensor("t", [("t", "F32", [2])])
    return [{**one, "name": f"blk.{i}.weight"} for i in range(65_000)]


def _params_again(store: OllamaStore) -> list[dict[str, Any]]:
    params = json.dumps({str(i): 1 for i in range(4_000)})
    return _with_model(store) + [store.layer("params", params)] * 500


def _big_params(store: OllamaStore) -> list[dict[str, Any]]:
    return _with_model(store, store.layer("params", json.dumps({"stop": ["a"] * 290_000})))


def _many_messages(store: OllamaStore) -> list[dict[str, Any]]:
    talk = [{"role": "user", "content": "a"}] * 90_000
    return _with_model(store, store.layer("messages", json.dumps(talk)))


def _bad_layers(_: OllamaStore) -> list[dict[str, Any]]:
    return [
        {
            "mediaType": "application/vnd.ollama.image.tensor",
            "digest": f"sha256:{i:064x}",
            "size": 1,
            "name": f"t{i}",
        }
        for i in range(65_000)
    ]


_OLLAMA: Mapping[str, Build] = {
    "65,000 layers of one text": _manifest(_layers_of_one_text),
    "65,000 layers of one tensor": _manifest(_tensor_layers),
    "65,000 layers that are missing": _manifest(_bad_layers),
    "500 layers of 4,000 params": _manifest(_params_again),
    "params of 290,000 texts": _manifest(_big_params),
    "90,000 messages": _manifest(_many_messages),
}


def _imatrix(count: int) -> GgufFile:
    keys = [("general.type", STRING, "imatrix"), ("imatrix.chunk_count", U32, 1)]
    return GgufFile(
        keys=[*keys, ("imatrix.datasets", ARRAY, _strings(1, "a"))],
        tensors=[
            TensorSpec(f"blk.{i}.weight.{part}", (0,), 0, b"", 0)
            for i in range(count)
            for part in ("in_sum2", "counts")
        ],
        tail=bytes(64),
    )


def _adapter(count: int) -> GgufFile:
    keys = [("general.type", STRING, "adapter"), ("adapter.type", STRING, "lora")]
    return GgufFile(
        keys=keys,
        tensors=[
            TensorSpec(f"blk.{i}.attn_q.weight.lora_{part}", (0,), 0, b"", 0)
            for i in range(count)
            for part in "ab"
        ],
        tail=bytes(64),
    )


_OTHERS: Mapping[str, Build] = {
    "importance matrix of 65,536 tensors": _gguf(partial(_imatrix, 65_536)),
    "adapter of 65,536 tensors": _gguf(partial(_adapter, 65_536)),
}

FILES: Mapping[str, Build] = {
    f"{kind}: {name}": build
    for kind, files in (
        ("gguf", _GGUF),
        ("safetensors", _SAFETENSORS),
        ("json", _JSON),
        ("ollama", _OLLAMA),
        ("other", _OTHERS),
    )
    for name, build in files.items()
}


@dataclass(frozen=True)
class Cost:
    """What an action took: seconds of the processor, bytes over the idle program, how it ended."""

    seconds: float
    nbytes: int
    said: str


_CLEAN: Final = multiprocessing.get_context("forkserver")
_CLEAN.set_forkserver_preload(["explorer.cli.main", "explorer.formats", __name__])


def measure(  # noqa: PLR0917 - the first four are places
    action: str,
    path: Path,
    harmless: Path,
    cache: Path,
    best_of: int = 3,
    enough: tuple[float, int] = (0, 0),
) -> Cost:
    """Measure an action on a file, in processes of their own.

    The best of some runs, or the first that takes no more seconds and bytes than are `enough`.
    """
    costs = []
    for _ in range(best_of):
        here, there = _CLEAN.Pipe(duplex=False)
        process = _CLEAN.Process(target=_measured, args=(there, action, path, harmless, cache))
        process.start()
        there.close()
        try:
            costs.append(here.recv())
        except EOFError:
            process.join()
            return Cost(float("inf"), 0, f"ended with {process.exitcode}")
        process.join()
        if costs[-1].seconds <= enough[0] and costs[-1].nbytes <= enough[1]:
            break
    return Cost(
        min(cost.seconds for cost in costs), min(cost.nbytes for cost in costs), costs[0].said
    )


def _measured(told: Connection, action: str, path: Path, harmless: Path, cache: Path) -> None:
    """Measure in this process, which does nothing else."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    os.environ["GGUF_EXPLORER_CACHE"] = str(cache)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    report = str(cache / "out.html")
    _act(action, harmless, report)  # imports and first uses
    said: list[str] = []
    started = time.process_time()
    nbytes = most_memory(lambda: said.append(_act(action, path, report)))
    told.send(Cost(time.process_time() - started, nbytes, *said))


def _act(action: str, path: Path, report: str) -> str:
    if action == "open":
        try:
            with open_model(path) as model:
                return f"opens, {len(model.problems)} problems"
        except ExplorerError as error:
            return error.without_path
    to = ["-o", report] if action == "report" else []
    return f"exit code {command_line([action, str(path), *to])}"


def file_bytes(path: Path) -> int:
    """Return the bytes of a file, or of all below a folder."""
    if path.is_dir():
        return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    return path.stat().st_size


def main() -> int:
    """Print the table; the exit code is 1 if a file costs too much to open."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--files", default="", help="words of names; all files")
    parser.add_argument("--actions", default=",".join(ACTIONS))
    parser.add_argument("--best-of", type=int, default=3)
    given = parser.parse_args()
    actions, words = given.actions.split(","), given.files.split(";")
    dear = 0
    heads = [f"{action}: s | MiB" for action in actions]
    _say("| file | MB | " + " | ".join(heads) + " | |")
    _say("|---|--:|" + "--:|--:|" * len(actions) + "---|")
    with tempfile.TemporaryDirectory() as base:
        harmless = small_model().write(Path(base) / "small.gguf")
        for name, build in FILES.items():
            if not any(word in name for word in words):
                continue
            with tempfile.TemporaryDirectory(dir=base) as folder:
                path = build(Path(folder))
                size = file_bytes(path)
                assert size <= MOST_BYTES, (name, size)
                costs = [
                    measure(action, path, harmless, Path(base), given.best_of) for action in actions
                ]
            cells = [f"{cost.seconds:.2f} | {cost.nbytes / 2**20:.0f}" for cost in costs]
            _say(
                f"| {name} | {size / 1e6:.1f} | " + " | ".join(cells) + f" | {costs[0].said:.80} |"
            )
            opening = [
                cost for cost, action in zip(costs, actions, strict=True) if action == "open"
            ]
            dear += any(c.seconds > MAX_SECONDS or c.nbytes > MAX_BYTES for c in opening)
    return 1 if dear else 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
