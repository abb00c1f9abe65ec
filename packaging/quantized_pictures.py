"""Take the pictures of docs/hf_quantization.md: GPTQ's groups, AWQ and its original, gpt-oss.

  .venv/bin/python packaging/quantized_pictures.py [MODEL.gguf]

Folders of these kinds are made of the model's first layers, rounded to nearest; of the demo model
if there is none. Pictures go to resources/screenshots/. Look at each one.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LAYERS = 4
GROUP = 64
ROLES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def make_folders(model_path: Path, folder: Path) -> dict[str, Path]:
    """Write an original, a GPTQ, an AWQ and a gpt-oss folder; return them by name."""
    from explorer.formats import open_model  # noqa: PLC0415 - the path is set first
    from explorer.quantization import quantize  # noqa: PLC0415
    from tests.formats.test_hf_words import words_of  # noqa: PLC0415
    from tests.quantization.test_hf_encode import Made  # noqa: PLC0415

    def stored(values: Any) -> tuple[str, Any]:
        raw = quantize(values.reshape(-1), "BF16").view("<u2")
        return "BF16", raw.reshape(values.shape)

    with open_model(model_path) as model:
        weights = {
            f"model.layers.{layer}.{module}": model.tensors[name].dequantize()
            for layer in range(LAYERS)
            for role, module in ROLES.items()
            if (name := f"blk.{layer}.{role}.weight") in model.tensors
        }
    title = model_path.stem.partition("-Q")[0]
    found = {"original": folder / title}
    write(found["original"], {f"{name}.weight": stored(one) for name, one in weights.items()}, {})
    for kind in ("gptq", "awq"):
        parts: dict[str, tuple[str, Any]] = {}
        for name, values in weights.items():
            made = Made(f"w4a16/{GROUP}/asym", values)
            own = words_of(kind, made.codes.T, made.zeros.T.astype("u1"))
            own["scales"] = stored(made.scales.T.copy())
            parts |= {f"{name}.{part}": array for part, array in own.items()}
        said = {"quant_method": kind, "bits": 4, "group_size": GROUP}
        said |= {"checkpoint_format": "gptq_v2"} if kind == "gptq" else {"version": "gemm"}
        found[kind] = folder / f"{title}-{kind.upper()}"
        write(found[kind], parts, said)
    gates = [values for name, values in weights.items() if name.endswith("gate_proj")]
    found["gpt-oss"] = folder / "gpt-oss"
    write(found["gpt-oss"], experts(gates), {"quant_method": "mxfp4"})
    return found


def experts(matrices: list[Any]) -> dict[str, tuple[str, Any]]:
    """Return matrices as the experts of a layer of gpt-oss."""
    import numpy as np  # noqa: PLC0415

    from tests.quantization.test_hf_encode import PACKERS, Made  # noqa: PLC0415

    parts = []
    for values in matrices:
        made = Made("mxfp4a16", values)
        parts.append(PACKERS[made.scheme.method](made)[0])
    blocks, scales = (
        np.stack([one[name][1] for one in parts]) for name in ("weight_packed", "weight_scale")
    )
    name = "model.layers.0.mlp.experts.gate_up_proj"
    shape = (*scales.shape, 16)
    return {f"{name}_blocks": ("U8", blocks.reshape(shape)), f"{name}_scales": ("U8", scales)}


def write(folder: Path, parts: dict[str, Any], said: dict[str, Any]) -> None:
    """Write a folder of safetensors."""
    from tests.formats.test_hf_rules import write_folder  # noqa: PLC0415

    write_folder(folder, parts, said)
    config = {"model_type": "llama", "num_hidden_layers": LAYERS, "quantization_config": said}
    (folder / "config.json").write_text(json.dumps(config))


def main(arguments: list[str]) -> int:
    """Make the folders, and take the pictures."""
    from operator import attrgetter  # noqa: PLC0415

    from PySide6.QtWidgets import QApplication  # noqa: PLC0415
    from screenshots import FOLDER, SIZE, settle, shrink  # noqa: PLC0415

    from explorer.paths import demo_model  # noqa: PLC0415
    from explorer.qt.main_window import MainWindow  # noqa: PLC0415
    from explorer.qt.settings import Settings  # noqa: PLC0415
    from explorer.qt.theme import Scheme, apply_scheme  # noqa: PLC0415

    folder = Path(tempfile.mkdtemp())
    models = make_folders(Path(arguments[0]) if arguments else demo_model(), folder)
    app = QApplication(sys.argv[:1])
    app.setStyle("Fusion")
    apply_scheme(Scheme.LIGHT)
    window = MainWindow(Settings(fresh=True))
    window.showNormal()
    window.resize(*SIZE)

    def rest() -> None:
        settle(lambda: not window.runner.jobs)

    window.open_paths(list(models.values()))
    settle(lambda: len(window.documents) == len(models) and not window.runner.jobs)
    documents = dict(zip(models, window.documents, strict=True))
    panels = window.panels
    for name, kind, reference, panel, page in (
        ("gptq-block", "gptq", None, "weights", "block_page"),
        ("awq-density", "awq", "original", "errors", "pictures.density"),
        ("gpt-oss-map", "gpt-oss", None, "weights", "map"),
    ):
        document = documents[kind]
        object.__setattr__(document, "path", Path("/models") / document.path.name)
        window.show_document(document)
        panels.references.choose(documents.get(reference) if reference else None)
        names = document.model.tensors.columns.names
        window.reveal_tensor(document, next(i for i, one in enumerate(names) if "gate" in one))
        holder = getattr(panels, panel)
        panels.setCurrentWidget(holder)
        rest()
        holder.widget.show_page(attrgetter(page)(holder.widget))
        tree = window.open_models.tree
        tree.expand(tree.currentIndex())  # its stored parts
        rest()
        shrink(window.grab()).save(str(FOLDER / f"{name}-light.png"), quality=0)
    window.close()
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
