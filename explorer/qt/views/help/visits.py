"""Which places of the guide were visited, for going back and forward."""

from __future__ import annotations

from explorer.qt.models.help.guide import Place


class Visits:
    """A list of places with one that is current."""

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._at = -1

    @property
    def current(self) -> Place | None:
        """Where one is; None before the first visit."""
        return self._places[self._at] if self._places else None

    @property
    def can_go_back(self) -> bool:
        """Whether there is a place before."""
        return self._at > 0

    @property
    def can_go_forward(self) -> bool:
        """Whether there is a place after."""
        return self._at < len(self._places) - 1

    def visit(self, place: Place) -> None:
        """Go to a place; those after the last one are forgotten."""
        self._at += 1
        self._places[self._at :] = [place]

    def go_back(self) -> bool:
        """Go to the place before; return whether there is one."""
        if not self.can_go_back:
            return False
        self._at -= 1
        return True

    def go_forward(self) -> bool:
        """Go to the place after; return whether there is one."""
        if not self.can_go_forward:
            return False
        self._at += 1
        return True
