"""What llama.cpp will not load: an unknown architecture, or tensors that are missing or misshapen.

Read in `llama-model.cpp` and `llama-model-loader.cpp` of build 11434, and tried with its compiled
reader: each tensor of 151 small models was left out in turn (docs/planner.md, section 13). What is
not sure to be refused is not refused here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from explorer.errors import PlanError
from explorer.formats.components import components
from explorer.formats.model import Model
from explorer.planner.devices import quoted
from explorer.planner.engines.llama_cpp.architectures import ARCHITECTURES
from explorer.planner.engines.llama_cpp.header import Header, Weights
from explorer.quantization.types import OF_IK_LLAMA_CPP, OF_LLAMA_CPP, OTHER_MEANINGS, TensorType

OTHERS: Final = frozenset(
    (
        *("apertus", "arctic", "bitnet", "chameleon", "clef", "dflash"),
        *("eagle3", "gemma4-assistant", "gptj", "hrm_text", "minicpm3", "plamo"),
        *("plm", "t5", "t5encoder", "talkie"),
    )
)
"""Architectures that llama.cpp loads and `ARCHITECTURES` has no row of."""

COMPONENTS: Final = {
    "clip": "a projector (mmproj), which is loaded beside its language model with --mmproj",
    "controlvector": "a control vector, which is loaded beside its model with --control-vector",
    "imatrix": "an importance matrix, which llama-quantize reads",
}
"""Architectures of files that are loaded beside a model, and what they are."""

NO_MODELS: Final = {"adapter": "an adapter", "imatrix": "an importance matrix"}
"""What is planned with another model alone, by its ``general.type``."""

_PARTS: Final = {  # matrices in one → those that it stands for
    "attn_qkv.weight": ("attn_q.weight", "attn_k.weight", "attn_v.weight"),
    "ffn_gate_up_exps.weight": ("ffn_up_exps.weight",),
}
_NEEDED: Final = frozenset(
    f"{name}.weight"
    for name in (
        *("attn_norm", "attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_norm"),
        *("ffn_up", "ffn_down", "ffn_gate", "ffn_gate_inp"),
        *("ffn_up_exps", "ffn_down_exps"),
        *("attn_q_a", "attn_q_b", "attn_kv_a_mqa", "attn_kv_b", "attn_k_b", "attn_v_b"),
        *("ssm_in", "ssm_conv1d", "ssm_out", "shortconv.in_proj", "shortconv.out_proj"),
    )
)
"""What no block may lack that others of its kind have."""

_LAST_NORMS: Final = frozenset(
    ("output_norm.weight", "token_embd_norm.weight", "enc.output_norm.weight")
)
_LOOSE: Final = frozenset(
    (
        *("arwkv7", "deci", "gemma3n", "gemma4", "grok", "hy_v3"),
        *("mimo2", "modern-bert", "nemotron_h", "nemotron_h_moe", "openelm", "plamo2"),
        *("qwen3next", "rwkv6", "rwkv6qwen2", "rwkv7", "stablelm"),
    )
)
"""Architectures whose blocks differ by more than their kind."""


_TYPES: Final = {  # 4: MXFP4 in the first files of gpt-oss, which Ollama loads
    "llama.cpp": OF_LLAMA_CPP | {OTHER_MEANINGS[4]},
    "ik_llama.cpp": OF_IK_LLAMA_CPP,
}
_ARCHITECTURES: Final = {
    "llama.cpp": {*ARCHITECTURES, *OTHERS},
    "ik_llama.cpp": frozenset((  # its `LLM_ARCH_NAMES`, at 8337e4cd
        *("llama", "llama4", "deci", "falcon", "grok", "gpt2", "gptj", "gptneox", "mpt"),
        *("baichuan", "starcoder", "refact", "bert", "nomic-bert", "jina-bert-v2", "bloom"),
        *("stablelm", "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3next"),
        *("qwen3vl", "qwen3vlmoe", "qwen35moe", "qwen35", "mellum", "phi2", "phi3", "plamo"),
        *("codeshell", "orion", "internlm2", "minicpm", "gemma", "gemma2", "gemma3"),
        *("starcoder2", "mamba", "xverse", "command-r", "dbrx", "olmo", "openelm", "arctic"),
        *("deepseek2", "deepseek4", "chatglm", "glm4", "glm4moe", "bitnet", "bitnet-25"),
        *("bitnet-b1.58", "t5", "t5encoder", "jais", "granite", "granitemoe", "cohere2"),
        *("cohere2_moe", "dots1", "ernie4_5", "ernie4_5-moe", "hunyuan-moe", "gpt-oss"),
        *("bailingmoe2", "bailingmoe3", "minimax-m2", "minimax-m3", "smollm3", "mistral3"),
        *("mimo2", "seed_oss", "step35", "laguna", "glm-dsa", "mistral4", "gemma4", "gemma4_mtp"),
        *("dflash", "dflash-draft", "gemma4-assistant", "openpangu", "muse-glimmer"),
    )),
}  # fmt: skip
"""What each program loads."""


def refusal_of(model: Model) -> str:
    """Return why llama.cpp loads a whole GGUF model with no settings; "" if nothing is known."""
    is_part = model.architecture in COMPONENTS or model.metadata.text("general.type") in NO_MODELS
    if model.format != "gguf" or is_part or not len(model.tensors) or components(model):
        return ""
    header, _ = headers_of(model)
    return header if isinstance(header, str) else ""


def headers_of(
    model: Model, others: Mapping[int, TensorType] = MappingProxyType({})
) -> tuple[Header | str, Header | str]:
    """Return what the rules of llama.cpp and ik_llama.cpp read of a model, or why they cannot.

    `others` are types of tensors to use instead, by row.
    """
    found: Header | str
    try:
        found = Header.from_model(model, others)
    except PlanError as error:
        found = error.what
    if model.format != "gguf":
        return found, found
    columns = model.tensors.columns
    types = {
        kind.id: kind for row, kind in enumerate(columns.types) for kind in (others.get(row, kind),)
    }
    own, forked = (
        _foreign_type(program, types.values()) or refusal(program, found) or found
        for program in ("llama.cpp", "ik_llama.cpp")
    )
    return own, forked


def _foreign_type(program: str, types: Iterable[TensorType]) -> str:
    """Return why a program will not load tensors of some types; "" if it knows them all."""
    for kind in types:
        if kind.id is not None and kind not in _TYPES[program]:
            other = "ik_llama.cpp" if program == "llama.cpp" else "llama.cpp"
            known = f"; {other} does" if kind in _TYPES[other] else ""
            return f"{program} does not load tensors of type {quoted(kind.name)}{known}"
    return ""


def refusal(program: str, header: Header | str) -> str:
    """Return why a program will not load a model; "" if nothing is known that stops it.

    Args:
        program: llama.cpp, or ik_llama.cpp.
        header: What was read of the model, or why nothing could be.
    """
    if isinstance(header, str):
        return header
    name = header.architecture
    if name in COMPONENTS:
        return f"{program} does not load it alone: it is {COMPONENTS[name]}"
    if name not in _ARCHITECTURES[program]:
        shown = quoted(name)
        return f"{program} refuses the model: it does not know the architecture {shown!r}"
    if name not in ARCHITECTURES:
        return ""
    problem = next(_problems(header), "")
    if not problem:
        return ""
    return f"{program} refuses the model: {problem}. Download it again, or convert it anew"


def _problems(header: Header) -> Iterator[str]:
    for key, value in (
        ("context_length", header.trained_context),
        ("embedding_length", header.embedding),
        ("block_count", header.blocks),
    ):
        if not value:
            yield f"the key {quoted(header.architecture)}.{key} is missing or 0"
    blocks = range(header.loaded)
    has_attention = any(header.attention[i] for i in blocks)
    if has_attention and header.rules.recurrent == "none" and not any(header.heads):
        yield f"the key {quoted(header.architecture)}.attention.head_count is missing or 0"
    if header.architecture == "wavtokenizer-dec":
        return
    known = header.weights_by_name
    if "token_embd.weight" not in known and header.architecture != "codeshell":
        yield "the tensor token_embd.weight is missing"
    is_known = header.rules.accuracy != "unknown architecture" and not header.rules.always_normed
    if is_known and header.rules.makes_words and not known.keys() & _LAST_NORMS:
        yield "the tensor output_norm.weight is missing"
    if header.architecture in _LOOSE:
        return
    yield from _missing(header)
    yield from _misshapen(header)


def _missing(header: Header) -> Iterator[str]:
    """Yield tensors that a block lacks, though most blocks of its kind have them."""
    held = [_whole(header.block_weights[i]) for i in range(header.loaded)]
    kinds = [
        (header.recurrent[i], header.attention[i], "ffn_gate_inp.weight" in names)
        for i, names in enumerate(held)
    ]
    alike = Counter(kinds)
    counts = Counter(
        (kind, name) for kind, names in zip(kinds, held, strict=True) for name in names
    )
    for i, (kind, names) in enumerate(zip(kinds, held, strict=True)):
        if not names:
            yield f"the tensors of block {i} are missing"
        needed = _NEEDED - names
        if header.loaded < header.blocks:
            needed -= {"attn_norm.weight"}  # without it only the blocks that guess ahead are loaded
        for name in sorted(needed):
            if 2 * counts[kind, name] >= alike[kind]:
                yield f"the tensor blk.{i}.{name} is missing"


def _whole(weights: dict[str, Weights]) -> set[str]:
    """Return the names of a block's weights; of joined matrices those that they stand for."""
    names = set(weights)
    for joined, parts in _PARTS.items():
        if joined in names:
            names |= set(parts)
    return names


def _misshapen(header: Header) -> Iterator[str]:
    """Yield tensors whose shape contradicts the header."""
    e, tokens, known = header.embedding, header.tokens, header.weights_by_name
    for name in ("token_embd.weight", "output.weight"):
        if name in known and tokens and known[name].extent[1] != tokens:
            rows = known[name].extent[1]
            yield f"{name} has {rows} rows, but the vocabulary has {tokens} entries"
    wide = [one for name in ("token_embd.weight", "output_norm.weight") if (one := known.get(name))]
    for i in range(header.loaded):
        block = header.block_weights[i]
        wide += [block[name] for name in ("attn_norm.weight", "ffn_norm.weight") if name in block]
    for one in wide:
        if one.extent[0] != e:
            yield f"{quoted(one.name)} is {one.extent[0]} wide, but the model has {e}"
    for i in range(header.loaded):
        yield from _network(header.block_weights[i])


def _network(block: dict[str, Weights]) -> Iterator[str]:
    """Yield matrices of a block's network that do not go together."""
    up, gate, down = (block.get(f"ffn_{name}.weight") for name in ("up", "gate", "down"))
    if up is None or down is None:
        return
    hidden = down.extent[0]
    sizes = (hidden,) if gate is not None else (hidden, 2 * hidden)  # both in one
    for one in (up, gate):
        if one is not None and one.extent[1] not in sizes:
            rows = one.extent[1]
            yield f"{quoted(one.name)} has {rows} rows, where {quoted(down.name)} reads {hidden}"
