"""Whole reports: what is in them, and what must never be."""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from explorer.formats import Model, open_model
from explorer.formats.attachments import open_matrix
from explorer.hardware.detect import Machine
from explorer.planner import Host
from explorer.present.attachments import measure_updates
from explorer.present.colours import Pattern
from explorer.present.explanations import ABOUT_ERRORS
from explorer.present.panels import WORST_TENSORS
from explorer.present.tables.attachments import UPDATES
from explorer.report.gather import PlanTarget, ReportData, gather, plan_targets
from explorer.report.sections import most_interesting, rank, relative_step, report_html
from tests.analysis.test_importance import legacy
from tests.helpers.gguf_writer import ARRAY, F32, STRING, U32, Array, GgufFile, TensorSpec
from tests.helpers.model_pairs import arrays_of, write_safetensors
from tests.report.parsing import Page, check_html

DAY = date(2026, 7, 25)


def report(model: Model, reference: Model | None = None, **options: object) -> Page:
    data = gather(model, reference, **options)  # type: ignore[arg-type]
    return check_html(report_html(data, DAY))


def test_a_report_of_the_header_alone(quantized: Path, target: PlanTarget) -> None:
    with open_model(quantized) as model:
        page = report(model, survey=False, targets=[target])
    text = page.text
    assert "model-q8.gguf" in page.texts
    for heading in ("Overview", "Tensor types", "Checks", "Weights", "Memory plan", "Metadata"):
        assert heading in page.texts
    assert "The weights were not read" in text
    assert "The closest recipe is Q8_0" in text
    assert "ffn_down of layer 1 is Q4_0 instead of Q8_0" in text
    assert "✔ Fits: " in text
    assert "2,048 tokens" in text  # the model's longest context, below the usual ones
    assert "4,096 tokens" not in text
    assert "2026-07-25" in text
    assert "llama.attention.head_count_kv" in text
    assert WORST_TENSORS not in text


def test_the_norms_of_an_adapter_are_in_it(tmp_path: Path) -> None:
    name = "blk.0.attn_q.weight"
    arrays = arrays_of({f"{name}.lora_a": (4, 64), f"{name}.lora_b": (32, 4), name: (32, 64)}, 3)
    base = write_safetensors(tmp_path / "base.safetensors", {name: arrays.pop(name)})
    keys = [
        ("general.type", STRING, "adapter"),
        ("general.architecture", STRING, "llama"),
        ("adapter.type", STRING, "lora"),
        ("adapter.lora.alpha", F32, 8.0),
    ]
    specs = [TensorSpec(key, one.shape[::-1], 0, one.tobytes()) for key, one in arrays.items()]
    path = tmp_path / "lora.gguf"
    path.write_bytes(GgufFile(keys=keys, tensors=specs).build())
    with open_model(path) as model, open_model(base) as original:
        (row,) = measure_updates(model, original)
        norm = UPDATES["norm"].cell(row)
        page = report(model, original)
        unread = report(model, survey=False)
    assert "LoRA adapter of rank 4, alpha 8, for 1 tensor" in page.texts
    assert {name, norm, UPDATES["base_norm"].cell(row)} <= set(page.texts)
    assert "LoRA adapter of rank 4, alpha 8, for 1 tensor" in unread.texts
    assert any("Memory is planned for the model that it belongs to" in text for text in page.texts)
    assert not any("Fits" in text for text in page.texts)
    assert norm not in unread.texts


def test_a_vocabulary_alone_is_not_planned(tmp_path: Path) -> None:
    path = tmp_path / "vocab.gguf"
    keys = [("general.architecture", STRING, "llama"), ("llama.block_count", U32, 4)]
    path.write_bytes(GgufFile(keys=keys).build())
    with open_model(path) as model:
        texts = report(model, survey=False).texts
    assert "This file holds no weights, so there is no memory to plan." in texts
    assert not any("Fits" in text for text in texts)


def test_a_report_with_a_survey(quantized: Path) -> None:
    done: list[int] = []
    with open_model(quantized) as model:
        page = report(model, progress=done.append)
        assert done[-1] == 2 * model.parameters
    text = page.text
    assert f"{ABOUT_ERRORS} Nothing in this report does." in page.texts
    assert "coarsest rounding" in text
    spots = text[text.index("coarsest rounding") : text.index("Largest outliers")]
    assert spots.index("blk.1.ffn_down.weight") < spots.index("blk.0.attn_q.weight")
    assert "1 of 3" in spots
    assert "Histograms of tensors that stand out" in text
    assert "Every weight of every tensor could be read." in text
    assert "perplexity" not in text.lower()


def test_a_report_with_a_reference(quantized: Path, reference: Path) -> None:
    with open_model(quantized) as model, open_model(reference) as other:
        data = gather(model, other, workers=2)
        page = check_html(report_html(data, DAY))
    assert data.comparison is not None
    figures = {one.tensor.name: one.errors["relative_rmse"] for one in data.tensors}
    worst = figures["blk.1.ffn_down.weight"]
    assert worst > 4 * figures["blk.0.ffn_down.weight"] > 0
    assert figures["output_norm.weight"] == 0
    text = page.text
    assert "14 pairs of tensors, weight by weight." in text
    assert "Compared with reference.gguf" in text
    spots = text[text.index("largest error against") :]
    assert spots.index("blk.1.ffn_down.weight") < spots.index("blk.0.attn_q.weight")
    assert "This model (" in text or "This model is" in text
    assert "differs from it by" in text


def test_errors_of_a_report_are_weighted_by_a_matrix(
    quantized: Path, reference: Path, tmp_path: Path
) -> None:
    name = "blk.1.ffn_down.weight"
    with open_model(quantized) as model, open_model(reference) as other:
        columns = model.tensors[name].shape[-1]
        importance = np.linspace(0, 8, columns, dtype=np.float32)
        path = tmp_path / "imatrix.dat"
        path.write_bytes(legacy((name, 2, importance)))
        with open_matrix(path) as matrix:
            data = gather(model, other, matrix)
            text = check_html(report_html(data, DAY)).text
        r, c = (
            one.tensors[name].dequantize().reshape(-1, columns).astype(np.float64)
            for one in (other, model)
        )
    relative = np.sqrt((importance * (c - r) ** 2).sum() / (importance * r**2).sum())
    assert data.comparison is not None
    assert data.comparison.weighted == pytest.approx(relative, rel=1e-6)
    assert f"the tensors that the matrix has is {100 * relative:.4g}"[:45] in text
    assert "Weighted by the importance matrix imatrix.dat" in text
    assert "Largest error, weighted by importance" in text
    assert str(tmp_path) not in text


def test_the_second_report_reads_no_weights(
    quantized: Path, reference: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_model(quantized) as model, open_model(reference) as other:
        first = gather(model, other)
    with open_model(quantized) as model, open_model(reference) as other:
        for name in ("tensor_statistics", "measure_pairs"):
            monkeypatch.delattr(f"explorer.analysis.surveys.{name}")
        second = gather(model, other)
    assert [one.errors for one in first.tensors] == [one.errors for one in second.tensors]


def test_no_folder_is_in_a_report(
    quantized: Path, reference: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truncated = quantized.with_name("cut.gguf")
    truncated.write_bytes(quantized.read_bytes()[:-4096])
    monkeypatch.chdir(quantized.parent.parent)
    for path in (truncated, truncated.relative_to(Path.cwd())):
        with open_model(path) as model, open_model(reference) as other:
            assert model.problems
            page = report(model, other)
        assert "cut.gguf" in page.text
        for private in ("private folder", str(reference.parent), str(Path.home())):
            assert private not in page.text
        assert "Weights of 1 tensor cannot be read" in page.text


def test_other_formats_have_reports_too(tmp_path: Path, target: PlanTarget) -> None:
    arrays = arrays_of({"model.layers.0.mlp.up_proj.weight": (8, 16), "lm_head.weight": (16, 8)})
    folder = write_safetensors(
        tmp_path / "secret-project", arrays, model_type="llama", _name_or_path="/home/ada/run-7"
    )
    with open_model(folder) as model:
        page = report(model, targets=[target])
    assert "recipe" in page.text
    assert "…/run-7" in page.texts  # its name only, for it is a folder
    assert "secret-project" not in page.text


def test_a_model_that_cannot_be_planned(tmp_path: Path, target: PlanTarget) -> None:
    keys = [("general.architecture", STRING, "llama"), ("llama.block_count", STRING, "many")]
    specs = [TensorSpec("a.weight", (32,), 0, bytes(128))]
    file = GgufFile(keys=keys, tensors=specs, pad=True)
    with open_model(file.write(tmp_path / "odd.gguf")) as model:
        page = report(model, targets=[target])
    assert "✘ No plan" in page.text


def test_a_model_of_nothing(tmp_path: Path) -> None:
    with open_model(GgufFile(pad=True).write(tmp_path / "empty.gguf")) as model:
        page = report(model)
    assert "the file has no tensors" in page.text.lower()


ATTACKS = (
    "<img src=x onerror=alert(1)>",
    "</title></style></pre></svg></td><script>alert(1)</script>",
    "<!--",
    "]]><![CDATA[",
    "\" onmouseover=alert(1) x='",
    "javascript:alert(1)",
    "%n%s%x",
    "{0.__class__}{evidence}",
    "\u202egnp.exe\u2066",
    "\x1b[2J\x1b]0;title\x07",
    "\x00\x01\x7f\x9b",
    "&lt;b&gt;&#60;script&#62;",
    "=cmd|'/c calc'!A0",
)


def hostile(path: Path, long_name: int) -> Path:
    everything = " ".join(ATTACKS)
    keys = [
        ("general.architecture", STRING, ATTACKS[1][:60]),
        ("general.name", STRING, everything + "x" * long_name),
        ("general.license", STRING, everything),
        ("general.file_type", U32, 15),
        ("tokenizer.ggml.model", STRING, everything),
        ("tokenizer.chat_template", STRING, everything * 2000),
        ("quantize.imatrix.file", STRING, "/home/ada/secret/imatrix.dat"),
        *((f"key {i} {attack}", STRING, attack) for i, attack in enumerate(ATTACKS)),
        ("list", ARRAY, Array(STRING, list(ATTACKS))),
        *((f"many {i}", STRING, "<b>" * 500) for i in range(3000)),
    ]
    tensors = [
        TensorSpec(f"blk.{i}.{attack}.weight", (64, 2), 8, bytes(136))
        for i, attack in enumerate(ATTACKS)
    ]
    tensors += [TensorSpec(f"{attack}", (64, 2), 0, bytes(512)) for attack in ATTACKS]
    tensors += [TensorSpec("x" * 60_000, (64, 2), 0, bytes(512))]
    tensors += [TensorSpec(f"blk.{i}.role {i}", (4, 4), 0, bytes(64)) for i in range(400)]
    return GgufFile(keys=keys, tensors=tensors).write(path)


def test_nothing_of_a_model_becomes_markup(tmp_path: Path, target: PlanTarget) -> None:
    innocent = GgufFile(
        keys=[("general.architecture", STRING, "llama")],
        tensors=[TensorSpec("blk.0.attn_q.weight", (64, 2), 8, bytes(136))],
    ).write(tmp_path / "innocent.gguf")
    path = hostile(tmp_path / "<img src=x onerror=alert(1)>.gguf", long_name=10 << 20)
    with open_model(innocent) as model, open_model(path) as attacker:
        usual = report(model, targets=[target])
        html = report_html(gather(attacker, model, targets=[target]), DAY)
    page = check_html(html)
    assert {*page.tags} <= {*usual.tags, "pre", "a", "text", "path", "line", "li", "ul"}
    allowed = {*usual.attributes}
    allowed |= {("fill", f"url(#{pattern})") for pattern in Pattern}  # of this very document
    new = {(name, value) for name, value in page.attributes if (name, value) not in allowed}
    numeric = {"x", "y", "x1", "x2", "y1", "y2", "width", "height", "d", "viewbox", "fill"}
    assert {name for name, _ in new} - numeric <= {"class", "stroke-width", "stroke-dasharray"}
    assert all(
        set(value or "") <= set("0123456789. #abcdefLMZ-") for n, value in new if n in numeric
    )
    for sign in ("\x00", "\x1b", "\u202e", "\u2066", "\x07", "\x9b"):
        assert sign not in html
    assert "<img src=x onerror=alert(1)>.gguf" in page.texts  # the heading, as text
    assert ATTACKS[7] in page.text
    assert "secret" not in page.text
    assert "…/imatrix.dat" in page.text
    assert "characters)" in page.text  # what was cut says so
    assert "more rows left out." in page.text
    assert len(html) < 8 << 20


def test_the_size_does_not_grow_with_names(tmp_path: Path) -> None:
    sizes = []
    for length in (1000, 1 << 20):
        with open_model(hostile(tmp_path / f"{length}.gguf", length)) as model:
            sizes.append(len(report_html(gather(model, survey=False), DAY)))
    assert abs(sizes[1] - sizes[0]) < 1000


def _data_of(path: Path) -> ReportData:
    with open_model(path) as model:
        return gather(model)


def test_ranking_is_within_roles(quantized: Path) -> None:
    tensors = _data_of(quantized).tensors
    ranked = rank(tensors, relative_step)
    assert [one.value for one in ranked] == sorted((one.value for one in ranked), reverse=True)
    first = ranked[0]
    assert first.found.tensor.name == "blk.1.ffn_down.weight"
    assert (first.place, first.peers) == (1, 3)
    assert first.to_median > 4
    assert not any(math.isnan(one.value) for one in ranked)
    names = [one.tensor.name for one in most_interesting([ranked, ranked[::-1]], 3)]
    assert names == [one.found.tensor.name for one in (ranked[0], ranked[-1], ranked[1])]


def test_machines(target: PlanTarget) -> None:
    free = [one.devices[0].free for one in plan_targets((), None)]
    assert free == sorted({*free})
    assert len(free) == 3
    named = plan_targets(target.devices, None)
    assert [(one.name, one.devices) for one in named] == [("RTX", target.devices)]
    here = plan_targets((), Machine(target.devices, Host(1 << 30)))
    assert [(one.name, one.host) for one in here] == [("this machine (RTX)", Host(1 << 30))]
    assert plan_targets((), Machine((), Host(1 << 30))) == plan_targets((), None)
