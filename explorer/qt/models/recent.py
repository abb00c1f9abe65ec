"""What was worked out lately, so that coming back to it takes no time; bounded, for any thread."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable


class Recent:
    """Keeps the results that were used last.

    Args:
        most: How many results are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._results: OrderedDict[Hashable, object] = OrderedDict()

    def __len__(self) -> int:
        return len(self._results)

    def get(self, key: Hashable) -> object | None:
        """Return a result, or None if it is not kept."""
        with self._lock:
            found = self._results.get(key)
            if found is not None:
                self._results.move_to_end(key)
            return found

    def put(self, key: Hashable, result: object) -> None:
        """Keep a result; the one not used for longest goes."""
        with self._lock:
            self._results[key] = result
            self._results.move_to_end(key)
            while len(self._results) > self._most:
                self._results.popitem(last=False)
