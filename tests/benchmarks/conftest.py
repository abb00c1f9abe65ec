"""The report of a benchmark run."""

from __future__ import annotations

import pytest

from tests.benchmarks.report import Report

_REPORT = pytest.StashKey[Report]()


def pytest_configure(config: pytest.Config) -> None:
    """Make an empty report."""
    config.stash[_REPORT] = Report()


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """The table to which a benchmark adds its rows."""
    return request.config.stash[_REPORT]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table at the end of the run, whether tests failed or not."""
    report = config.stash.get(_REPORT, Report())
    if report.rows:
        terminalreporter.section("benchmarks")
        terminalreporter.write_line(report.markdown())
