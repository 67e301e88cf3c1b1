"""What can be said of the kernels without a card: their layout, the cache, and errors."""

from __future__ import annotations

import ctypes
import re

import pytest
import torch

from robirank.latent.gpu import kernels
from robirank.latent.gpu.kernels import Kernels, Room, compiled, source_of
from robirank.latent.gpu.layout import KERNEL_BINS, MOST_FACTORS, KernelError, Layout

LIMITS = {"8.0": 166_912, "8.6": 101_376, "9.0": 232_448}  # bytes of shared memory a block


@pytest.mark.parametrize(
    ("card", "factors"),
    [
        *(("8.6", n) for n in (1, 16, 40, 64, 112)),
        *(("8.0", n) for n in (1, 64, 65, 128, 240)),
        *(("9.0", n) for n in (1, 64, 65, 128, 200, MOST_FACTORS)),
    ],
)
def test_a_layout_fits_the_card(card, factors):
    limit = LIMITS[card]
    layout = Layout.that_fits(factors, limit, together=card == "9.0")
    assert layout.together == (card == "9.0" and factors >= 64)
    unit = 64 if layout.together else 16
    assert layout.width % unit == 0
    assert 0 <= layout.width - factors < unit
    assert max(layout.shared_memory().values()) < limit
    assert layout.groups * layout.rows >= 16 * layout.blocks.user_warps  # every warp has users
    if layout.together:  # blocks of items are whole tiles, and each group of warps has four
        assert layout.block_items % 64 == 0
        assert all(layout.threads(name) % 128 == 0 for name in layout.shared_memory())


@pytest.mark.parametrize(("card", "factors"), [("8.6", 113), ("8.0", 241)])
def test_more_factors_than_a_card_has_room_for(card, factors):
    with pytest.raises(KernelError, match=f"{factors} factors do not fit"):
        Layout.that_fits(factors, LIMITS[card])


def test_too_little_shared_memory_is_an_error():
    with pytest.raises(KernelError, match="256 factors do not fit into 48000 bytes"):
        Layout.that_fits(256, 48_000)


def test_the_source_checks_the_layout_when_it_is_compiled():
    source = source_of(Layout(64, 32))
    assert source.startswith("constexpr int kFactors = 64;\nconstexpr int kRows = 32;\n")
    for name in ("kCountBytes", "kStepBytes"):
        assert re.search(rf"static_assert\([^;]*==\s+{name},", source), name
    assert f"kBins = {KERNEL_BINS};" in source


def test_a_binary_is_compiled_once(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []
    monkeypatch.setattr(kernels, "_compile", lambda *args: calls.append(args) or b"binary")
    assert compiled("a", "sm_90") == compiled("a", "sm_90") == b"binary"
    assert len(calls) == 1
    compiled("b", "sm_90")
    compiled("a", "sm_80")
    assert len(calls) == 3
    compiled("a", "sm_90", again=True)
    assert len(calls) == 4


def test_a_cache_that_cannot_be_written_is_done_without(monkeypatch, tmp_path):
    (tmp_path / "robirank").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kernels, "_compile", lambda *args: b"binary")
    assert compiled("a", "sm_90") == b"binary"


def test_a_missing_compiler_is_named(monkeypatch):
    def not_there(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", not_there)
    with pytest.raises(KernelError, match=r"libnvrtc\.so.*was not found"):
        kernels._find_nvrtc()


APART = ((16, 64), (64, 64), (64, 32), (112, 16), (128, 64), (176, 32), (240, 16), (256, 32))
TOGETHER = ((64, 64), (128, 64), (192, 64), (256, 64))


@pytest.mark.parametrize(
    ("factors", "rows", "architecture"),
    [
        *((*sizes, architecture) for architecture in ("sm_80", "sm_90") for sizes in APART),
        *((*sizes, "sm_90a") for sizes in TOGETHER),
    ],
)
def test_the_kernels_compile(factors, rows, architecture):
    try:
        kernels._find_nvrtc()
    except KernelError:
        pytest.skip("NVRTC is not installed")
    layout = Layout(factors, rows, architecture == "sm_90a")
    assert kernels._compile(source_of(layout), architecture)[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("factors", "rows", "whole"),
    [(64, 1, 512), (64, 512, 512), (64, 513, 1024), (128, 257, 512), (192, 1, 192), (256, 1, 128)],
)
def test_rows_are_padded_where_tiles_are_whole(factors, rows, whole):
    assert Layout(factors, 64, together=True).padded(rows) == whole
    assert Layout(factors, 64).padded(rows) == rows


class OfACard(Kernels):
    """Cuts of a card with so many multiprocessors, without the card."""

    def __init__(self, layout, multiprocessors):
        self.layout, self._multiprocessors = layout, multiprocessors


@pytest.mark.parametrize("multiprocessors", [28, 132])
@pytest.mark.parametrize("users", [1, 64, 497, 8192, 16384])
@pytest.mark.parametrize("items", [1, 64, 65, 40_981, 386_133])
def test_ranges_cover_the_items_and_fill_the_card(users, items, multiprocessors):
    tiles, ranges, size = OfACard(Layout(64, 64, together=True), multiprocessors).ranges(
        users, items
    )
    assert tiles == -(-users // 64)
    assert size % 64 == 0
    assert (ranges - 1) * size < items <= ranges * size
    rounds = -(-tiles * ranges // multiprocessors)
    ideal = tiles * items / multiprocessors
    assert rounds * size <= 1.25 * ideal + 384 * rounds


def test_arrays_of_a_room_do_not_meet():
    room = Room(torch.zeros, torch.device("cpu"), one=12, none=0, other=300, last=4)
    begin = room["one"]
    assert [room[name] - begin for name in ("none", "other", "last")] == [256, 256, 768]
    assert room.tensor("other", torch.float32, 3, 25).shape == (3, 25)
    assert room.tensor("other", torch.float32, 3, 25).data_ptr() == room["other"]
