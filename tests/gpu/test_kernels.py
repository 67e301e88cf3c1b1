"""What can be said of the kernels without a card: their layout, the cache, and errors."""

from __future__ import annotations

import ctypes
import re

import pytest

from robirank.latent.gpu import kernels
from robirank.latent.gpu.kernels import compiled, source_of
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
    assert layout.together == (card == "9.0" and factors == 64)
    assert layout.width % 16 == 0
    assert 0 <= layout.width - factors < 16
    assert max(layout.shared_memory().values()) < limit
    assert layout.groups * layout.rows >= 16 * layout.warps  # every warp has users


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


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_90a"])
@pytest.mark.parametrize(
    ("factors", "rows"),
    [(16, 64), (64, 64), (64, 32), (112, 16), (128, 64), (176, 32), (240, 16), (256, 32)],
)
def test_the_kernels_compile(factors, rows, architecture):
    try:
        kernels._find_nvrtc()
    except KernelError:
        pytest.skip("NVRTC is not installed")
    layout = Layout(factors, rows, architecture == "sm_90a" and factors == rows == 64)
    assert kernels._compile(source_of(layout), architecture)[:4] == b"\x7fELF"


@pytest.mark.parametrize(("rows", "whole"), [(1, 512), (512, 512), (513, 1024)])
def test_rows_are_padded_where_tiles_are_whole(rows, whole):
    assert Layout(64, 64, together=True).padded(rows) == whole
    assert Layout(64, 64).padded(rows) == rows
