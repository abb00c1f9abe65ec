"""Models whose every text is an attack: on a display, a terminal, a spreadsheet, a path."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.helpers.gguf_writer import ARRAY, F32, I32, STRING, U32, Array, GgufFile, TensorSpec
from tests.helpers.ollama_store import OllamaStore
from tests.helpers.safetensors_writer import entry, safetensors_bytes

HOSTILE = (
    "<b>bold</b><img src=x>",
    "%n %1 {0} {name}",
    "turned \u202e round",
    "=cmd|' /C calc'!A0",
    "line\nbreak\ttab",
    "esc \x1b[31m",
    "&amp; &x",
    "n" * 60_000,
)
"""Some attacks, one of each kind that a display knows."""

ATTACKS = (
    *HOSTILE,
    "<script>alert(1)</script></td></style>",
    "<a href='file:///etc/passwd'>bold</a>",
    "%s%n%d %(name)s {0.__class__.__mro__} {",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "+1+1",
    "\uff1d1+1",
    "iso\u2066lated \u2069 \u200bwidth \ufeff",
    "title \x1b]0;owned\x07 \x9b31m \x08\x08",
    "nul \0 behind",
    "carriage\rreturn\u2028line\u2029paragraph",
    "../../../../etc/passwd",
    "/etc/passwd",
    "C:\\Windows\\System32\\CON",
    "$(touch owned) `touch owned`; touch owned | touch owned",
    "-o owned --help",
    "javascript:alert(1)",
    "\U000e0041\U000e0042 tags",
    "file:///etc/passwd",
)

LONG_TEXT = "<b>bold</b>\x1b[31m\u202e" * 500_000
"""Ten megabytes of it."""

LAYERS = 2


@dataclass(frozen=True)
class HostileModels:
    """Where they are.

    Attributes:
        folder: The folder that holds all of them; nothing else.
        gguf: A file of an architecture that nobody knows.
        llama: One that can be planned, with tensors of all attacks.
        safetensors: A folder with an index and a config.
        store: An Ollama store.
        manifest: A model of it.
    """

    folder: Path
    gguf: Path
    llama: Path
    safetensors: Path
    store: Path
    manifest: Path

    @property
    def all(self) -> tuple[Path, ...]:
        """Everything that opens as a model."""
        return (self.gguf, self.llama, self.safetensors, self.manifest)


def write_hostile_models(folder: Path) -> HostileModels:
    """Write them into a folder that does not exist yet."""
    folder.mkdir(parents=True)
    store = OllamaStore(folder / "store")
    return HostileModels(
        folder=folder,
        gguf=_odd_file().write(folder / "<b>%n {0} \u202e.gguf"),
        llama=_llama_file().write(folder / "=cmd|' {0} <img src=x> \x1b[31m.gguf"),
        safetensors=_write_safetensors(folder / "<b>%n & &x {0} \u202e\nfolder"),
        store=store.models,
        manifest=_write_manifest(store),
    )


def _odd_file() -> GgufFile:
    return GgufFile(
        keys=[
            ("general.architecture", STRING, HOSTILE[0]),
            ("general.name", STRING, HOSTILE[0]),
            ("general.license", STRING, HOSTILE[2]),
            ("general.description", STRING, LONG_TEXT),
            ("tokenizer.ggml.model", STRING, HOSTILE[1]),
            ("tokenizer.ggml.tokens", ARRAY, Array(STRING, list(ATTACKS))),
            *((f"{attack}.{attack[:50]}", STRING, attack) for attack in ATTACKS),
        ],
        tensors=[*map(_tensor, ATTACKS), *(_tensor(f"blk.0.{attack}") for attack in ATTACKS)],
    )


def _llama_file() -> GgufFile:
    numbers = {
        "block_count": LAYERS,
        "context_length": 2048,
        "embedding_length": 64,
        "feed_forward_length": 128,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
    }
    roles = ("attn_q", "attn_k", "ffn_down")
    return GgufFile(
        keys=[
            ("general.architecture", STRING, "llama"),
            ("general.name", STRING, ATTACKS[8]),
            ("general.file_type", U32, 0),
            ("quantize.imatrix.file", STRING, ATTACKS[11]),
            ("quantize.imatrix.dataset", STRING, ATTACKS[0]),
            *((f"llama.{key}", U32, number) for key, number in numbers.items()),
            ("tokenizer.ggml.model", STRING, "gpt2"),
            ("tokenizer.ggml.tokens", ARRAY, Array(STRING, list(ATTACKS))),
            ("tokenizer.ggml.token_type", ARRAY, Array(I32, [1] * len(ATTACKS))),
            ("tokenizer.ggml.scores", ARRAY, Array(F32, [0.5] * len(ATTACKS))),
            ("tokenizer.chat_template", STRING, "\n".join(ATTACKS)),
        ],
        tensors=[
            _tensor("token_embd.weight", (64, 8)),
            *(
                _tensor(f"blk.{layer}.{role}.weight", (64, 8))
                for layer in range(LAYERS)
                for role in roles
            ),
            *(_tensor(f"blk.1.{attack}.weight", (64, 8)) for attack in ATTACKS),
            *(_tensor(attack, (256,)) for attack in ATTACKS),
        ],
    )


def _tensor(name: str, dims: tuple[int, ...] = (256,)) -> TensorSpec:
    count = int(np.prod(dims))
    weights = np.linspace(-1, 1, count, dtype="<f4") ** 3
    return TensorSpec(name, dims, 0, weights.tobytes())


def _write_safetensors(folder: Path) -> Path:
    folder.mkdir()
    shard = "model-00001-of-00001.safetensors"
    texts = list(ATTACKS)
    header: dict[str, object] = {"__metadata__": {attack: attack for attack in texts}}
    data = np.linspace(-1, 1, 256, dtype="<f4").tobytes()
    for place, attack in enumerate(texts):
        header[attack] = entry("F32", [4, 64], place * len(data), (place + 1) * len(data))
    content = safetensors_bytes(header, data * len(texts))
    (folder / shard).write_bytes(content)
    places = {**dict.fromkeys(texts, shard), **{attack + "?": attack for attack in texts}}
    index = {"metadata": {"total_size": ATTACKS[0]}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    config = {attack: attack for attack in ATTACKS} | {
        "model_type": ATTACKS[0],
        "architectures": list(ATTACKS),
        "quantization_config": {"quant_method": ATTACKS[1], "bits": ATTACKS[3]},
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def _write_manifest(store: OllamaStore) -> Path:
    layers = [
        store.layer("model", _llama_file().build()),
        store.layer("template", "\n".join(ATTACKS)),
        store.layer("system", ATTACKS[0]),
        store.layer("license", LONG_TEXT[:100_000]),
        store.layer("params", json.dumps({attack: [attack] for attack in ATTACKS})),
        store.layer("messages", json.dumps([{"role": a, "content": a} for a in ATTACKS])),
        *({"mediaType": a, "digest": a, "size": 1, "name": a} for a in ATTACKS),
    ]
    config = {"model_format": ATTACKS[0], "model_family": ATTACKS[1], "file_type": ATTACKS[9]}
    store.raw_manifest(b"{", "registry.ollama.ai/library/<b>bold<%2fb>/{0} \u202e")
    return store.manifest(layers, "registry.ollama.ai/library/<img src=x>/%n {0} \x1b[31m", config)
