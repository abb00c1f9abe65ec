"""A program for `test_map_panel.py`: how late a 5 ms timer is while a map is drawn, and the memory.

`map_heartbeat.py MODEL SMALL LARGE` draws the map of a small tensor, which loads all that maps
need, and then that of a large one, and zooms into it. The last line is JSON: seconds, MiB.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.helpers.services import RecordingServices

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

_MIB = 1 << 20


def measure(path: Path, small: str, large: str) -> dict[str, float]:
    """Return times, longest pauses and the memory over that of the idle program."""
    import psutil
    from PySide6.QtCore import QRectF, QTimer
    from PySide6.QtWidgets import QApplication

    from explorer.parallel import LruCache
    from explorer.qt.document import load_document
    from explorer.qt.jobs import JobRunner
    from explorer.qt.references import References
    from explorer.qt.weights.curves import SelectedTensor
    from explorer.qt.weights.map.page import MapPage
    from tests.benchmarks.weights_heartbeat import Heartbeat

    class NoJob:
        def check(self) -> None:
            pass

    app = QApplication(sys.argv[:1])
    app.setStyle("Fusion")
    document = load_document(path, NoJob())  # type: ignore[arg-type] # only asked whether to stop
    services = RecordingServices(JobRunner())
    services.runner.prepare_cache()
    page = MapPage(services, References(services))
    page.resize(900, 650)
    page.show()
    heartbeat, recent = Heartbeat(), LruCache(0)
    memory = psutil.Process().memory_info
    tensors = document.model.tensors

    def show(name: str) -> tuple[float, float]:
        row = tensors.row_of(name)
        assert row is not None
        page.show_subject(SelectedTensor(row, name, tensors.rows[row]), recent)
        return heartbeat.during(lambda: not services.runner.jobs and bool(page.plot.layers))

    show(small)
    idle = top = memory().rss

    def look() -> None:
        nonlocal top
        top = max(top, memory().rss)

    looking = QTimer(page)
    looking.timeout.connect(look)
    looking.start(5)
    states: list[object] = []
    services.runner.started.connect(lambda job: job.published.connect(states.append))
    whole, whole_pause = show(large)
    updates = len(states)
    states.clear()
    zoom, zoom_pause = 0.0, 0.0
    for area in (QRectF(0, 0, 2048, 20_000), QRectF(100, 900, 500, 900), QRectF(200, 950, 90, 60)):
        page.plot.box.zoom_to(area)
        took, pause = heartbeat.during(
            lambda: not services.runner.jobs and not page._rest.isActive()
        )
        zoom, zoom_pause = max(zoom, took), max(zoom_pause, pause)
    looking.stop()
    page.hide()
    services.runner.close()
    document.model.close()
    return {
        "whole": whole,
        "whole_pause": whole_pause,
        "zoom": zoom,
        "zoom_pause": zoom_pause,
        "memory": (top - idle) / _MIB,
        "updates": float(updates),
    }


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), sys.argv[2], sys.argv[3])))
