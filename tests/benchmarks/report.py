"""Collects what benchmarks measured and prints it as a Markdown table at the end of the run."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
        what: What was done.
        ours: What it cost us, with its unit.
        peer: What it cost the peer, and who that is.
        ratio: The comparison as one number, such as "2300× faster".
        target: What was aimed at.
        met: Whether the target was met in this run.
    """

    what: str
    ours: str
    peer: str
    ratio: str
    target: str
    met: bool


@dataclass
class Report:
    """The rows of one run."""

    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Note a comparison."""
        self.rows.append(row)

    def markdown(self) -> str:
        """Return the table."""
        lines = ["| what | ours | peer | ratio | target | met |", "|---|---|---|---|---|---|"]
        for row in self.rows:
            cells = (
                row.what,
                row.ours,
                row.peer,
                row.ratio,
                row.target,
                "yes" if row.met else "NO",
            )
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)


def milliseconds(seconds: float) -> str:
    """Return a time for the table."""
    return f"{1000 * seconds:,.1f} ms" if seconds < 10 else f"{seconds:,.1f} s"
