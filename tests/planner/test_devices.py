"""Sizes, contexts and GPUs as people type them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import PlanError
from explorer.planner import Device
from explorer.planner.devices import parse_context, parse_gpu, parse_memory, parse_size
from explorer.present.plan import size_text
from explorer.text import plain_text
from tests.planner.models import GIB


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("24GiB", 24 * GIB),
        ("22.5 GiB", int(22.5 * GIB)),
        ("512MB", 512_000_000),
        ("1048576", 1 << 20),
        ("24g", 24 * GIB),
        ("0", 0),
        ("1.5KiB", 1536),
    ],
)
def test_sizes(text: str, nbytes: int) -> None:
    assert parse_size(text) == nbytes


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("32", 32 * GIB),
        ("22.5", int(22.5 * GIB)),
        ("32 GB", 32 * GIB),
        ("24gb", 24 * GIB),
        ("600 MB", 600 << 20),
        ("22.5 GiB", int(22.5 * GIB)),
        ("17179869184", 16 * GIB),  # of scripts
        ("512 B", 512),
        ("0", 0),
    ],
)
def test_memory_is_meant_as_it_is_sold(text: str, nbytes: int) -> None:
    assert parse_memory(text) == nbytes


def test_a_card_of_12_gb_has_12_gib() -> None:
    assert parse_gpu("12 GB").free == parse_gpu("free=12").free == 12 * GIB


@given(st.integers(0, 1 << 49))
def test_memory_is_read_as_it_is_shown(nbytes: int) -> None:
    shown = size_text(nbytes)
    assert parse_memory(size_text(parse_memory(shown))) == parse_memory(shown)


@pytest.mark.parametrize("text", ["", "-1", "x", "1e9", "GiB", "9" * 30, "16EiB", "1 2x"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(PlanError):
        parse_size(text)
    with pytest.raises(PlanError, match=r"is not a size"):
        parse_memory(text)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("32k", 32768),
        ("128K", 131072),
        ("32000", 32000),
        ("1m", 1 << 20),
        ("1.5k", 1536),
        ("32,768", 32768),
    ],
)
def test_contexts(text: str, tokens: int) -> None:
    assert parse_context(text) == tokens


@pytest.mark.parametrize("text", ["", "k", "-4", "4.5", "1e3", "32kb"])
def test_what_is_no_context(text: str) -> None:
    with pytest.raises(PlanError):
        parse_context(text)


def test_a_size_alone_is_a_gpu() -> None:
    assert parse_gpu("24GiB", 3) == Device("3", "CUDA", 24 * GIB)


def test_a_gpu_in_full() -> None:
    spec = "name=NVIDIA L4, free=22.5GiB, total=24GiB, library=rocm, integrated=no, driver=12.4"
    assert parse_gpu(f"{spec},compute=8.9") == Device(
        "0", "ROCm", int(22.5 * GIB), False, "NVIDIA L4", 24 * GIB, 12, (8, 9)
    )
    assert parse_gpu("total=8GiB,library=Metal,integrated=yes,id=x") == Device(
        "x", "Metal", 8 * GIB, True, total=8 * GIB
    )


def test_names_are_looked_up_and_what_is_said_goes_over_what_is_found() -> None:
    known = {"NVIDIA L4": Device("?", "CUDA", 24 * GIB, name="NVIDIA L4", total=24 * GIB)}
    found = parse_gpu("NVIDIA L4", 1, known.get)
    assert (found.id, found.free) == ("1", 24 * GIB)
    partly = parse_gpu("name=NVIDIA L4,free=20GiB", 0, known.get)
    assert (partly.free, partly.total) == (20 * GIB, 24 * GIB)


@pytest.mark.parametrize(
    "text",
    ["", "NVIDIA L4", "3090 Ti", "4090", "free=", "colour=red", "free=1GiB,free=2GiB",
     "integrated=yes", "free=1GiB,integrated=perhaps", "free=1GiB,compute=x", "=", "x" * 5000,
     "free=1GiB,driver=new"],
)  # fmt: skip
def test_what_is_no_gpu(text: str) -> None:
    with pytest.raises(PlanError):
        parse_gpu(text)


@given(st.text(max_size=60))
def test_any_text_is_a_gpu_or_one_error(text: str) -> None:
    for parse in (parse_size, parse_memory, parse_context, parse_gpu):
        told = ""
        try:
            parse(text)
        except PlanError as error:
            told = str(error)
        assert told == plain_text(told)
