"""The catalogue's rows agree with each other and have sources; a GPU is found by its name."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.hardware.catalogue import Catalogue, CatalogueError, load_catalogue, read_gpus
from explorer.paths import resource

GIB = 1 << 30
GPUS = load_catalogue().gpus
ROOT = Path(__file__).parents[2]

# Gbit/s of one pin of the bus, slowest and fastest: JEDEC's and the makers' grades.
PIN_RATES = {
    "GDDR5": (4.0, 9.1),
    "GDDR5X": (9.0, 12.0),
    "GDDR6": (10.0, 20.5),
    "GDDR6X": (19.0, 24.0),
    "GDDR7": (18.0, 32.0),
    "HBM2": (1.4, 2.4),
    "HBM2e": (2.4, 3.7),
    "HBM3": (5.0, 6.4),
    "HBM3e": (5.8, 9.2),
    "LPDDR4": (3.2, 4.3),
    "LPDDR4X": (3.7, 4.3),
    "LPDDR5": (4.2, 6.4),
    "LPDDR5X": (7.4, 9.6),
}


def test_the_catalogue_is_large_and_every_name_is_unique() -> None:
    assert len(GPUS) >= 160
    assert len({gpu.name.casefold() for gpu in GPUS}) == len(GPUS)
    vendors = {gpu.vendor for gpu in GPUS}
    assert vendors == {"NVIDIA", "AMD", "Intel", "Apple"}
    assert {gpu.kind for gpu in GPUS} == {"consumer", "workstation", "server", "embedded"}


def test_every_row_is_plausible() -> None:
    libraries = {"NVIDIA": {"CUDA"}, "AMD": {"ROCm", "Vulkan"}, "Intel": {"Vulkan"}}
    for gpu in GPUS:
        assert gpu.name.startswith(f"{gpu.vendor} "), gpu
        assert 2 * GIB <= gpu.memory_bytes <= 1024 * GIB, gpu
        assert gpu.memory_bytes // 2 <= gpu.usable_bytes <= gpu.memory_bytes, gpu
        assert 2015 <= gpu.year <= 2026, gpu
        assert gpu.library in libraries.get(gpu.vendor, {"Metal"}), gpu
        assert (gpu.compute is not None) == (gpu.library == "CUDA"), gpu
        if gpu.compute is not None:
            assert (5, 0) <= gpu.compute <= (12, 1), gpu  # Ollama's oldest, NVIDIA's newest
        shared = gpu.memory_type is not None and gpu.memory_type.startswith("LPDDR")
        assert gpu.integrated == (shared or "MI300A" in gpu.name), gpu


def test_every_bandwidth_is_what_the_memory_can_do() -> None:
    without: set[str] = set()
    for gpu in GPUS:
        assert gpu.memory_type in PIN_RATES, gpu
        if gpu.bandwidth_bytes_per_s is None or gpu.bus_bits is None:
            without.add(gpu.name)
            continue
        slowest, fastest = PIN_RATES[gpu.memory_type]
        rate = gpu.bandwidth_bytes_per_s * 8 / gpu.bus_bits / 1e9
        assert slowest <= rate <= fastest, gpu
    assert without <= {
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "NVIDIA H200 NVL 141 GB",
        "NVIDIA B300",
        "NVIDIA GB200",
        "NVIDIA GH200 96 GB",
        "Intel Data Center GPU Max 1100",
    }


def test_a_compute_capability_belongs_to_a_generation() -> None:
    """The generations of GeForce by NVIDIA's table, developer.nvidia.com/cuda-gpus."""
    capabilities = {"GTX 10": (6, 1), "GTX 16": (7, 5), "RTX 20": (7, 5), "RTX 30": (8, 6)}
    capabilities |= {"RTX 40": (8, 9), "RTX 50": (12, 0)}
    for series, capability in capabilities.items():
        found = {gpu.compute for gpu in GPUS if f"GeForce {series}" in gpu.name}
        assert found == {capability}, series


def test_every_row_names_sources_that_are_listed() -> None:
    lines = resource("gpu_catalogue/sources.csv").read_text(encoding="utf-8").splitlines()
    known = {row["key"]: row for row in csv.DictReader(lines)}
    used = {source.split("/")[0] for gpu in GPUS for source in gpu.sources}
    assert used == set(known)
    for gpu in GPUS:
        assert gpu.sources, gpu.name
        gives = ", ".join(known[source.split("/")[0]]["gives"] for source in gpu.sources)
        assert "memory" in gives, gpu.name
        if gpu.compute is not None:
            assert "compute capability" in gives, gpu.name
        if gpu.bandwidth_bytes_per_s is not None:
            assert "bandwidth" in gives, gpu.name
    assert all(row["title"] and row["gives"] for row in known.values())
    addresses = [row["address"] for row in known.values() if row["address"]]
    assert all(address.startswith("https://") for address in addresses)
    assert len(set(addresses)) == len(addresses)


def test_the_wheel_has_the_catalogue() -> None:
    mapping = '"resources/gpu_catalogue" = "explorer/_resources/gpu_catalogue"'
    assert mapping in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("RTX 3090", "NVIDIA GeForce RTX 3090"),
        ("nvidia geforce rtx 3090", "NVIDIA GeForce RTX 3090"),
        ("rtx3090", "NVIDIA GeForce RTX 3090"),
        ("3090", "NVIDIA GeForce RTX 3090"),
        ("RTX-3090 Ti", "NVIDIA GeForce RTX 3090 Ti"),
        ("4060ti 16gb", "NVIDIA GeForce RTX 4060 Ti 16 GB"),
        ("RTX 4060 Ti 16 GiB", "NVIDIA GeForce RTX 4060 Ti 16 GB"),
        ("4060 ti 16", "NVIDIA GeForce RTX 4060 Ti 16 GB"),
        ("NVIDIA L4", "NVIDIA L4"),
        ("l40", "NVIDIA L40"),
        ("T4", "NVIDIA Tesla T4"),
        ("A6000", "NVIDIA RTX A6000"),
        ("rtx 6000 ada", "NVIDIA RTX 6000 Ada Generation"),
        ("dgx spark", "NVIDIA GB10 (DGX Spark)"),
        ("gb10", "NVIDIA GB10 (DGX Spark)"),
        ("7900xtx", "AMD Radeon RX 7900 XTX"),
        ("MI300X", "AMD Instinct MI300X"),
        ("Arc A770", "Intel Arc A770 16 GB"),
        ("M3 Max 64GB", "Apple M3 Max 64 GB"),
        # as NVML writes them
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 SXM4 80 GB"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM5 80 GB"),
        ("Tesla V100-SXM2-16GB", "NVIDIA Tesla V100 SXM2 16 GB"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 Laptop GPU"),
    ],
)
def test_a_name_is_found_however_it_is_spelt(said: str, meant: str) -> None:
    assert load_catalogue().find(said).name == meant


@pytest.mark.parametrize(
    ("said", "candidates"),
    [
        ("RTX 4060 Ti", {"NVIDIA GeForce RTX 4060 Ti 8 GB", "NVIDIA GeForce RTX 4060 Ti 16 GB"}),
        ("A100 80GB", {"NVIDIA A100 PCIe 80 GB", "NVIDIA A100 SXM4 80 GB"}),
        ("M3 Max", {f"Apple M3 Max {size} GB" for size in (36, 48, 64, 96, 128)}),
        ("H200", {"NVIDIA H200 SXM 141 GB", "NVIDIA H200 NVL 141 GB"}),
    ],
)
def test_a_name_of_several_lists_them(said: str, candidates: set[str]) -> None:
    with pytest.raises(CatalogueError) as caught:
        load_catalogue().find(said)
    assert set(caught.value.matching) == candidates
    assert all(name in str(caught.value) for name in candidates)


def test_a_name_of_none_suggests_similar_ones() -> None:
    with pytest.raises(CatalogueError, match="no GPU of the catalogue") as caught:
        load_catalogue().find("RTX 3091")
    assert caught.value.similar[0] == "NVIDIA GeForce RTX 3090"
    with pytest.raises(CatalogueError):
        load_catalogue().find("")


def test_an_rtx_6000_is_not_an_rtx_a6000() -> None:
    with pytest.raises(CatalogueError) as caught:
        load_catalogue().find("RTX 6000")
    assert "NVIDIA RTX A6000" not in caught.value.matching
    assert {"NVIDIA Quadro RTX 6000", "NVIDIA RTX 6000 Ada Generation"} <= set(
        caught.value.matching
    )


@given(st.text(max_size=300))
def test_any_name_finds_one_gpu_or_one_error(name: str) -> None:
    try:
        found = load_catalogue().find(name)
    except CatalogueError as error:
        message = str(error)
    else:
        message = found.name
    assert message.isprintable()
    assert len(message) < 1000


def test_every_gpu_is_found_by_its_own_name() -> None:
    for gpu in GPUS:
        assert load_catalogue().find(gpu.name) is gpu
        assert load_catalogue().find(gpu.name.removeprefix(gpu.vendor)) is gpu


def test_search_needs_every_word() -> None:
    found = [gpu.name for gpu in load_catalogue().search("rtx 40 LAPTOP")]
    assert found
    assert all("RTX 40" in name and "Laptop" in name for name in found)
    assert load_catalogue().search("") == GPUS
    assert load_catalogue().search("rtx3090")[0].name == "NVIDIA GeForce RTX 3090"
    assert {gpu.library for gpu in load_catalogue().search("metal")} == {"Metal"}
    assert load_catalogue().search("voodoo") == ()


@pytest.mark.parametrize("words", ["12GB", "12 GB", "12 GiB"])
def test_a_size_finds_the_cards_that_are_sold_with_it(words: str) -> None:
    found = load_catalogue().search(f"nvidia {words}")
    assert {round(gpu.memory_bytes / GIB) for gpu in found} == {12}
    assert "NVIDIA GeForce RTX 4070" in [gpu.name for gpu in found]


def test_of_one_size_cards_come_before_what_shares_main_memory() -> None:
    found = [(gpu.integrated, -gpu.year) for gpu in load_catalogue().search("24GB")]
    assert found[-1][0]
    assert not found[0][0]
    assert found == sorted(found)


def test_a_gpu_becomes_a_device_of_a_plan() -> None:
    device = load_catalogue().find("RTX 3090").device("1")
    assert (device.id, device.library, device.free) == ("1", "CUDA", 24 * GIB)
    assert (device.total, device.compute, device.integrated) == (24 * GIB, (8, 6), False)
    assert device.supports_flash_attention
    assert not load_catalogue().find("Jetson AGX Xavier 32GB").device().supports_flash_attention


def test_a_mac_gives_its_gpu_a_part_of_the_memory() -> None:
    small = load_catalogue().find("M1 16GB").device()
    assert (small.free, small.total, small.integrated) == (16 * GIB * 2 // 3, 16 * GIB, True)
    assert load_catalogue().find("M3 Max 64GB").device().free == 48 * GIB


def test_a_row_that_cannot_be_read_is_named() -> None:
    header = "name,vendor,kind,library,memory_gib,usable_gib,memory_type,bus_bits"
    header += ",bandwidth_gb_s,compute,integrated,year,sources,note"
    good = "Card,NVIDIA,consumer,CUDA,8,,GDDR6,128,288,8.9,no,2023,here,"
    assert Catalogue(read_gpus([header, good])).find("card").bandwidth_bytes_per_s == 288 * 10**9
    for bad in (good.replace(",8,", ",x,"), good.replace(",no,", ",perhaps,"), "Card,NVIDIA"):
        with pytest.raises(ValueError, match="GPU catalogue, row 'Card'"):
            list(read_gpus([header, bad]))
