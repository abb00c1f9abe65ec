"""What is really in a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtTest import QAbstractItemModelTester
from pytestqt.qtbot import QtBot

from explorer.analysis.recipes.fits import compare_with_recipes, type_mix
from explorer.present.recipes import verdict
from explorer.qt.document import Document
from explorer.qt.pages.type_mix import TypeMixPage
from explorer.qt.widgets.table_model import ItemRole
from explorer.qt.widgets.table_view import TableView
from tests.helpers.model_pairs import arrays_of, write_gguf, write_safetensors
from tests.helpers.services import RecordingServices
from tests.helpers.survey_views import SurveyPanel

Load = Callable[[Path], Document]
ARRAYS = arrays_of(
    {
        "token_embd.weight": (4, 256),
        **{
            f"blk.{i}.{role}.weight": (4, 256)
            for i in range(2)
            for role in ("attn_q", "ffn_down", "ffn_up")
        },
    }
)
TYPES = dict.fromkeys(ARRAYS, "Q4_0") | {"blk.1.ffn_down.weight": "Q8_0"}


def opened(qtbot: QtBot, app: RecordingServices, document: Document) -> SurveyPanel:
    panel = SurveyPanel(qtbot, app, document)
    page = panel.view.type_mix
    for table in (page.roles, page.recipes, page.deviations):
        QAbstractItemModelTester(
            table.table, QAbstractItemModelTester.FailureReportingMode.Warning, panel.view
        )
    panel.view.show_page(page)
    panel.settle()
    return panel


def cells(table: TableView, *names: str) -> list[list[object]]:
    model = table.table
    places = [[column.name for column in model.columns].index(name) for name in names]
    return [
        [model.index(row, place).data(ItemRole.RAW) for place in places]
        for row in range(model.rowCount())
    ]


def test_roles_recipes_and_the_verdict(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path
) -> None:
    document = load(write_gguf(tmp_path / "model.gguf", "llama", ARRAYS, TYPES, block_count=2))
    panel = opened(qtbot, app, document)
    page = panel.view.type_mix
    fits = compare_with_recipes(document.model)
    assert page.about.text() == verdict(document.model, fits)
    mix = type_mix(document.model)
    assert cells(page.roles, "role", "type", "tensors", "parameters") == [
        [row.role, row.type, row.tensors, row.parameters] for row in mix
    ]
    shown = cells(page.recipes, "recipe", "share", "difference")
    size = document.model.nbytes
    assert shown == [[fit.recipe, fit.share, size - fit.nbytes] for fit in fits]
    place = next(row for row, fit in enumerate(fits) if fit.recipe == "Q4_0")
    page.recipes.select_row(place)
    assert "Q4_0" in page.caption.text()
    expected = [[d.role, d.present, d.expected] for d in fits[place].deviations]
    assert cells(page.deviations, "role", "present", "expected") == expected
    assert ["ffn_down", "Q8_0", "Q4_0"] in expected


def test_a_model_that_no_recipe_is_for(
    qtbot: QtBot, app: RecordingServices, load: Load, tmp_path: Path, small: Document
) -> None:
    document = load(write_safetensors(tmp_path / "model", ARRAYS))
    panel = opened(qtbot, app, document)
    page: TypeMixPage = panel.view.type_mix
    assert "recipe" in page.about.text()
    assert page.recipes.table.rowCount() == page.deviations.table.rowCount() == 0
    assert page.roles.table.rowCount() == 4
    panel.show(small)
    assert page.roles.table.rowCount() == 1
    jobs: list[object] = []
    app.runner.started.connect(jobs.append)
    panel.show(document)  # what was worked out is there at once
    assert page.roles.table.rowCount() == 4
    assert [job.title for job in jobs] == []  # type: ignore[attr-defined]
