"""What the campaign of mutated files reads: for each format good files, and all one can ask of one.

Each target puts the bytes into a folder, opens them as the program does, and looks at everything
that a person who clicks on everything would see. Only an `ExplorerError` may come out.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random

from explorer.analysis.adapters import read_adapter, update_norm
from explorer.analysis.block_detail import BlockReader
from explorer.analysis.importance import importance_of
from explorer.errors import ExplorerError
from explorer.formats import Model, open_model
from explorer.formats.attachments import is_adapter, is_importance_matrix
from explorer.formats.facts import describe
from explorer.formats.limits import MAX_DIMENSIONS
from explorer.formats.structure import Structure
from explorer.formats.vocabulary import read_vocabulary
from explorer.planner import Hyperparameters
from tests.helpers.gguf_writer import ARRAY, F32, I32, STRING, U32, Array, GgufFile, TensorSpec
from tests.helpers.gguf_writer import small_model as small_gguf
from tests.helpers.ollama_store import OllamaStore
from tests.helpers.safetensors_writer import tensors_bytes
from tests.soak.mutations import Mutate, spoil_bytes, spoil_json
from tests.soak.quantized import large_quantized, quantized_seeds, spoil_folder, write_folder

_LOOKED_AT = 64  # elements of an array, fields of a file
_DECODED = 1 << 20  # weights of a tensor


@dataclass(frozen=True)
class Target:
    """A format to spoil.

    Attributes:
        seeds: Good files, made in a folder that is given to `place`.
        mutate: How files are spoilt.
        place: Prepares a folder; returns where the spoilt bytes go and what is opened.
        large: Makes good files of megabytes, once.
        write: Writes a case to where the bytes go.
    """

    seeds: Sequence[bytes]
    mutate: Mutate
    place: Callable[[Path], tuple[Path, Path]]
    large: Callable[[], Sequence[bytes]]
    write: Callable[[Path, bytes], object] = Path.write_bytes


def look_at_everything(model: Model) -> None:
    """Ask a model for all that the panels and commands show of its header."""
    for entry in model.metadata.entries:
        assert -1 <= entry.offset <= entry.value_offset <= entry.end
        try:
            value = entry.value
            if entry.length is not None:
                assert len(value) == entry.length  # type: ignore[arg-type]
                _ = [value[i] for i in range(min(len(value), _LOOKED_AT))]  # type: ignore[index,arg-type]
        except ExplorerError:
            continue
    for tensor in model.tensors.rows:
        assert model.format != "gguf" or len(tensor.shape) <= MAX_DIMENSIONS
        try:
            assert len(tensor.read()) == tensor.nbytes
        except ExplorerError:
            assert tensor.damage is not None
    assert sum(one.nbytes for one in model.tensors.totals_by_type.values()) == model.nbytes
    joined = (tensor for tensor in model.tensors.rows if tensor.companions is not None)
    for tensor in islice(joined, _LOOKED_AT):
        if tensor.parameters < _DECODED:
            _quietly(tensor.dequantize)
            _quietly(lambda tensor=tensor: BlockReader(tensor).read(0))
    describe(model)
    assert isinstance(model.name, str | None)
    for problem in model.problems:
        assert problem.what
    _quietly(lambda: _look_at_tokens(model))
    _quietly(lambda: Hyperparameters.from_model(model))
    for index in range(len(model.files)):
        structure = Structure(model, index)
        _quietly(structure.prepare)
        _quietly(lambda structure=structure: structure.fields(0, _LOOKED_AT * 4))
    _look_at_adapter(model)
    if is_importance_matrix(model):
        for name in ("a.weight", "b.weight"):
            _quietly(lambda name=name: importance_of(model, name))


def _look_at_adapter(model: Model) -> None:
    for update in read_adapter(model).updates[:_LOOKED_AT] if is_adapter(model) else ():
        if sum(factor.parameters for factor in update.factors) < _DECODED:
            _quietly(lambda update=update: update_norm(update))


def _look_at_tokens(model: Model) -> None:
    vocabulary = read_vocabulary(model)
    if vocabulary is not None:
        for number in range(min(len(vocabulary), _LOOKED_AT)):
            vocabulary.text(number)
        vocabulary.display_columns()


def _quietly(action: Callable[[], object]) -> None:
    """Do something that may be refused, in the program's own words."""
    with contextlib.suppress(ExplorerError):
        action()


def open_and_look(path: Path) -> None:
    """Open what lies at a path and look at everything.

    Raises:
        ExplorerError: It does not open.
    """
    with open_model(path) as model:
        look_at_everything(model)


def _alone(name: str) -> Callable[[Path], tuple[Path, Path]]:
    return lambda folder: (folder / name, folder / name)


def _gguf_seeds() -> list[bytes]:
    variants = [small_gguf(version, order).build() for version in (1, 3) for order in _ORDERS]
    plan = GgufFile(
        keys=[
            ("general.architecture", STRING, "llama"),
            ("general.alignment", U32, 64),
            ("llama.block_count", U32, 2),
            ("llama.embedding_length", U32, 64),
            ("llama.attention.head_count", ARRAY, Array(U32, [4, 8])),
            ("llama.rope.freq_base", F32, 10_000.0),
            ("tokenizer.ggml.model", STRING, "gpt2"),
            ("tokenizer.ggml.tokens", ARRAY, Array(STRING, ["a", "Ġb", "<s>", "\u2581c"])),
            ("tokenizer.ggml.token_type", ARRAY, Array(I32, [1, 1, 3, 6])),
            ("tokenizer.ggml.bos_token_id", U32, 2),
            ("split.count", U32, 1),
        ],
        tensors=[
            TensorSpec(f"blk.{i}.attn_q.weight", (256, 2), kind, bytes(nbytes))
            for i, (kind, nbytes) in enumerate(((12, 288), (14, 420), (2, 288), (30, 1024)))
        ],
        alignment=64,
    )
    return [*variants, plan.build()]


_ORDERS = ("little", "big")


def _fork_seeds() -> list[bytes]:
    """Return files with types of ik_llama.cpp and BitNet, and with one that nobody knows."""
    kinds = (
        (144, 280),
        (157, 176),
        (137, 152),
        (212, 576),
        (344, 560),
        (36, 288),
        (77, 100),
        (39, 100),
        (42, 136),
        (142, 136),
        (143, 112),
    )
    tensors = [
        TensorSpec(f"blk.{i}.attn_q.weight", (256, 4 if kind > 200 else 2), kind, bytes(nbytes))
        for i, (kind, nbytes) in enumerate(kinds)
    ]
    return [
        GgufFile(keys=[("general.architecture", STRING, name)], tensors=tensors).build()
        for name in ("llama", "bitnet", "gptoss")
    ]


def _part_seeds() -> list[bytes]:
    """Return adapters of each kind, a checkpoint of several models, and packed weights."""
    said = {"ss_tag_frequency": '{"1_x": {"a": 3, "b": 1}}', "ss_sd_model_name": "y"}
    kohya = [("x.lora_down.weight", "F16", [2, 4]), ("x.lora_up.weight", "F16", [3, 2])]
    kohya += [
        ("k.lora_down.weight", "F16", [2, 4, 3, 3]),
        ("k.lora_up.weight", "F16", [3, 2, 1, 1]),
    ]
    kohya += [("m.lora_a", "F32", [4, 2]), ("m.lora_b", "F32", [2, 3])]
    loha = [(f"x.hada_w{n}_{end}", "F32", [2, 2]) for n in "12" for end in "ab"]
    lokr = [("y.lokr_w1", "F32", [2, 2]), ("y.lokr_w2_a", "BF16", [4, 1])]
    lokr += [("y.lokr_w2_b", "BF16", [1, 4]), ("y.alpha", "F32", [])]
    whole = [("model.diffusion_model.double_blocks.0.q.weight", "F8_E4M3", [4, 4])]
    whole += [("model.diffusion_model.double_blocks.0.q.scale_weight", "F32", [1])]
    whole += [("text_encoders.t5.x.weight", "F8_E4M3", [4, 4, 1, 1])]
    whole += [("text_encoders.t5.x.scale_weight", "F32", [4]), ("vae.y.weight", "F32", [2])]
    exl2 = [("q_weight", "I32", [4, 8]), ("q_scale", "I32", [1, 1]), ("q_scale_max", "F16", [1])]
    exl2 += [("q_groups", "I16", [2]), ("q_invperm", "I16", [32])]
    exl3 = [("trellis", "I16", [1, 1, 64]), ("suh", "F16", [16]), ("svh", "F16", [16])]
    packed = [(f"layers.0.q.{name}", kind, shape) for name, kind, shape in (*exl2, *exl3)]
    return [
        tensors_bytes([*kohya, *loha, *lokr], said),
        tensors_bytes(whole),
        tensors_bytes(packed),
    ]


def _imatrix_seeds() -> list[bytes]:
    floats = bytes(range(64, 80)) * 4
    file = GgufFile(
        keys=[
            ("general.type", STRING, "imatrix"),
            ("imatrix.datasets", ARRAY, Array(STRING, ["calibration.txt"])),
            ("imatrix.chunk_count", U32, 3),
            ("imatrix.chunk_size", U32, 512),
        ],
        tensors=[
            TensorSpec("a.weight.in_sum2", (8, 2), 0, floats),
            TensorSpec("a.weight.counts", (1, 2), 0, floats[:8]),
            TensorSpec("b.weight.in_sum2", (4,), 0, floats[:16]),
            TensorSpec("b.weight.counts", (1,), 0, floats[:4]),
        ],
    )
    return [file.build()]


def _safetensors_seeds() -> list[bytes]:
    plain = tensors_bytes([("a", "F32", [2, 3]), ("b", "BF16", [4]), ("c", "F4", [8])], {"k": "v"})
    quantized = tensors_bytes(
        [
            ("layers.0.q.weight", "U32", [4, 8]),
            ("layers.0.q.scales", "F16", [4, 1]),
            ("layers.0.q.biases", "F16", [4, 1]),
            ("layers.1.qweight", "I32", [8, 4]),
            ("layers.1.qzeros", "I32", [1, 1]),
            ("layers.1.scales", "F16", [1, 4]),
        ]
    )
    return [plain, quantized, tensors_bytes([("x", "F8_E4M3", [0, 5]), ("y", "C64", [])])]


_SHARD = "model-00001-of-00001.safetensors"
_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "rope_scaling": {"factor": 8.0, "rope_type": "llama3"},
    "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": True},
    "quantization": {"group_size": 32, "bits": 4},
    "layer_types": ["full_attention", "sliding_attention"],
    "text_config": {"hidden_size": 32, "sliding_window": None},
}


def _config_place(folder: Path) -> tuple[Path, Path]:
    (folder / "model.safetensors").write_bytes(_safetensors_seeds()[1])
    return folder / "config.json", folder


def _index_place(folder: Path) -> tuple[Path, Path]:
    (folder / _SHARD).write_bytes(_safetensors_seeds()[0])
    index = folder / "model.safetensors.index.json"
    return index, index


def _index_seed() -> bytes:
    places = dict.fromkeys(("a", "b", "c", "d"), _SHARD)
    return json.dumps({"metadata": {"total_size": 36}, "weight_map": places}).encode()


def _manifest_place(folder: Path) -> tuple[Path, Path]:
    """Make a store with all the blobs that the seeds name; return the place of a manifest."""
    store = OllamaStore(folder / "models")
    for layers in _manifest_layers(store):
        path = store.manifest(layers, config={"model_format": "gguf", "model_family": "llama"})
    return path, path


def _manifest_layers(store: OllamaStore) -> list[list[dict[str, object]]]:
    gguf = _gguf_seeds()[-1]
    texts = [
        store.layer("template", "{{ .Prompt }}"),
        store.layer("params", json.dumps({"stop": ["<|end|>"], "temperature": 0.7})),
        store.layer("messages", json.dumps([{"role": "user", "content": "Hello"}])),
        store.layer("license", "MIT"),
    ]
    blobs = [
        store.tensor("layers.0.q", [("layers.0.q.weight", "U32", [4, 8])], {"quant_type": "int4"}),
        store.tensor("norm.weight", [("norm.weight", "BF16", [4])]),
        store.layer("json", json.dumps(_CONFIG), "config.json"),
    ]
    return [[store.layer("model", gguf), *texts], [*blobs, *texts]]


def _manifest_seeds(folder: Path) -> list[bytes]:
    store = OllamaStore(folder / "seeds")
    config = {"model_format": "safetensors", "model_family": "llama"}
    return [
        store.manifest(layers, config=config).read_bytes() for layers in _manifest_layers(store)
    ]


@cache
def _large_gguf() -> Sequence[bytes]:
    names = [f"blk.{i}.attn_q.weight" for i in range(20_000)]
    texts = [f"token {i}" for i in range(100_000)]
    inner = Array(ARRAY, [Array(U32, [1, 2])] * 5_000)
    return [
        GgufFile(keys=[(f"key.{i}", STRING, "text" * 20) for i in range(10_000)]).build(),
        GgufFile(keys=[("tokenizer.ggml.tokens", ARRAY, Array(STRING, texts))]).build(),
        GgufFile(keys=[("nested", ARRAY, inner)]).build(),
        GgufFile(tensors=[TensorSpec(name, (0,), 0, b"", 0) for name in names]).build(),
    ]


@cache
def _large_safetensors() -> Sequence[bytes]:
    tensors: list[tuple[str, str, list[int]]] = [(f"t.{i}.w", "F32", [0]) for i in range(20_000)]
    return [tensors_bytes(tensors), tensors_bytes([], {f"k{i}": "v" * 40 for i in range(20_000)})]


@cache
def _large_config() -> Sequence[bytes]:
    return [json.dumps({**_CONFIG, **{str(i): [i] * 20 for i in range(5_000)}}).encode()]


@cache
def _large_index() -> Sequence[bytes]:
    return [json.dumps({"weight_map": {f"t{i}": _SHARD for i in range(40_000)}}).encode()]


def make_targets(folder: Path) -> Mapping[str, Target]:
    """Return every target by its name; the folder is for what making the seeds needs."""
    manifests = _manifest_seeds(folder)

    def large_manifests() -> Sequence[bytes]:
        value = json.loads(manifests[1])
        return [json.dumps({**value, "layers": value["layers"] * 500}).encode()]

    return {
        "gguf": Target(_gguf_seeds(), spoil_bytes, _alone("f.gguf"), _large_gguf),
        "safetensors": Target(
            _safetensors_seeds(), spoil_bytes, _alone("f.safetensors"), _large_safetensors
        ),
        "safetensors-header": Target(
            _safetensors_seeds(), _spoil_header, _alone("f.safetensors"), _large_safetensors
        ),
        "forks": Target(_fork_seeds(), spoil_bytes, _alone("f.gguf"), _large_gguf),
        "parts": Target(_part_seeds(), _spoil_header, _alone("f.safetensors"), _large_safetensors),
        "manifest": Target(manifests, spoil_json, _manifest_place, large_manifests),
        "config": Target([json.dumps(_CONFIG).encode()], spoil_json, _config_place, _large_config),
        "index": Target([_index_seed()], spoil_json, _index_place, _large_index),
        "imatrix": Target(_imatrix_seeds(), spoil_bytes, _alone("f.gguf"), _large_gguf),
        "quantized": Target(
            quantized_seeds(),
            spoil_folder,
            lambda folder: (folder / "config.json", folder),
            large_quantized,
            write_folder,
        ),
    }


def _spoil_header(chance: Random, content: bytes, other: bytes) -> bytes:
    """Spoil the JSON and give it its right length, so that what lies behind the length is met."""
    headers = (one[8 : 8 + int.from_bytes(one[:8], "little")] for one in (content, other))
    header = spoil_json(chance, *headers)
    return len(header).to_bytes(8, "little") + header + bytes(chance.choice((0, 36, 300)))
