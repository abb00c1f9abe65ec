"""The files of amdgpu become devices; what is missing or damaged is a note."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.hardware.detect import Places, amd_devices
from tests.hardware.fakes import GIB, radeon, write_card

TABLE = """# List of AMDGPU IDs
1.0.0
744C,\tC8,\tAMD Radeon RX 7900 XTX
1586,\tC1,\tAMD Radeon 8060S Graphics
not a line
"""


@pytest.fixture
def places(tmp_path: Path) -> Places:
    drm, kfd, names = tmp_path / "drm", tmp_path / "kfd", tmp_path / "amdgpu.ids"
    drm.mkdir()
    kfd.touch()
    names.write_text(TABLE)
    return Places(drm, kfd, names)


def test_a_card_is_a_device(places: Places) -> None:
    write_card(places.drm, 1, radeon())
    (device,) = amd_devices(places).devices
    assert (device.id, device.library) == ("1a2b3c", "ROCm")
    assert (device.free, device.total) == (23 * GIB, 24 * GIB)
    assert (device.name, device.integrated) == ("AMD Radeon RX 7900 XTX", False)


def test_cards_come_in_the_order_of_their_numbers(places: Places) -> None:
    for number in (10, 2, 0):
        write_card(places.drm, number, radeon(unique_id=""))
    (places.drm / "card0-DP-1").mkdir()
    (places.drm / "renderD128").mkdir()
    assert [device.id for device in amd_devices(places).devices] == ["0", "2", "10"]


def test_without_the_compute_driver_it_is_vulkan(places: Places, tmp_path: Path) -> None:
    write_card(places.drm, 0, radeon())
    elsewhere = Places(places.drm, tmp_path / "absent", tmp_path / "absent")
    (device,) = amd_devices(elsewhere).devices
    assert (device.library, device.name) == ("Vulkan", "AMD GPU 0x744c")


def test_a_product_name_of_the_card_itself_wins(places: Places) -> None:
    write_card(places.drm, 0, radeon(product_name="Instinct MI300X OAM\n"))
    assert amd_devices(places).devices[0].name == "Instinct MI300X OAM"


@pytest.mark.parametrize(
    ("metrics", "total", "integrated"),
    [
        (b"\x78\x00\x01\x03", 8 * GIB, False),
        (b"\x80\x00\x02\x04", 8 * GIB, True),
        (b"\x80\x00\x03\x00", 96 * GIB, True),
        (b"", 512 << 20, True),
        (b"\x80", 8 * GIB, False),
    ],
)
def test_a_processor_s_gpu_is_integrated(
    places: Places, metrics: bytes, total: int, integrated: bool
) -> None:
    card = radeon(total, 0, device="0x1586", revision="0xc1", gpu_metrics=metrics)
    write_card(places.drm, 0, card)
    found = amd_devices(places)
    assert found.devices[0].integrated is integrated
    assert bool(found.notes) is integrated


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mem_info_vram_total", ""),
        ("mem_info_vram_total", "9" * 5000),
        ("mem_info_vram_total", "-1"),
        ("mem_info_vram_total", str(1 << 60)),
        ("mem_info_vram_used", "twelve"),
        ("mem_info_vram_used", str(25 * GIB)),
        ("mem_info_vram_used", b"\xff\xfe\x00"),
    ],
)
def test_a_damaged_size_is_a_note(places: Places, name: str, content: str | bytes) -> None:
    write_card(places.drm, 0, radeon(**{name: content}))
    write_card(places.drm, 1, radeon())
    found = amd_devices(places)
    assert len(found.devices) == 1
    assert found.notes == ["The AMD GPU of card 0 does not report its memory."]


def test_cards_of_others_are_left_alone(places: Places) -> None:
    write_card(places.drm, 0, {"vendor": "0x10de\n", "mem_info_vram_total": "1"})
    write_card(places.drm, 1, {"vendor": "0x8086\n"})
    write_card(places.drm, 2, {})
    for found in (amd_devices(places), amd_devices(Places(places.drm / "absent"))):
        assert (found.devices, found.notes) == ([], [])


def test_an_intel_card_is_reported(places: Places) -> None:
    card = {"vendor": "0x8086\n", "tile0/physical_vram_size_bytes": "0x300000000\n"}
    write_card(places.drm, 3, card)
    found = amd_devices(places)
    assert found.devices == []
    assert "Intel GPU of card 3" in found.notes[0]
