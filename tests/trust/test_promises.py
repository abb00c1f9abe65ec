"""docs/security.md names a test, which is there, for each promise in its tables."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
_NAMED = re.compile(r"`((?:\w+/)*\w+\.py)`")
_LAST = ("held by", "test")  # heads of the column that names tests


def test_every_promise_names_a_test_that_is_there() -> None:
    document = (TESTS.parent / "docs" / "security.md").read_text(encoding="utf-8")
    named, promises = set[str](), 0
    for table in re.findall(r"(?m)^\|.*(?:\n\|.*)+", document):
        head, _, *rows = table.splitlines()
        if head.rstrip("| ").rpartition("| ")[2] not in _LAST:
            continue
        for row in rows:
            found = _NAMED.findall(row.rstrip("| ").rpartition(" | ")[2])
            assert found, row
            named.update(found)
            promises += 1
    assert promises > 30
    assert [name for name in sorted(named) if not (TESTS / name).is_file()] == []
