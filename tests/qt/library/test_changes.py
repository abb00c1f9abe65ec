"""Steps from the rows that are shown to those that are wanted."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.qt.library.rows import Node, Row, RowKind
from explorer.qt.library.tree_model import changes

_NODES = [Node(Row(RowKind.ENTRY, str(number), str(number)), None) for number in range(12)]
_LISTS = st.lists(st.sampled_from(_NODES), unique_by=lambda node: node.id)


@settings(max_examples=200)
@given(shown=_LISTS, wanted=_LISTS)
def test_the_steps_lead_from_any_rows_to_any_others(shown: list[Node], wanted: list[Node]) -> None:
    plan = changes(shown, wanted)
    rows = list(shown)
    for run in plan.removed:
        assert rows[run.first : run.first + len(run.nodes)] == run.nodes
        del rows[run.first : run.first + len(run.nodes)]
    assert plan.moved == (rows != plan.kept)
    rows = list(plan.kept)
    for run in plan.inserted:
        rows[run.first : run.first] = run.nodes
    assert rows == wanted
    assert plan.steps == len(plan.removed) + plan.moved + len(plan.inserted)


def test_nothing_is_to_be_done_where_nothing_changes() -> None:
    assert changes(_NODES, _NODES).steps == 0
