"""What the columns of tables mean."""

from __future__ import annotations

import re
from typing import Final


def model_tree_texts() -> dict[str, str]:
    """Return the texts of the tree of open models."""
    return {
        "model": "Open models, with their metadata and tensors. Select one to see it.",
        "what": "Type and size of a model or a layer, the type of a tensor, or a count.",
    }


def tensor_texts() -> dict[str, str]:
    """Return the texts of the tensor table."""
    return {
        "name": "The name that the file gives the tensor. Layer 3 is called blk.3 in GGUF.",
        "role": "What it does in its layer",
        "layer": "Number of its layer, from 0 up; empty for a tensor that is in no layer.",
        "type": (
            "How the weights are stored. F32, F16 and BF16 store each weight by itself; all "
            "others share scales in blocks."
        ),
        "shape": "Rows × columns, outermost first; a GGUF file stores the reverse",
        "parameters": "Number of weights: the dimensions multiplied.",
        "bytes": "Bytes of the weights in the file, scales included.",
        "bits_per_weight": "Stored bits for each weight, scales included",
        "offset": "First byte in its file",
        "file": "The file of the model that holds it.",
        "problem": "What is wrong with the tensor, as far as the header tells.",
    }


def metadata_texts() -> dict[str, str]:
    """Return the texts of the metadata table."""
    return {
        "key": "The name that the file gives the value.",
        "type": "How the value is stored; of an array, also how many elements it has.",
        "value": "Enumerated values by name; of an array, the first elements",
    }


def array_texts() -> dict[str, str]:
    """Return the texts of the elements of a metadata array."""
    return {
        "index": "Place in the array, from 0 up.",
        "value": "The element; enumerated values by name.",
    }


def vocabulary_texts() -> dict[str, str]:
    """Return the texts of the vocabulary."""
    return {
        "id": "The token's number: what the model reads and writes.",
        "token": "As stored in the file; bytes that are no text as \\xNN",
        "text": "The text that the token puts into the output",
        "type": (
            "What kind of token it is, and in parentheses what the metadata uses it for: bos "
            "begins a text, eos ends it."
        ),
        "score": "How much the tokenizer prefers it when it joins pieces of text.",
    }


def code_texts() -> dict[str, str]:
    """Return the texts of the codes of a quantized tensor."""
    return {
        "code": "The number that is stored for a weight.",
        "level": "Its value before the block's scale",
        "weights": "How many weights have this code.",
        "share": "Share of all weights, in per cent",
    }


def block_texts() -> dict[str, str]:
    """Return the texts of the tables of one block, but for what `block_columns` says itself."""
    return {
        "field": "A part of the block, by its name in ggml or in the file.",
        "bytes": "Its bytes, counted from the block's first one.",
        "type": "How the part is stored.",
        "value_text": "What is stored in this block.",
        "meaning": "What the part is good for.",
        "weights": "The weights that share this scale, counted from the block's first one.",
        "weight": "Place of the weight in the block, from 0 up.",
    }


def mix_texts() -> dict[str, str]:
    """Return the texts of what is stored as which type, and of what differs from a recipe."""
    return {
        "role": "What the tensors do, whatever layer they are in.",
        "type": "How they are stored in this file.",
        "tensors": "How many tensors.",
        "parameters": "How many weights they have together.",
        "bytes": "Bytes that they take together.",
        "bits_per_weight": "Stored bits for each weight, scales included",
        "layers": "The layers that they are in.",
        "expected": "The type that the recipe would have given them.",
    }


def recipe_texts() -> dict[str, str]:
    """Return the texts of the recipes that a file is held against."""
    return {
        "recipe": "A rule of llama.cpp that gives each tensor a type, as llama-quantize takes it.",
        "agreeing": "Part of the weights whose tensor has the type that the recipe gives",
        "groups": "Groups of tensors of one role that have another type than by the recipe.",
        "bytes": "Bytes that the tensors would take by the recipe",
        "difference": "What the file takes more, or less, than by the recipe.",
    }


def what_if_texts() -> dict[str, str]:
    """Return the texts of what other types would cost, but for errors and memory."""
    return {
        "type": "The type that the chosen tensors would have. The first line is as it is.",
        "bits_per_weight": "Stored bits for each weight of the chosen tensors.",
        "bytes": "Bytes that the tensors above take in this type.",
        "bytes_change": "Against the present size.",
        "file_bytes": "Bytes of the model's files.",
        "note": "What else there is to know, such as how much is measured so far.",
    }


def library_texts() -> dict[str, str]:
    """Return the texts of the tree of downloaded models."""
    return {
        "name": "Stores, their models, and what a model is made of.",
        "architecture": "The architecture that the model's header names.",
        "parameters": "Number of weights, as the header tells.",
        "quantization": "The file type that the header names, such as Q4_K_M.",
        "bytes": "Bytes on disk. What several models share counts once in a sum.",
        "modified": "When it was written or downloaded.",
        "note": "What is wrong, missing or shared.",
    }


def blob_texts() -> dict[str, str]:
    """Return the texts of the list of blobs."""
    return {
        "blob": "The file's name: the digest of its content",
        "bytes": "Bytes of the file on disk.",
        "state": "Whether models use it, nobody does, or its download has not ended.",
        "models": "How many models and tags use it",
        "store": "The program that keeps it.",
        "used_by": "The models and tags that use it.",
    }


# What single figures mean: statistics of weights, and the facts of a model.


def statistic_texts() -> dict[str, str]:
    """Return the texts of statistics, by their names in `gguf-explorer stats`."""
    return {
        "count": "All numbers that were looked at. Nothing is sampled.",
        "finite": "Those that are neither NaN nor infinite; the figures below are of these.",
        "nan": "Those that are not a number. A sound model has none.",
        "positive_inf": "Those that are infinite. A sound model has none.",
        "negative_inf": "Those that are minus infinity. A sound model has none.",
        "zeros": "Those that are exactly 0, or minus 0.",
        "min": "The least one.",
        "max": "The greatest one.",
        "mean": "Their sum divided by their count.",
        "std": "How far they are spread around the mean: the root of the mean square of it.",
        "rms": "The root of the mean of their squares: how large they usually are.",
        "abs_max": "The one farthest from 0, without its sign.",
        "outlier_ratio": "The one farthest from 0 by the root mean square: how far it stands out.",
        "skewness": (
            "Third standardized moment: 0 for a symmetric shape, above 0 if the tail on the right "
            "is longer."
        ),
        "kurtosis": (
            "Fourth standardized moment: 3 for a normal distribution, more where the tails are "
            "heavy. Heavy tails are hard to quantize, for a block's scale follows its largest "
            "weight."
        ),
    }


def percentile_text() -> str:
    """Return the text of a percentile of weights."""
    return (
        "So many per cent of the weights are not larger than this. Read from a histogram of at "
        "least 65,536 bins."
    )


def statistic_column_texts() -> dict[str, str]:
    """Return the texts of a table with a line for each figure."""
    return {
        "statistic": "What is told of all weights. Ask a line what it means.",
        "value": "The figure. Copying and export take all of its digits.",
        "tensor": "The tensor whose figures stand in this line.",
    }


def fact_texts() -> dict[str, str]:
    """Return the texts of the facts about a model."""
    return {
        "architecture": (
            "The family that the model belongs to: it says which layers there are and how a "
            "program computes with them."
        ),
        "parameters": "Number of weights of all tensors together.",
        "file_type": "The mix of tensor types that the file says it was made with.",
        "nbytes": "Bytes of all weights, without the header.",
        "bits_per_weight": (
            "Stored bits for each weight, over all tensors, scales included. Tensors that stay "
            "unquantized raise it."
        ),
        "context_length": (
            "The longest text that the model was trained on, in tokens. A server may give it less."
        ),
        "layers": "How many blocks of attention and feed-forward follow one another.",
        "embedding_length": "Numbers that stand for one token between two layers.",
        "feed_forward_length": "Width of the feed-forward part of a layer.",
        "heads": "Attention heads of a layer; a list if they differ from layer to layer.",
        "kv_heads": (
            "Heads that keys and values have. Fewer than attention heads make a smaller KV cache."
        ),
        "key_length": "Numbers in the key of one head for one token.",
        "value_length": "Numbers in the value of one head for one token.",
        "experts": "Feed-forward parts of a layer of which only some work on each token.",
        "experts_used": "How many of the experts work on each token.",
        "vocabulary": "How many different tokens the model reads and writes.",
        "tokenizer": "How text is cut into tokens.",
        "format": "The kind of file, its version, and its byte order if it is not the usual.",
        "license": "The terms of use, as the file names them.",
        "alignment": "Bytes that the place of each tensor is a multiple of.",
        "data_offset": "Where the weights begin in the file.",
        "tensors": "How many named arrays of weights the model is made of.",
        "metadata": "How many named values the header holds beside the tensors.",
    }


# What pictures, read-outs and panels show.


def panel_texts() -> dict[str, str]:
    """Return what each panel is for, by its object name. Shown where nothing else explains."""
    return {
        "library": "The models that other programs have downloaded. F1 tells more.",
        "overview": "What the model is, and what its bytes are spent on. F1 tells more.",
        "metadata": "The named values of the header. F1 tells more.",
        "tensors": "Every tensor of the model, to be filtered and sorted. F1 tells more.",
        "weights": "The weights of a tensor, and how they are stored. F1 tells more.",
        "errors": "What a tensor has lost, or would lose, by quantization. F1 tells more.",
        "survey": "All tensors of the model at once. F1 tells more.",
        "vocabulary": "The tokens that the model reads and writes. F1 tells more.",
        "planner": "Whether the model fits into memory, and why. F1 tells more.",
        "raw": "The bytes of the file, and what they mean. F1 tells more.",
    }


def picture_text(name: str) -> str:
    """Return what a picture or a line of text shows, by its stable name."""
    return (_texts_of_models() | _texts_of_weights() | _texts_of_errors() | _texts_of_plans())[name]


def _texts_of_models() -> dict[str, str]:
    return {
        "name": "The name that the file gives.",
        "file": "Format, licence and path of the model.",
        "types": (
            "A bar for each tensor type, the one with most bytes on top: its share of all bytes, "
            "its bytes, and how many tensors have it."
        ),
        "problems": "What is wrong with the file, as far as its header tells.",
        "totals": "What the tensors that the filter leaves, and those selected, come to.",
        "listed": "How many lines the filter leaves, of all there are.",
        "download": "What is known of the selected line, and what it shares with others.",
        "download_total": "What the selected lines take on disk; blobs that they share count once.",
        "bytes": (
            "The bytes of the file from top to bottom: offset, bytes in hex, and the same as "
            "text. Colours and lines tell what a byte belongs to."
        ),
        "field": "What the byte under the cursor belongs to, and where that begins.",
        "numbers": "The bytes from the cursor on, read as numbers of different types.",
        "field_legend": "What the colours of the bytes mean.",
        "vocabulary_size": "How many tokens the search leaves, of all there are.",
    }


def _texts_of_weights() -> dict[str, str]:
    return {
        "tensor_facts": "Type, shape, number of weights and bytes of the tensor.",
        "caption": "What is told of the tensor here, and what the picture leaves out.",
        "histogram": (
            "How many weights lie in each bin. All weights are counted, none is sampled. The "
            "dashed curve is the normal distribution of the same mean and deviation."
        ),
        "histograms": "A histogram for each tensor, beside one another.",
        "readout": "What is under the cursor, in numbers; else what the picture leaves out.",
        "map": (
            "The tensor as a picture: rows from top to bottom, columns from left to right. Where a "
            "cell stands for several weights, it shows what is chosen above."
        ),
        "codes": "How many weights have each code. Codes that nobody uses are wasted bits.",
        "spread": "How the scales, or the minima, of the blocks are spread.",
        "block_bytes": (
            "The bytes of the block, eight to a line at most. Colours tell which part they belong "
            "to; what is chosen here is marked in the other views."
        ),
        "block_weights": "The weights of the block, in the order in which they are stored.",
        "block_total": "How many blocks the tensor has.",
        "block_place": "Where the block is in the tensor, and its bytes in the file.",
        "values": "The decoded weights, to six digits; copying and export take them all.",
    }


def _texts_of_errors() -> dict[str, str]:
    return {
        "pair_histograms": (
            "Weights of the reference and of the candidate, counted in the same bins."
        ),
        "error_histogram": (
            "How many weights have an error of each size: candidate minus reference."
        ),
        "density": (
            "Each pair of weights as a point: reference from left to right, candidate upwards. "
            "Without any error all would lie on the diagonal."
        ),
        "what_if_chart": (
            "A point for each type: bits per weight from left to right, error upwards. No type "
            "on the line is both larger and worse than another."
        ),
        "model_map": (
            "A cell for each role of each layer; its colour tells the type, or the figure that is "
            "chosen above."
        ),
        "map_legend": "What the colours of the map mean.",
        "cell": "What is known of the cell under the mouse, else of the selected one.",
        "known": "Of how many tensors all weights were read.",
        "progress": "How much has been read so far, and what is still to be read.",
        "deviations": "What has another type than by the recipe that is selected above.",
        "rules": "Where the recipes come from.",
        "verdict": (
            "How far the types agree with what llama.cpp would have chosen. It is no proof of how "
            "the file was made."
        ),
    }


def _texts_of_plans() -> dict[str, str]:
    return {
        "answer": "Whether the model fits with these settings, and what would make it fit.",
        "reply": "The most that fits, all other settings as they are.",
        "bars": (
            "The memory of each device from end to end, and what it is spent on. Click a part to "
            "see its formula."
        ),
        "layers": (
            "A box for each layer, as wide as its bytes; its colour tells the device. Drag the "
            "edge to move layers."
        ),
        "curves": (
            "Memory in all against the context, for each type of the KV cache. The dot is the plan "
            "of now."
        ),
        "holds": (
            "What really holds after Ollama's own rules; it may differ from what was asked for."
        ),
        "figure": "The figure that is explained below, rounded and to the byte.",
        "formula": "How the figure is worked out, in the symbols of the table below.",
    }


# What the figures of a memory plan mean; their formulas are in the plan itself.


_NUMBER: Final = re.compile(r"\[\d+\]")


def plan_text(term: str) -> str:
    """Return what a figure of a plan is.

    Args:
        term: Its place in the plan's JSON: ``"devices[0].graph"``; see `planner.terms`.
    """
    return {
        "weights": "Bytes of all weights that are loaded.",
        "kv_cache.total": "Bytes of the KV cache of all layers: keys and values of the text.",
        "kv_cache.per_layer[]": "Bytes of the KV cache of this layer.",
        "graph.full": (
            "Working memory of a GPU while all layers are on GPUs: the compute graph of a batch."
        ),
        "graph.partial": (
            "Working memory of a GPU while some layers are on the CPU: the compute graph of a "
            "batch."
        ),
        "layers[].weights": "Bytes of the weights of this layer.",
        "layers[].kv_cache": "Bytes of the KV cache that goes where this layer goes.",
        "devices[].weights": "Bytes of weights on this GPU.",
        "devices[].kv_cache": "Bytes of the KV cache on this GPU.",
        "devices[].graph": "Bytes of the compute graph on this GPU.",
        "devices[].reserved": "Bytes of this GPU that are withheld while layers are placed.",
        "devices[].total": "Bytes that the model takes on this GPU.",
        "cpu.weights": "Bytes of weights that stay in main memory.",
        "cpu.kv_cache": "Bytes of the KV cache that stays in main memory.",
        "vram_total": "Bytes that the model takes on all GPUs together.",
        "total": "Bytes that the model takes on GPUs and in main memory together.",
        "gpu_ratio": "Part of the layers that are on GPUs: 1 is all.",
        "quick_estimate_ratio": (
            "The room that GPUs have for weights by the weights' size: about how much of the "
            "model fits, before layers are counted."
        ),
    }[_NUMBER.sub("[]", term)]


def part_texts() -> dict[str, str]:
    """Return the texts of what memory is spent on, by `planner.figures.Kind`."""
    return {
        "weights": "Bytes of the model's weights here.",
        "kv_cache": "Bytes of keys and values of the text here; they grow with the context.",
        "graph": "Bytes of working memory here, for computing a batch of tokens.",
        "projector": "Bytes of the part here that turns pictures into tokens.",
        "reserved": "Bytes that are withheld while layers are placed, so that none runs out.",
        "free": "Bytes that are left.",
        "free swap": "Bytes of swap that are left; a model that needs them is slow.",
    }


def bar_texts() -> dict[str, str]:
    """Return the texts of the table of devices, beside what memory is spent on."""
    return {
        "device": "A GPU, or the CPU with its main memory.",
        "layers": "The layers that are computed there.",
        "over": "Bytes that the model takes and that are not there",
        "capacity": "Free before the model is loaded",
    }


def layer_texts() -> dict[str, str]:
    """Return the texts of the table of layers."""
    return {
        "index": "Number of the layer, from 0 up; the output layer is the last.",
        "name": "The group of tensors that it is made of.",
        "device": "Where it is computed.",
        "weights": plan_text("layers[0].weights"),
        "kv_cache": plan_text("layers[0].kv_cache"),
        "bytes": "Weights and KV cache of the layer together.",
    }


def curve_texts() -> dict[str, str]:
    """Return the texts of the table of curves."""
    return {
        "context": "Tokens of each sequence.",
        "total": "Bytes in all",
        "fits": "Whether all layers are on GPUs with this context and KV cache type.",
    }


def why_texts() -> dict[str, str]:
    """Return the texts of the tables of figures and of a formula's symbols."""
    return {
        "figure": "The figure, by its place in the plan's JSON.",
        "value": "The figure, rounded: bytes, or a ratio.",
        "exact": "The figure to the byte.",
        "symbol": "A symbol of the formula above.",
        "symbol_value": "What the symbol stands for here.",
        "from": "The metadata key, setting or figure that it comes from.",
    }


def gpu_texts() -> dict[str, str]:
    """Return the texts of the catalogue of GPUs, and of the list of GPUs to plan for."""
    return {
        "name": "The GPU, as its maker calls it.",
        "memory": "Memory of the board, as it is sold.",
        "usable": "The most that a program can have of it.",
        "library": "What Ollama drives it with: CUDA, ROCm, Metal, Vulkan.",
        "bandwidth": "How many gigabytes its memory moves in a second.",
        "year": "When it came out.",
        "free": "Free memory to plan with; double-click to change it.",
    }


def comparison_texts() -> dict[str, str]:
    """Return the texts of plans side by side."""
    return {
        "name": "The scenario or the model; the first line is the plan of now.",
        "context": "Tokens of each sequence, times the sequences at a time.",
        "kv_cache_type": "How keys and values are stored.",
        "weights": plan_text("weights"),
        "kv_cache": plan_text("kv_cache.total"),
        "graph_each": "Working memory of one GPU, for computing a batch of tokens.",
        "graph": "Working memory of all GPUs together.",
        "vram_total": plan_text("vram_total"),
        "cpu_total": "Weights and KV cache that stay in main memory.",
        "total": plan_text("total"),
        "gpu_layers": "How many layers are on GPUs, of all with the output layer.",
        "devices": "The GPUs that the plan may use.",
        "batch": "Tokens computed at a time.",
        "flash_attention": "Whether attention is computed without storing its table.",
        "profile": "The release of Ollama whose rules the plan follows.",
        "answer": "Whether the model fits, in one sentence.",
    }
