"""A program for `test_survey_speed.py`: how late a 5 ms timer is while all tensors are surveyed.

`survey_heartbeat.py MODEL` shows the survey panel, surveys the model with all cores while the map
is coloured by a figure, and then the table of hot spots. The last line is JSON: seconds by phase.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.helpers.services import RecordingServices

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def measure(path: Path) -> dict[str, float]:
    """Return the times of opening the panel and of a survey in each page."""
    from PySide6.QtWidgets import QApplication

    from explorer.qt.document import load_document
    from explorer.qt.jobs import JobRunner, all_cores
    from explorer.qt.references import References, Rounding
    from explorer.qt.survey.panel import PartPanel, SurveyView
    from explorer.qt.survey.session import SurveySession
    from tests.benchmarks.weights_heartbeat import Heartbeat

    class NoJob:
        def check(self) -> None:
            pass

    app = QApplication(sys.argv[:1])
    app.setStyle("Fusion")
    document = load_document(path, NoJob())  # type: ignore[arg-type] # only asked whether to stop
    services = RecordingServices(JobRunner())
    services.runner.prepare_cache()  # as the program does when its window is shown
    references = References(services)
    references.set_documents([document])
    view = SurveyView(services, references)
    view.resize(1000, 700)
    view.show()
    heartbeat = Heartbeat()
    references.show_document(document)
    view.show_document(document)
    opening, opening_pause = heartbeat.during(lambda: not services.runner.jobs)
    view.map.colour("std")
    view.session.start()
    survey, survey_pause = heartbeat.during(lambda: not services.runner.jobs)
    session = SurveySession(services, references, compares=True)
    table = PartPanel(services, session, "error_tensors")
    table.resize(1000, 700)
    table.show()
    table.show_document(document)
    references.choose(Rounding("Q8_0"))
    heartbeat.during(lambda: not services.runner.jobs)
    session.start()
    errors, errors_pause = heartbeat.during(lambda: not services.runner.jobs)
    assert not view.session.missing
    assert not session.missing
    services.runner.close()
    document.model.close()
    return {
        "workers": float(all_cores()),
        "opening": opening,
        "opening_pause": opening_pause,
        "survey": survey,
        "survey_pause": survey_pause,
        "errors": errors,
        "errors_pause": errors_pause,
    }


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
