"""Three front ends, one number: command line, report and window word each figure alike.

Each test takes one thing, asks all three for it and compares what stands on terminal, page and
screen: labels, figures and sentences, as they are shown.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import date
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel
from pytestqt.modeltest import ModelTester
from pytestqt.qtbot import QtBot

from explorer.analysis.adapters import Update
from explorer.analysis.block_detail import BlockReader
from explorer.analysis.block_search import read_compared
from explorer.analysis.blocks import block_statistics
from explorer.analysis.columns import Source
from explorer.analysis.errors.compare import Comparison
from explorer.analysis.errors.metrics import WeightedErrors
from explorer.analysis.errors.pairs import RoundedPair
from explorer.analysis.importance import EntryStatistics, MatrixEntry
from explorer.analysis.matching.pairing import match_models
from explorer.analysis.recipes.fits import Deviation
from explorer.analysis.requantization import requantize
from explorer.analysis.statistics import tensor_statistics
from explorer.analysis.surveys import survey
from explorer.analysis.what_if import PRESENT, SizeAfter
from explorer.cli import output
from explorer.cli.main import main
from explorer.formats import open_model
from explorer.formats.columns import tensor_arrays
from explorer.formats.facts import describe
from explorer.formats.tensors import TypeShare
from explorer.hardware import detect
from explorer.hardware.catalogue import load_catalogue
from explorer.planner import Device, Settings
from explorer.planner.advice import Advice
from explorer.planner.engines.ollama_013.engine import OLLAMA_013
from explorer.planner.environment import VARIABLES
from explorer.planner.inputs import PlanInputs, header_to_plan, plan_result
from explorer.planner.logs.comparison import Residual
from explorer.present import differences, tables
from explorer.present.attachments import EntryRow, UpdateRow
from explorer.present.curves import make_curves
from explorer.present.engines import PlanRow
from explorer.present.fits import Target, version_at
from explorer.present.plan import memory_bars, remarks
from explorer.present.quantization import DeclaredLine, DeclaredQuantization
from explorer.present.survey import summary_lines
from explorer.present.tables.attachments import ENTRIES, UPDATES
from explorer.present.tables.blocks import code_table, field_table, sub_block_table, weight_table
from explorer.present.tables.differences import KEYS as DIFFERENT_KEYS
from explorer.present.tables.differences import ROLES, SIDES, SIZES, TENSORS, side_rows
from explorer.present.tables.errors import (
    COMPARED,
    FIGURES,
    MISMATCHES,
    REQUANTIZED,
    compared_table,
)
from explorer.present.tables.library import LIBRARY, DownloadedModel, StoredFile, file_table
from explorer.present.tables.lines import LINES, lines_of
from explorer.present.tables.measured import MEASURED
from explorer.present.tables.metadata import element_table, keys_of, metadata_table
from explorer.present.tables.plans import (
    BUFFERS,
    BY_CONTEXT,
    ENGINES,
    GPUS,
    INPUTS,
    PLAN_FILE,
    PLANS,
    REMARKS,
    TERMS,
    bars_table,
    comparison,
    curves_table,
    layers_table,
)
from explorer.present.tables.problems import PROBLEMS
from explorer.present.tables.quantization import declared_table
from explorer.present.tables.quants import ListedModel, listed_table
from explorer.present.tables.recipes import DEVIATIONS, FITS, MIX
from explorer.present.tables.recipes import ROLES as RECIPE_ROLES
from explorer.present.tables.statistics import PRINTED, STATISTICS, bin_table, figures_of_all
from explorer.present.tables.survey import map_table, ranked_table, sums_table
from explorer.present.tables.table import Table
from explorer.present.tables.tensors import COMPONENTS, TYPES, tensor_table
from explorer.present.tables.what_if import Trial, trials_table, what_if_table
from explorer.present.what_if import WhatIfCache, WhatIfRequest, estimate_of, measure, trials_of
from explorer.qt.compare.summary import CompareView
from explorer.qt.contents.overview import OverviewView
from explorer.qt.document import Document
from explorer.qt.references import References
from explorer.qt.survey.session import SurveySession
from explorer.qt.widgets.table_model import ItemRole, TableModel
from explorer.qt.widgets.table_view import TableView
from explorer.report.gather import PlanTarget, gather
from explorer.report.sections import rank, report_html, table_of
from explorer.stores.entries import Blob, Place, StoreKind
from explorer.stores.library import read_details, read_stores
from explorer.text import bytes_text
from tests.helpers.error_views import ErrorsPanel
from tests.helpers.model_pairs import write_gguf
from tests.helpers.overview import shown_facts
from tests.helpers.services import RecordingServices
from tests.helpers.survey_views import SurveyPanel
from tests.helpers.weight_views import Panel as WeightsPanel
from tests.qt.planner.plan_models import GIB, MACHINE, write_model
from tests.qt.planner.plan_models import Panel as PlannerPanel
from tests.report.conftest import KEYS, SHAPES, arrays_of

Capture = pytest.CaptureFixture[str]
Load = Callable[[Path], Document]
Words = dict[str, str]

TENSOR = "blk.1.ffn_down.weight"
PREFIX = f"{tables.__name__}."
PARTS = {
    *("A role of one of two models", "A tensor of one of two models", "Errors", "Facts"),
    *("Percentiles", "Rounding to expect", "Statistics", "Errors of a tensor", "Sums"),
    *("Errors by importance", "A tensor against its original"),
}
"""Tables whose columns stand in other tables, or are listed of one thing."""
GPUS_OF_TEST = tuple(
    Device(str(i), "CUDA", 3 * GIB, name=f"GPU {name}") for i, name in enumerate("AB")
)


@pytest.fixture(autouse=True)
def known_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Look at a machine and a cache of the test's own, without Ollama's variables."""
    monkeypatch.setenv("GGUF_EXPLORER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(detect, "detect", lambda: MACHINE)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def make_panel(qtbot: QtBot, app: RecordingServices, load: Load) -> Callable[..., Any]:
    """Open a panel of the window with some models."""

    def make(kind: Callable[..., Any], *paths: Path) -> Any:
        documents = [load(path) for path in paths]
        return kind(qtbot, app, documents if len(documents) > 1 else documents[0])

    return make


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "reference.gguf", "llama", arrays_of(SHAPES), **KEYS)


@pytest.fixture
def quantized(tmp_path: Path) -> Path:
    types = {name: "Q4_K" for name, shape in SHAPES.items() if len(shape) > 1}
    return write_gguf(tmp_path / "quantized.gguf", "llama", arrays_of(SHAPES), types, **KEYS)


def command_line(capsys: Capture, *arguments: object) -> list[list[str]]:
    """Return the cells of each line that a command prints."""
    assert main([str(argument) for argument in arguments]) == 0
    return [re.split(r"\s{2,}", line.strip()) for line in capsys.readouterr().out.splitlines()]


def pairs_of(lines: list[list[str]]) -> Words:
    """Return the lines of a label and a text; of several with a label the first."""
    found: Words = {}
    for cells in lines:
        if len(cells) == 2:
            found.setdefault(cells[0], cells[1])
    return found


def report(section: str, path: Path, reference: Path | None = None, **request: Any) -> Element:
    """Return a section of a report."""
    with ExitStack() as stack:
        model = stack.enter_context(open_model(path))
        other = None if reference is None else stack.enter_context(open_model(reference))
        html = report_html(gather(model, other, **request), date(2026, 7, 25))
    page = ElementTree.fromstring(html.removeprefix("<!DOCTYPE html>"))
    found = page.find(f".//section[@id='{section}']")
    assert found is not None
    return found


def text_of(element: Element) -> str:
    return "".join(element.itertext())


def row_of(section: Element, first: str) -> Words:
    """Return a row, by its first cell, of the last table that has it."""
    found: Words = {}
    for table in section.iter("table"):
        heads = [text_of(cell) for cell in table.iter("th")]
        for row in table.iter("tr"):
            cells = [text_of(cell) for cell in row.iter("td")]
            if cells and cells[0] == first:
                found = dict(zip(heads, cells, strict=True))
    assert found
    return found


def window_lines(model: TableModel) -> Words:
    """Return a table of labels and figures, as it is shown."""
    return {
        model.index(row, 0).data(): model.index(row, 1).data() for row in range(model.rowCount())
    }


def assert_same(front_ends: dict[str, Words], labels: list[str]) -> None:
    """Assert that labels stand in each front end, beside the same text."""
    for label in labels:
        texts = {name: words.get(label) for name, words in front_ends.items()}
        assert None not in texts.values(), (label, texts)
        assert len(set(texts.values())) == 1, (label, texts)


def test_the_facts_of_a_model(
    qtbot: QtBot, app: RecordingServices, load: Load, quantized: Path, capsys: Capture
) -> None:
    lines = command_line(capsys, "inspect", quantized)
    section = report("overview", quantized, survey=False)
    terms, texts = ([text_of(one) for one in section.iter(tag)] for tag in ("dt", "dd"))
    view = OverviewView(app)
    qtbot.addWidget(view)
    view.show_document(load(quantized))
    window = shown_facts(view)
    heading = view.widget().findChildren(QLabel)[0].text()
    printed = pairs_of(lines[1 : 1 + len(terms)])
    written = dict(zip(terms, texts, strict=True))
    if "Name" in written:  # it is the heading of the page
        window = {"Name": heading, **window}
    assert list(printed) == terms
    assert printed == written == window
    assert {"Parameters", "Layers", "KV heads", "Size of tensors"} <= set(printed)


def test_the_statistics_of_a_tensor(
    make_panel: Callable[..., Any], quantized: Path, capsys: Capture
) -> None:
    printed = pairs_of(command_line(capsys, "stats", quantized, TENSOR))
    printed["Rounding error, RMS"] = printed["Rounding error, RMS"].removesuffix(
        " (from the block scales)"
    )
    panel = make_panel(WeightsPanel, quantized)
    panel.show(TENSOR)
    shown = window_lines(panel.view.histogram.statistics)
    written = row_of(report("weights", quantized), TENSOR)
    fronts = {"command line": printed, "window": shown}
    assert_same(fronts, list(shown))
    assert [label for label in printed if label in shown] == list(shown)
    labels = ["Minimum", "Maximum", "Mean", "Standard deviation", "Root mean square"]
    labels += ["Outlier ratio", "Rounding error, RMS"]
    for label in labels:  # a table has fewer digits than the list of one tensor
        exact, rounded = (one[label].removesuffix(" ×") for one in (shown, written))
        assert float(rounded) == pytest.approx(float(exact), rel=1e-4)


def test_the_errors_of_a_tensor(
    make_panel: Callable[..., Any], quantized: Path, reference: Path, capsys: Capture
) -> None:
    lines = command_line(capsys, "compare", reference, quantized, "--tensor", TENSOR)
    printed = dict(zip(lines[0], lines[1], strict=True))
    panel = make_panel(ErrorsPanel, quantized, reference)
    panel.select(TENSOR)
    panel.references.choose(panel.documents[1])
    panel.settle()
    shown = window_lines(panel.view.pictures.table)
    written = row_of(report("weights", quantized, reference), TENSOR)
    labels = ["Relative RMSE", "SQNR"]
    assert_same({"command line": printed, "window": shown, "report": written}, labels)
    labels += ["RMSE", "Maximum error", "Bias", "1 - cosine"]
    assert_same({"command line": printed, "window": shown}, labels)


def test_the_survey_of_a_model(
    make_panel: Callable[..., Any], quantized: Path, reference: Path, capsys: Capture
) -> None:
    lines = command_line(capsys, "survey", quantized)
    rows = {cells[0]: dict(zip(lines[0], cells, strict=False)) for cells in lines[1:]}
    written = report("weights", quantized, reference)
    figures: dict[str, dict[str, str]] = {}
    for compares in (False, True):
        panel = make_panel(
            lambda *args, on=compares: SurveyPanel(*args[:2], *args[2], compares=on),
            *(reference, quantized),
        )
        panel.choose(panel.references.documents[0])
        panel.survey()
        panel.view.show_page(panel.view.worst_tensors)
        model = panel.view.worst_tensors.model
        titles = [str(column.title) for column in model.columns]
        for place, name in enumerate(panel.ranked()):
            cells = {title: model.index(place, c).data() for c, title in enumerate(titles)}
            figures[str(name)] = figures.get(str(name), {}) | cells
            if not compares:
                raw = model.index(place, titles.index("Standard deviation")).data(ItemRole.RAW)
                figures[str(name)]["raw"] = raw
    for name in (name for name, shape in SHAPES.items() if len(shape) > 1):
        shown = figures[name]
        fronts = {"command line": rows[name], "report": row_of(written, name)}
        assert_same(fronts, ["Minimum", "Maximum", "Mean", "Root mean square"])
        assert_same({**fronts, "window": shown}, ["Outlier ratio"])
        assert_same({"report": fronts["report"], "window": shown}, ["Relative RMSE", "SQNR"])
        assert_same(fronts, ["Standard deviation"])  # the window's has fewer digits
        assert rows[name]["Standard deviation"] == STATISTICS["std"].write(shown["raw"])


def test_two_models_side_by_side(
    make_panel: Callable[..., Any], quantized: Path, reference: Path, capsys: Capture
) -> None:
    """`diff`, its JSON and the window; the errors are those of survey and report."""
    paths = quantized, reference, "--original", reference
    lines = command_line(capsys, "diff", *paths)
    assert main(["diff", *map(str, paths), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    panel = make_panel(CompareWindow, reference, quantized)
    pages = panel.view.pages

    def shown(model: TableModel) -> list[list[str]]:
        columns = range(model.columnCount())
        return [[model.index(r, c).data() for c in columns] for r in range(model.rowCount())]

    sizes = {cells[0]: cells[1:3] for cells in shown(pages.sizes.table)}
    printed = {cells[0]: cells[1:3] for cells in lines if cells[0] in sizes}
    for name in ("Relative RMSE, matrices", "SQNR, matrices"):  # of B, the original itself
        assert printed.pop(name)[0] == sizes.pop(name)[0]
    assert printed == sizes
    assert printed["Size of tensors"] == [
        bytes_text(record["size"][side]["bytes"]) for side in "ab"
    ]
    titles = [str(column.title) for column in pages.roles.table.columns]
    roles = [dict(zip(titles, cells, strict=True)) for cells in shown(pages.roles.table)]
    heads = next(cells for cells in lines if cells[0] == "Role")
    for role, found in zip(roles, record["errors"]["roles"], strict=True):
        cells = next(cells for cells in lines if cells[0] == role["Role"])
        told = dict(zip(heads, cells, strict=True))
        assert told["Relative RMSE A"] == role["Relative RMSE A"]
        assert (told["Types A"], told["Types B"]) == (role["Types A"], role["Types original"])
        by_name = {one["role"]: one for one in record["errors"]["roles"]}
        figure = by_name[role["Role"]]["a"]["relative_rmse"]
        assert FIGURES["relative_rmse"].write(figure) == role["Relative RMSE A"]
        assert found["b"]["relative_rmse"] == 0

    figure = record["errors"]["matrices"]["a"]["relative_rmse"]
    said = text_of(report("weights", quantized, reference))
    for sentence in (record["summary"][0], panel.view.headline.text(), said):
        assert FIGURES["relative_rmse"].write(figure) in sentence
    assert main(["compare", str(reference), str(quantized), "--json"]) == 0
    sums = json.loads(capsys.readouterr().out)["sums"]
    assert sums["matrices"]["relative_rmse"] == pytest.approx(figure, rel=1e-12)
    total = record["errors"]["total"]["a"]["relative_rmse"]
    assert sums["all"]["relative_rmse"] == pytest.approx(total, rel=1e-12)


def rows_of_tables(reference: Path, quantized: Path) -> Iterator[tuple[str, Table[Any], Any]]:
    """Yield tables that front ends share, with rows of two models."""
    with ExitStack() as stack:
        one, other = (stack.enter_context(open_model(path)) for path in (reference, quantized))
        bad = stack.enter_context(open_model(cut_short(quantized)))
        matching = match_models(one, other)
        rows = list(Comparison(matching.matches).rows())
        yield "errors of tensors", COMPARED, rows
        assert rows[0].errors is not None
        errors = replace(rows[0].errors, weighted=WeightedErrors(1.0, 8.0))
        weighted = [replace(rows[0], errors=errors), *rows[1:]]
        yield "errors by importance", compared_table(weighted=True), weighted
        yield "errors of both", SIDES, side_rows(weighted, rows[1:])
        yield "not comparable", MISMATCHES, matching.not_comparable
        yield "statistics", PRINTED, list(survey(other))
        types = ["Q8_0", "IQ1_S", "int4"]
        yield "other types", REQUANTIZED, list(requantize(one.tensors[TENSOR], types))
        data = gather(other, one)
        yield "figures of a report", figures_of_all(compared=True), data.tensors
        assert data.sums is not None
        for by_layer in (False, True):
            lines = summary_lines(data.sums, by_layer=by_layer)
            yield "sums", sums_table(Source.ERRORS), lines
            yield "sums", sums_table(None), lines
        ranked = rank(data.tensors, lambda tensor: tensor.tensor.parameters)
        yield "worst tensors", ranked_table("outlier_ratio"), ranked
        found = differences.Comparison.of(one, other)
        found = found.with_errors(differences.measure_errors((one, other), None))
        yield "sizes", SIZES, list(differences.size_rows(found))
        yield "keys", DIFFERENT_KEYS, differences.key_rows(found)
        yield "tensors of two models", TENSORS, found.found.tensors
        yield "roles of two models", ROLES, differences.role_rows(found)
        yield "problems", PROBLEMS, bad.problems
        yield "types by role", MIX, data.mix
        yield "recipes", FITS, data.fits
        estimate = estimate_of(
            WhatIfRequest(one, None, ("Q4_K_M", "IQ1_S"), by_recipe=True), PlanInputs()
        )
        cache = WhatIfCache()
        errors = measure(estimate, cache).errors
        yield "tried recipes", trials_table(weighted=False), trials_of(estimate, errors)[1:]
        yield "roles of a recipe", RECIPE_ROLES, estimate.roles("Q4_K_M", cache)
    yield from rows_of_contents(quantized)
    yield from rows_of_plans(quantized)
    yield from rows_of_pictures(quantized)


def rows_of_contents(path: Path) -> Iterator[tuple[str, Table[Any], Any]]:
    """Yield tables of one model, of its blocks, and of where it lies."""
    with open_model(path) as other:
        tensors, arrays = range(len(other.tensors.rows)), tensor_arrays(other.tensors)
        yield "tensors", tensor_table(other, arrays), tensors
        yield "types", TYPES, describe(other).types
        yield "components", COMPONENTS, [TypeShare("text encoder t5xxl", 3, 48, 96, 0.5)]
        yield "metadata", metadata_table(), list(keys_of(other, 100))
        yield "elements", element_table("a", [1, 5, 3]), range(3)
        blocks = block_statistics(other.tensors[TENSOR])
        assert blocks is not None
        yield "codes", code_table(blocks), range(len(blocks.code_counts))
        pair = RoundedPair(other.tensors[TENSOR], "Q4_0")
        detail = BlockReader(other.tensors[TENSOR]).read(1)
        run = detail.start, detail.values.size
        beside = read_compared([pair], other.tensors[TENSOR], run)
        yield "fields", field_table(detail), range(len(detail.fields))
        yield "sub-blocks", sub_block_table(detail, beside), range(detail.scales.size)
        yield "weights", weight_table(detail, beside), range(detail.values.size)
    folder = Place(StoreKind.FOLDER, path.parent)
    (store,) = read_stores([folder])
    target = Target((), None)
    yield (
        *("models", LIBRARY),
        [
            DownloadedModel(e, read_details(e), version_at(e.path, target).fit)
            for e in store.entries
        ],
    )
    blob = Blob("sha256-12", path, 7, ("a:latest", "b:latest"))
    files = [StoredFile.of(blob, store), StoredFile.of(blob, store, finished=False)]
    yield "files", file_table(files), files
    choices = [ListedModel("a", path, 7), ListedModel("b", path, 0)]
    choices[1].version = version_at(path, target)
    yield "choices", listed_table(choices), choices
    yield "GPUs", GPUS, load_catalogue().gpus


def rows_of_plans(path: Path) -> Iterator[tuple[str, Table[Any], Any]]:
    """Yield tables of plans of a model, one of which could not be made."""
    inputs = PlanInputs(Settings(context=4096), GPUS_OF_TEST, profile=OLLAMA_013.name)
    with open_model(path) as model:
        h = header_to_plan(model)
    plan = plan_result(h, inputs, {}).plan
    by_llama = plan_result(h, replace(inputs, profile="llama.cpp"), {}).plan
    assert plan is not None
    assert by_llama is not None
    bars = memory_bars(by_llama, None)
    yield "devices", bars_table(bars), bars
    yield "layers", layers_table(["A", "B"]), plan.layers
    yield "terms", TERMS, plan.terms
    yield "inputs", INPUTS, list(plan.terms[0].inputs.items())
    yield "notes", REMARKS, remarks(plan)
    yield "buffers", BUFFERS, by_llama.details.buffers()
    curves = make_curves(h, inputs, {}, lambda: None, 2048)
    yield "curves", curves_table(curves), range(curves.curves[0].contexts.size)
    advice = Advice("context", 4096, "the context that it was trained with")
    rows = [
        PlanRow("1024", plan, profile=OLLAMA_013.name, advice=advice),
        PlanRow("2048", by_llama, profile="llama.cpp"),
        PlanRow("4096", None, "it has no blocks", "ollama"),
    ]
    yield "plans", PLANS, rows
    yield "plans beside the first", comparison(rows), rows
    yield "plans in a file", PLAN_FILE, rows
    yield "plans by context", BY_CONTEXT, rows
    engines = [PlanRow("", plan), PlanRow("", None, "refused", by_llama.engine.name)]
    yield "engines", ENGINES, engines
    logged = [Residual("GPU0", "weights", 7, 9, 1), Residual("host", "compute", None, 5, 0)]
    yield "a log", MEASURED, logged


def rows_of_pictures(path: Path) -> Iterator[tuple[str, Table[Any], Any]]:
    """Yield tables of a tensor's figures, of pictures, and of files that are no whole models."""
    with open_model(path) as model:
        found = tensor_statistics(model.tensors[TENSOR])
    yield "bins", bin_table(found.histogram), range(found.histogram.counts.size)
    yield "figures of a tensor", LINES, lines_of(STATISTICS, found)
    values = {("ffn_down", 0): 0.5, ("attn_q", 1): 1.25}
    yield "a map", map_table([0, 1], values, str), ["ffn_down", "attn_q"]
    update = Update("a.weight", None, None, 4, 0.5, (8, 8), flipped=False)
    updates = [UpdateRow(update, 2.5, math.nan), UpdateRow(update, math.nan, math.nan, "no B")]
    yield "updates", UPDATES, updates
    entry = MatrixEntry("a.weight", 64, 2)
    numbers = EntryStatistics(entry, 1, 2, 1, 0.0, 4.0, 0.5, 0.25, 0.75, 0.125, ())
    yield "importance", ENTRIES, [EntryRow(entry, numbers), EntryRow(entry, None, "cut short")]
    said = (DeclaredLine("bits", "Bits", "4", "8", differs=True),)
    declared = DeclaredQuantization("config.json", said, {})
    yield "declared", declared_table(declared), said
    deviation = Deviation("ffn_down", "Q4_K", "Q6_K", (0, 1), 2, 1000)
    yield "deviations", DEVIATIONS, [deviation]
    size = SizeAfter(1000, 700, 800, 900)
    lines = [Trial("Q4_0", "Q4_0", size, size), Trial(PRESENT, "As it is", size, size)]
    yield "what if", what_if_table(), lines
    yield "what if by recipe", what_if_table(by_recipe=True), lines


def cut_short(path: Path) -> Path:
    short = path.with_name("short.gguf")
    short.write_bytes(path.read_bytes()[:-64])
    return short


def test_every_table(
    qtbot: QtBot,
    qtmodeltester: ModelTester,
    app: RecordingServices,
    quantized: Path,
    reference: Path,
) -> None:
    """The window, the terminal, the report, JSON and files have the same heads and cells."""
    view = TableView(TableModel(), app)
    qtbot.addWidget(view)
    seen, titles = 0, set()
    for name, table, rows in rows_of_tables(reference, quantized):
        titles.add(table.title)
        view.show_rows(table, rows)
        columns = table.shown(rows)
        shown = [view.table.columns[place] for place in view.chosen_columns()]
        assert [one.name for one in shown] == [column.name for column in columns], name
        window = [[view.table.text(one, row) for one in shown] for row in range(len(rows))]
        written = table_of(table, rows, longest=10_000)
        on_page = [[getattr(cell, "text", cell) for cell in cells] for cells in written.rows]
        lines = output.TableLines(table, rows, longest=10_000)
        for row, cells, page in zip(rows, window, on_page, strict=False):
            assert cells == page or table.why_blank(row), name
            printed = " ".join(lines.line(row).split())
            known = [text for text in cells if text] if not table.why_blank(row) else cells[:1]
            assert " ".join(" ".join(known).split()) in printed, name
            record = table.record(row)
            for column in columns:
                if column.text is None and not column.flat_only:
                    assert column.write(record[column.name]) == column.cell(row), name
            assert len(table.flat(row)) == len(table.names)
            seen += 1
        for column in range(view.table.columnCount()):
            view.table.sort(column, Qt.SortOrder.DescendingOrder)
        qtmodeltester.check(view.table)
        cells = view.table.cells(range(len(rows)), range(view.table.columnCount()))
        kinds = {type(cell) for row in cells for cell in row}
        assert kinds <= {str, int, float, bool, type(None)}, name
    assert seen > 60
    defined = (vars(import_module(one.name)) for one in iter_modules(tables.__path__, PREFIX))
    whole = {t.title for module in defined for t in module.values() if isinstance(t, Table)}
    assert whole - titles == PARTS


class CompareWindow:
    """The summary of the second model beside the first, its original; all weights compared."""

    def __init__(self, qtbot: QtBot, app: RecordingServices, documents: list[Document]) -> None:
        references = References(app)
        references.set_documents(documents)
        references.show_document(documents[-1])
        session = SurveySession(app, references, compares=True)
        self.view = CompareView(app, session)
        qtbot.addWidget(self.view)
        self.view.show()
        self.view.show_document(documents[-1])
        references.choose(documents[0])
        qtbot.waitUntil(lambda: not app.runner.jobs)
        session.start()
        qtbot.waitUntil(lambda: not app.runner.jobs)


@pytest.mark.parametrize("what", ["report", "compare"])
def test_the_total_error_says_which_tensors_it_counts(
    quantized: Path, reference: Path, capsys: Capture, what: str
) -> None:
    """`compare` counts every tensor, the report matrices only: each says so."""
    if what == "compare":
        lines = command_line(capsys, "compare", reference, quantized)
        assert ["All compared tensors, norms and biases included"] in lines
        return
    text = text_of(report("weights", quantized, reference))
    assert "The error is that of all matrices; norms and biases are left out." in text


def open_planner(qtbot: QtBot, app: RecordingServices, document: Document) -> PlannerPanel:
    panel = PlannerPanel(app)
    qtbot.addWidget(panel.view)
    panel.begin(qtbot, document)
    return panel


@pytest.mark.parametrize("free", [1, 3, 10], ids=["not", "partly", "fits"])
def test_a_plan_on_two_gpus(
    make_panel: Callable[..., Any], tmp_path: Path, capsys: Capture, free: int
) -> None:
    path = write_model(tmp_path / "model.gguf", blocks=48)
    gpus = [Device(one.id, one.library, free * GIB // 2, name=one.name) for one in GPUS_OF_TEST]
    specs = [f"--gpu=name={one.name},free={one.free},library=CUDA" for one in gpus]
    lines = command_line(capsys, "plan", path, "--context", 8192, *specs)
    printed = pairs_of(lines)
    table = command_line(capsys, "plan", path, path, "--context", 8192, *specs)
    row = dict(zip(table[0], table[1], strict=True))

    target = PlanTarget("two GPUs", tuple(gpus))
    section = report("plan", path, survey=False, targets=[target], contexts=[8192])
    written = row_of(section, "8,192")

    panel = make_panel(open_planner, path)
    panel.state.replace_inputs(devices=tuple(gpus), profile="llama.cpp")
    panel.state.replace_inputs(host=None)
    panel.state.set(context=8192)
    page = panel.body.compare
    panel.body.pages.setCurrentWidget(page)
    panel.settle()
    model = page.model
    shown = {
        str(column.title): model.index(0, place).data()
        for place, column in enumerate(model.columns)
    }

    sizes = ["Weights", "KV cache", "Compute on each GPU", "Compute on all GPUs", "On GPUs"]
    sizes += ["On the CPU", "In all"]
    fronts = {"report": written, "window": shown, "table of the command line": row}
    assert_same(fronts, [*sizes, "Layers on GPUs"])
    short = {label: printed[label].split(" (")[0] for label in (*sizes, "Layers on GPUs")}
    assert_same({"command line": short, "window": shown}, [*sizes, "Layers on GPUs"])

    sentence = panel.body.answer.sentence.text()
    verdict = written["Fits"].split(" ", 1)[1]
    assert lines[0] == [f"{path}: {verdict}"]
    assert sentence.split("  ", 1)[1].startswith(verdict)
    assert {1: "Does not fit", 3: "Fits partly", 10: "Fits: "}[free] in verdict

    bars = panel.body.picture.bars.bars
    for bar in bars:
        if bar.layers != "no layers":
            assert f"{bar.title}, {bar.layers}" in written["Layers"]
            assert any("  ".join(cells).startswith(bar.title) for cells in lines), bar.title
            assert any(f", {bar.layers}" in "  ".join(cells) for cells in lines), bar.layers
    if free == 10:
        assert shown["Compute on each GPU"] != shown["Compute on all GPUs"]
