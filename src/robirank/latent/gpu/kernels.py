"""Kernels for a CUDA device: compiled when they are first needed, kept as files, launched.

NVRTC, which comes with PyTorch, compiles ``kernels.cu`` for a number of factors and the card that
is there; no compiler has to be installed. The driver's own functions load and launch the result.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import struct
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from robirank.storage.files import write_whole

#: Bins of a user's grid of scores, and straight lines of the table of slopes.
BINS = 256
#: More factors than this do not fit into the registers of the kernels.
MOST_FACTORS = 256
#: Threads of a block of user_grids, user_tables and sum_users.
GRID_THREADS, TABLE_THREADS, SUM_THREADS = 256, 2 * (BINS + 32), 512

_TILE_ITEMS = 16
_HALVES_BLOCKS = 2048
_SPARE = 1024  # bytes of shared memory that are not in the dynamic part
_MOST_CELLS = 64 * 128  # numbers of a tile's users that registers hold
_LEAST_CAPABILITY = (8, 0)
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_BUFFER_POINTER, _BUFFER_SIZE = 1, 2  # CU_LAUNCH_PARAM_BUFFER_POINTER, …_SIZE


class KernelError(RuntimeError):
    """The kernels cannot be compiled or launched on this machine."""


@dataclass(frozen=True)
class Layout:
    """How kernels.cu cuts users, items and factors; its constants say the same.

    Attributes
    ----------
    width : int
        Factors of a row, a multiple of 16.
    rows : int
        Users of a tile: 16, 32 or 64.
    """

    width: int
    rows: int

    @classmethod
    def that_fits(cls, factors: int, shared_memory: int) -> Layout:
        """The largest tiles whose kernels fit into a block's shared memory, in bytes."""
        width = -(-factors // 16) * 16
        for rows in (64, 32, 16):
            layout = cls(width, rows)
            most = max(layout.shared_memory().values()) + _SPARE
            if most <= shared_memory and rows * width <= _MOST_CELLS:
                return layout
        raise KernelError(f"{factors} factors do not fit into {shared_memory} bytes a block")

    @property
    def warps(self) -> int:
        """Of a block of threads."""
        return 16 if self._is_large else 8

    @property
    def groups(self) -> int:
        """Of warps, in slopes_to_users; each leaves sums of its own."""
        tiles = 2 if self.rows > 16 and self.width <= 128 else 1
        return self.warps * 16 * tiles // self.rows

    @property
    def block_items(self) -> int:
        """Items of a block of slopes_to_items."""
        return 16 * self.warps * (2 if self._is_large else 1)

    @property
    def _is_large(self) -> bool:
        return self.width <= 64 and self.rows > 16

    def shared_memory(self) -> dict[str, int]:
        """Bytes that the kernels ask for when they are launched."""
        row = 2 * (self.width + 8)
        tiles = 2 * _TILE_ITEMS * row  # two, of a group of warps
        users = 32 if self._is_large else 16
        return {
            "count_scores": 8 * self.rows * BINS + self.warps * tiles,
            "slopes_to_users": 8 * self.rows * BINS + self.groups * tiles,
            "slopes_to_items": 2 * users * (4 * BINS + 2 * row + 8),
            "collect_scores": self.warps * tiles,
        }


@cache
def kernels_for(factors: int, device: int) -> Kernels:
    """The kernels for rows of so many factors on a card; compiled once for each process."""
    return Kernels(factors, device)


class Kernels:
    """The compiled kernels for one number of factors.

    Parameters
    ----------
    factors : int
        At most `MOST_FACTORS`.
    device : int
        The index of the card.

    Attributes
    ----------
    layout : Layout
    """

    def __init__(self, factors: int, device: int) -> None:
        card = torch.cuda.get_device_properties(device)
        if (card.major, card.minor) < _LEAST_CAPABILITY:
            raise KernelError(
                f"{card.name} has compute capability {card.major}.{card.minor}; 8.0 is needed"
            )
        self.layout = Layout.that_fits(factors, card.shared_memory_per_block_optin)
        self._shared_memory = self.layout.shared_memory()
        self._multiprocessors = card.multi_processor_count
        self._device = device
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._functions: dict[str, tuple[Any, struct.Struct]] = {}
        self._module = self._load(f"sm_{card.major}{card.minor}")

    def launch(
        self, name: str, grid: tuple[int, int, int], *arguments: Any, threads: int = 0
    ) -> None:
        """Run a kernel on the current stream: tensors (or None), integers (32 bits), floats."""
        if torch.cuda.current_device() != self._device:
            with torch.cuda.device(self._device):
                return self.launch(name, grid, *arguments, threads=threads)
        function, layout = self._functions.get(name) or self._prepare(name, arguments)
        packed = layout.pack(*map(_number, arguments))
        size, address = ctypes.c_size_t(len(packed)), ctypes.c_char_p(packed)
        extra = (ctypes.c_void_p * 5)(
            _BUFFER_POINTER,
            ctypes.cast(address, ctypes.c_void_p),
            _BUFFER_SIZE,
            ctypes.addressof(size),
            None,
        )
        stream = torch._C._cuda_getCurrentRawStream(self._device)  # as current_stream, but quick
        shared = self._shared_memory.get(name, 0)
        block = threads or 32 * self.layout.warps
        status = self._cuda.cuLaunchKernel(
            function, *grid, block, 1, 1, shared, ctypes.c_void_p(stream), None, extra
        )
        return self._check(status, f"{name} could not be launched")

    def halves(self, rows: torch.Tensor, longest: torch.Tensor | None = None) -> torch.Tensor:
        """Rows in half precision, filled up with zeros; ``longest`` gets the largest length.

        ``rows`` has the shape (models, rows, factors), and ``longest`` one number for each model.
        """
        models, n, factors = rows.shape
        out = torch.empty((models, n, self.layout.width), dtype=torch.float16, device=rows.device)
        blocks = min(-(-n // 8), _HALVES_BLOCKS)
        arguments = (rows, n, factors, out, longest)
        self.launch("to_halves", (blocks, 1, models), *arguments, threads=256)
        return out

    def ranges(self, users: int, items: int) -> tuple[int, int, int]:
        """How users and items are cut for the card: tiles, ranges, items of a range.

        How many models are served at once makes no difference, so each has its own bits.
        """
        tiles = -(-users // self.layout.rows)
        wanted = max(1, 2 * self._multiprocessors // tiles)
        together = _TILE_ITEMS * self.layout.warps
        size = -(-items // (wanted * together)) * together
        return tiles, -(-items // size), size

    def _prepare(self, name: str, arguments: tuple[Any, ...]) -> tuple[Any, struct.Struct]:
        """The kernel, and how its arguments lie one after the other."""
        function, shared = ctypes.c_void_p(), self._shared_memory.get(name, 0)
        found = self._cuda.cuModuleGetFunction(ctypes.byref(function), self._module, name.encode())
        self._check(found, f"there is no kernel {name}")
        self._check(
            self._cuda.cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED, shared),
            f"{name} cannot have {shared} bytes of shared memory",
        )
        layout = struct.Struct("".join(map(_kind, arguments)))
        self._functions[name] = function, layout
        return self._functions[name]

    def _load(self, architecture: str) -> ctypes.c_void_p:
        torch.cuda.current_stream(self._device).synchronize()  # the card's context is there now
        module, source = ctypes.c_void_p(), source_of(self.layout)
        for again in (False, True):  # a file of the cache may be damaged
            binary = compiled(source, architecture, again=again)
            status = self._cuda.cuModuleLoadData(ctypes.byref(module), binary)
            if not status:
                break
        self._check(status, "the compiled kernels could not be loaded")
        return module

    def _check(self, status: int, what: str) -> None:
        if status:
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorString(status, ctypes.byref(text))
            raise KernelError(f"{what}: {(text.value or b'unknown error').decode()}")


def _kind(value: Any) -> str:
    if value is None or isinstance(value, torch.Tensor):
        return "P"
    return "f" if isinstance(value, float) else "i"


def _number(value: Any) -> int | float:
    if isinstance(value, torch.Tensor):
        assert value.is_contiguous()
        return value.data_ptr()
    return 0 if value is None else value


def source_of(layout: Layout) -> str:
    """The source for a layout."""
    shared = layout.shared_memory()
    sizes = {
        "kFactors": layout.width,
        "kRows": layout.rows,
        "kBins": BINS,
        "kGridThreads": GRID_THREADS,
        "kTableThreads": TABLE_THREADS,
        "kSumThreads": SUM_THREADS,
        "kExpectedGroups": layout.groups,
        "kExpectedBlockItems": layout.block_items,
        "kCountBytes": shared["count_scores"],
        "kStepBytes": shared["slopes_to_items"],
    }
    lines = "".join(f"constexpr int {name} = {value};\n" for name, value in sizes.items())
    return lines + resources.files(__package__).joinpath("kernels.cu").read_text("utf-8")


def compiled(source: str, architecture: str, *, again: bool = False) -> bytes:
    """The binary of a source, from the cache or, where it is not there or ``again``, compiled."""
    key = hashlib.sha256(f"{torch.version.cuda} {architecture}\n{source}".encode()).hexdigest()
    kept = _cache_folder() / f"{key[:32]}.cubin"
    if not again:
        with contextlib.suppress(OSError):
            return kept.read_bytes()
    binary = _compile(source, architecture)
    with contextlib.suppress(OSError):  # where nothing can be written, compile again next time
        kept.parent.mkdir(parents=True, exist_ok=True)
        with write_whole(kept) as file:
            file.write(binary)
    return binary


def _cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    return Path(root) / "robirank" / "kernels"


def _compile(source: str, architecture: str) -> bytes:
    nvrtc = _find_nvrtc()
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
    options = [f"--gpu-architecture={architecture}".encode(), b"-std=c++17"]
    status = nvrtc.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*options)
    )
    if status:
        log = _output(nvrtc, program, "ProgramLog").decode(errors="replace")
        raise KernelError(f"the kernels could not be compiled for {architecture}: {log[:2000]}")
    binary = _output(nvrtc, program, "CUBIN")
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return binary


def _output(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, buffer)
    return buffer.raw


def _find_nvrtc() -> ctypes.CDLL:
    """The compiler's library: where the system finds it, or beside PyTorch."""
    name = f"libnvrtc.so.{str(torch.version.cuda).partition('.')[0]}"
    packages = Path(torch.__file__).parent.parent
    for path in [name, *sorted(packages.glob(f"nvidia/*/lib/{name}*"))]:
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            continue
    raise KernelError(f"{name}, which compiles the kernels and comes with PyTorch, was not found")
