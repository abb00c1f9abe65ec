"""What figures, pictures, pages and some columns mean: the texts of "What's this?" and tool tips.

Tables are by the stable name of a column or figure.
"""

from __future__ import annotations

import re
from typing import Final

ABOUT_ERRORS: Final = (
    "Weight error ranks tensors of one role (all ffn_down, say) and types of one tensor. It does "
    "not by itself predict the quality of a model's answers."
)
"""Shown wherever such figures are."""

MODEL_TREE_TEXTS: Final = {
    "model": "Open models, with their metadata and tensors. Select one to show it. ✘ marks what is "
    "damaged, ⚠ what breaks a rule or is refused by llama.cpp.",
    "what": "Type and size of a model or a layer, the type of a tensor, or a count.",
}
_PICTURE_TEXTS: Final = {
    "segments": "What is shown here: the filled one. Click another one, or use the arrow keys.",
    "types": "What the bytes are spent on: a part of the bar for each type, role or layer.",
    "problems": "What is wrong with the file, according to its header.",
    "bytes": (
        "The bytes of the file from top to bottom: offset, bytes in hex, and the same as text. "
        "Colours and lines show the field of each byte."
    ),
    "field_legend": "What the colours of the bytes mean.",
    "tensor_facts": "Type, shape, number of weights and bytes of the tensor.",
    "histogram": (
        "Number of weights in each bin. All weights are counted. The dashed curve is the normal "
        "distribution of the same mean and standard deviation."
    ),
    "histograms": "A histogram for each tensor, side by side.",
    "map": (
        "The tensor as a picture: rows from top to bottom, columns from left to right. A cell of "
        "several weights shows the figure that is chosen above."
    ),
    "codes": "Number of weights of each code. Unused codes are wasted bits.",
    "spread": "The distribution of the scales, or of the minima, of the blocks.",
    "block_bytes": (
        "The bytes of the block, at most eight in a line. Colours show the fields. The selected "
        "byte is marked in the other views."
    ),
    "block_weights": "The weights of the block, in the order in which they are stored.",
    "values": "The decoded weights, to six digits. Copies and exports have all digits.",
    "pair_histograms": "Weights of the reference and of the candidate, in the same bins.",
    "error_histogram": "Number of weights by error: candidate minus reference.",
    "density": (
        "Each pair of weights as a point: reference from left to right, candidate upwards. Without "
        "errors, all points are on the diagonal."
    ),
    "what_if_chart": (
        "A point for each type: bits per weight from left to right, error upwards. No type on the "
        "line is both larger and worse than another."
    ),
    "compare_chart": (
        "A point for each model: its size from left to right, its error against the original "
        "upwards. What others measured of it can be drawn in place of the error."
    ),
    "model_map": (
        "A cell for each role of each layer. Its colour shows the type, or the figure that is "
        "chosen above. Norms and biases share a column: quantizers leave them as they are. The "
        "last column has each layer's matrices together, the last line each role. The number of a "
        "layer selects the layer."
    ),
    "map_legend": "What the colours of the map mean.",
    "by_layer": (
        "A chart for each figure: layers from left to right, a line for each role. The bar below "
        "the lines has a cell for each layer, coloured by the figure of all its matrices together."
    ),
    "answer": "Whether the model fits with these settings, and changes that make it fit.",
    "bars": "The memory of each device, and its use. Click a part to see its formula.",
    "layers": (
        "A box for each layer, as wide as its bytes. Its colour shows the device. Drag the edge to "
        "move layers."
    ),
    "curves": "Total memory by context for each KV cache type. The dot is the current plan.",
}


def picture_text(name: str) -> str:
    """Return what a picture or a control shows, by its stable name."""
    return _PICTURE_TEXTS[name]


_NUMBER: Final = re.compile(r"\[\d+\]|(?<=buffers)\.\w+")
_PLAN_TEXTS: Final = {
    "weights": "Bytes of all weights that are loaded.",
    "kv_cache.total": "Bytes of the KV cache of all layers: keys and values of the text.",
    "kv_cache.per_layer[]": "Bytes of the KV cache of this layer.",
    "graph.full": "Compute graph of a batch on one GPU while all layers are on GPUs.",
    "graph.partial": "Compute graph of a batch on one GPU while some layers are on the CPU.",
    "layers[].weights": "Bytes of the weights of this layer.",
    "layers[].kv_cache": "Bytes of the KV cache that goes where this layer goes.",
    "devices[].weights": "Bytes of weights on this GPU.",
    "devices[].kv_cache": "Bytes of the KV cache on this GPU.",
    "devices[].graph": "Bytes of the compute graph on this GPU.",
    "devices[].reserved": "Bytes of this GPU that are kept free while layers are placed.",
    "devices[].total": "Bytes of the model on this GPU.",
    "cpu.weights": "Bytes of weights that stay in main memory.",
    "cpu.kv_cache": "Bytes of the KV cache that stays in main memory.",
    "cpu.compute": "Bytes of the buffers in main memory that a batch is computed with.",
    "cpu.graph": "Bytes in main memory that a batch is computed with, the upper end of a range.",
    "cpu.reserved": "Bytes of main memory that are kept free.",
    "cpu.total": "Bytes of the model in main memory.",
    "llama_cpp.buffers[].weights": "Bytes of weights in this buffer.",
    "llama_cpp.buffers[].cache": "Bytes of the KV cache and of recurrent state in this buffer.",
    "llama_cpp.buffers[].compute": "Bytes of this buffer that a batch is computed with.",
    "llama_cpp.buffers[].reserve": (
        "Bytes kept for the driver and other programs. No total includes them."
    ),
    "llama_cpp.buffers[].total": "Bytes that llama.cpp allocates on this GPU.",
    "vram_total": "Bytes of the model on all GPUs together.",
    "total": "Bytes of the model on GPUs and in main memory together.",
    "gpu_ratio": "Share of the layers on GPUs. 1 means all.",
    "quick_estimate_ratio": (
        "Memory of the GPUs for weights, divided by the size of the weights: the part of the model "
        "that fits, before layers are counted."
    ),
}


def plan_text(term: str) -> str:
    """Return the meaning of a figure by its place in a plan's JSON: ``"devices[0].graph"``."""
    return _PLAN_TEXTS[_NUMBER.sub("[]", term)]
