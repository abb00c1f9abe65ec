"""What benchmarks measured beside their peers, as one Markdown table at the end of the run."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Report:
    """The rows of one run."""

    rows: list[tuple[str, ...]] = field(default_factory=list)

    def compare(
        self,
        what: str,
        ours: float,
        peer: tuple[str, float],
        *,
        most: float,
        weights: int = 0,
        budget: float = 0.0,
        note: str = "",
    ) -> None:
        """Note how long something took, and fail if that is too much beside the peer.

        Args:
            what: What was done.
            ours: Seconds that it took us.
            peer: Who else did it, and seconds that it took them.
            most: Of the peer's time that ours may take.
            weights: How many were worked on; the row then says the rate, too.
            budget: Seconds that a person would not notice, said only: machines differ.
            note: More about ours.
        """
        name, theirs = peer
        ratio = ours / theirs
        met = ratio <= most
        notes = [note, f"budget {_seconds(budget)}" if budget else "", _rate(weights, ours)]
        told = "; ".join(note for note in notes if note)
        by = _rate(weights, theirs)
        self.rows.append(
            (
                what,
                f"{_seconds(ours)} ({told})" if told else _seconds(ours),
                f"{_seconds(theirs)}{f' ({by})' if by else ''}: {name}",
                _times(ratio),
                f"≤ {_times(most)}",
                "yes" if met else "NO",
            )
        )
        assert met, f"{what}: {_times(ratio)} of {name}, where {_times(most)} is allowed"

    def markdown(self) -> str:
        """Return the table."""
        head = ("what", "ours", "peer", "of the peer", "allowed", "met")
        lines = [head, ("---",) * len(head), *self.rows]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.5 else f"1/{1 / ratio:,.1f}"


def _seconds(seconds: float) -> str:
    return f"{1000 * seconds:,.1f} ms" if seconds < 10 else f"{seconds:,.1f} s"


def _rate(weights: int, seconds: float) -> str:
    return f"{weights / seconds / 1e9:.3f} G weights/s" if weights else ""
