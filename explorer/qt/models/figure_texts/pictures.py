"""What pictures, read-outs and panels show."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication


def _tr(text: str) -> str:
    return QCoreApplication.translate("FigureTexts", text)


def panel_texts() -> dict[str, str]:
    """Return what each panel is for, by its object name. Shown where nothing else explains."""
    return {
        "library": _tr("The models that other programs have downloaded. F1 tells more."),
        "overview": _tr("What the model is, and what its bytes are spent on. F1 tells more."),
        "metadata": _tr("The named values of the header. F1 tells more."),
        "tensors": _tr("Every tensor of the model, to be filtered and sorted. F1 tells more."),
        "weights": _tr("The weights of a tensor, and how they are stored. F1 tells more."),
        "errors": _tr("What a tensor has lost, or would lose, by quantization. F1 tells more."),
        "survey": _tr("All tensors of the model at once. F1 tells more."),
        "vocabulary": _tr("The tokens that the model reads and writes. F1 tells more."),
        "planner": _tr("Whether the model fits into memory, and why. F1 tells more."),
        "raw": _tr("The bytes of the file, and what they mean. F1 tells more."),
    }


def picture_text(name: str) -> str:
    """Return what a picture or a line of text shows, by its stable name."""
    return (_texts_of_models() | _texts_of_weights() | _texts_of_errors() | _texts_of_plans())[name]


def _texts_of_models() -> dict[str, str]:
    return {
        "name": _tr("The name that the file gives."),
        "file": _tr("Format, licence and path of the model."),
        "types": _tr(
            "A bar for each tensor type, the one with most bytes on top: its share of all bytes, "
            "its bytes, and how many tensors have it."
        ),
        "problems": _tr("What is wrong with the file, as far as its header tells."),
        "totals": _tr("What the tensors that the filter leaves, and those selected, come to."),
        "listed": _tr("How many lines the filter leaves, of all there are."),
        "download": _tr("What is known of the selected line, and what it shares with others."),
        "download_total": _tr(
            "What the selected lines take on disk; blobs that they share count once."
        ),
        "bytes": _tr(
            "The bytes of the file from top to bottom: offset, bytes in hex, and the same as "
            "text. Colours and lines tell what a byte belongs to."
        ),
        "field": _tr("What the byte under the cursor belongs to, and where that begins."),
        "numbers": _tr("The bytes from the cursor on, read as numbers of different types."),
        "field_legend": _tr("What the colours of the bytes mean."),
        "vocabulary_size": _tr("How many tokens the search leaves, of all there are."),
    }


def _texts_of_weights() -> dict[str, str]:
    return {
        "tensor_facts": _tr("Type, shape, number of weights and bytes of the tensor."),
        "caption": _tr("What is told of the tensor here, and what the picture leaves out."),
        "histogram": _tr(
            "How many weights lie in each bin. All weights are counted, none is sampled. The "
            "dashed curve is the normal distribution of the same mean and deviation."
        ),
        "histograms": _tr("A histogram for each tensor, beside one another."),
        "readout": _tr("What is under the cursor, in numbers; else what the picture leaves out."),
        "map": _tr(
            "The tensor as a picture: rows from top to bottom, columns from left to right. Where a "
            "cell stands for several weights, it shows what is chosen above."
        ),
        "codes": _tr("How many weights have each code. Codes that nobody uses are wasted bits."),
        "spread": _tr("How the scales, or the minima, of the blocks are spread."),
        "block_bytes": _tr(
            "The bytes of the block, eight to a line at most. Colours tell which part they belong "
            "to; what is chosen here is marked in the other views."
        ),
        "block_weights": _tr("The weights of the block, in the order in which they are stored."),
        "block_total": _tr("How many blocks the tensor has."),
        "block_place": _tr("Where the block is in the tensor, and its bytes in the file."),
        "values": _tr("The decoded weights, to six digits; copying and export take them all."),
    }


def _texts_of_errors() -> dict[str, str]:
    return {
        "pair_histograms": _tr(
            "Weights of the reference and of the candidate, counted in the same bins."
        ),
        "error_histogram": _tr(
            "How many weights have an error of each size: candidate minus reference."
        ),
        "density": _tr(
            "Each pair of weights as a point: reference from left to right, candidate upwards. "
            "Without any error all would lie on the diagonal."
        ),
        "what_if_chart": _tr(
            "A point for each type: bits per weight from left to right, error upwards. No type "
            "on the line is both larger and worse than another."
        ),
        "model_map": _tr(
            "A cell for each role of each layer; its colour tells the type, or the figure that is "
            "chosen above."
        ),
        "map_legend": _tr("What the colours of the map mean."),
        "cell": _tr("What is known of the cell under the mouse, else of the selected one."),
        "known": _tr("Of how many tensors all weights were read."),
        "progress": _tr("How much has been read so far, and what is still to be read."),
        "deviations": _tr("What has another type than by the recipe that is selected above."),
        "rules": _tr("Where the recipes come from."),
        "verdict": _tr(
            "How far the types agree with what llama.cpp would have chosen. It is no proof of how "
            "the file was made."
        ),
    }


def _texts_of_plans() -> dict[str, str]:
    return {
        "answer": _tr("Whether the model fits with these settings, and what would make it fit."),
        "reply": _tr("The most that fits, all other settings as they are."),
        "bars": _tr(
            "The memory of each device from end to end, and what it is spent on. Click a part to "
            "see its formula."
        ),
        "layers": _tr(
            "A box for each layer, as wide as its bytes; its colour tells the device. Drag the "
            "edge to move layers."
        ),
        "curves": _tr(
            "Memory in all against the context, for each type of the KV cache. The dot is the plan "
            "of now."
        ),
        "holds": _tr(
            "What really holds after Ollama's own rules; it may differ from what was asked for."
        ),
        "figure": _tr("The figure that is explained below, rounded and to the byte."),
        "formula": _tr("How the figure is worked out, in the symbols of the table below."),
    }
