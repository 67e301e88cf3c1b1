"""Kernels for a CUDA device: compiled when they are first needed, kept as files, launched.

NVRTC, which comes with PyTorch, compiles the sources in ``cuda`` for a number of factors and the
card that is there; no compiler has to be installed. The driver's own functions load and launch the
result.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import itertools
import math
import os
import struct
import threading
from collections.abc import Callable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from robirank.latent.gpu.layout import KERNEL_BINS, KernelError, Layout
from robirank.storage.files import write_whole

#: Threads of a block of user_grids, user_tables and sum_users.
GRID_THREADS, TABLE_THREADS, SUM_THREADS = 256, 2 * (KERNEL_BINS + 32), 1024
#: Threads of a block of adam, and numbers of a thread.
ADAM_THREADS, ADAM_NUMBERS = 256, 4
#: Threads of a block of step_users, and its users.
NEWTON_THREADS = 256
NEWTON_USERS = NEWTON_THREADS // 32
#: Columns of a block of sparse_times, and slices of threads that share a row out, at most.
SPARSE_COLUMNS, SPARSE_SLICES = 64, 16

_SOURCES = ("layout.cu", "products.cu", "scores.cu", "gradients.cu", "steps.cu")
_RANGE_UNIT = 64  # items of a range are a multiple: tiles do not reach into the next
_PROLOGUE = 384  # what a block does before and after a range, in items
_HALVES_BLOCKS = 2048
_ALIGNMENT = 256  # bytes
_LEAST_CAPABILITY, _TOGETHER_CAPABILITY = (8, 0), (9, 0)
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_BUFFER_POINTER, _BUFFER_SIZE = 1, 2  # CU_LAUNCH_PARAM_BUFFER_POINTER, …_SIZE
_LAUNCH_TYPES: list[Any] = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]


class Address(int):
    """Where an array begins, for a kernel."""


class Flag:
    """A number on the host that kernels set, and the moment from which they have."""

    def __init__(self) -> None:
        number = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self.address = Address(number.data_ptr())
        self._number = number.numpy()
        self._done = torch.cuda.Event()

    def clear(self) -> None:
        """Begin anew."""
        self._number[0] = 0

    def record(self, device: torch.device) -> None:
        """Those that may set it were launched on the current stream of a device."""
        self._done.record(torch.cuda.current_stream(device))

    def is_set(self) -> bool:
        """Whether a kernel has set it; waits for those that were launched before `record`."""
        self._done.synchronize()
        return bool(self._number[0])


class Room:
    """Arrays of a step, one after the other in one allocation, which costs less than many.

    Parameters
    ----------
    allocate : callable
        `torch.empty` or `torch.zeros`.
    device : torch.device
    **sizes : int
        How many bytes each array has.
    """

    def __init__(
        self, allocate: Callable[..., torch.Tensor], device: torch.device, **sizes: int
    ) -> None:
        lengths = [-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes.values()]
        self._memory = allocate(sum(lengths), dtype=torch.uint8, device=device)
        begins = itertools.accumulate(lengths, initial=self._memory.data_ptr())
        self._addresses = dict(zip(sizes, map(Address, begins), strict=False))

    def __getitem__(self, name: str) -> Address:
        return self._addresses[name]

    def tensor(self, name: str, dtype: torch.dtype, *shape: int) -> torch.Tensor:
        """The beginning of an array."""
        begin, size = self[name] - self._memory.data_ptr(), dtype.itemsize * math.prod(shape)
        return self._memory[begin : begin + size].view(dtype).view(shape)


_NUMBERS = frozenset((Address, int, float))  # arguments that go to a kernel as they are


class _Kernel:
    """What a launch needs; arguments lie one after the other in the buffer."""

    def __init__(self, function: ctypes.c_void_p, threads: int, shared: int, kinds: str) -> None:
        self.function, self.threads, self.shared_memory = function, threads, shared
        self.packing = struct.Struct(kinds)
        self.buffer = ctypes.create_string_buffer(self.packing.size)
        self._size = ctypes.c_size_t(self.packing.size)
        buffer, size = ctypes.addressof(self.buffer), ctypes.addressof(self._size)
        self.extra = (ctypes.c_void_p * 5)(_BUFFER_POINTER, buffer, _BUFFER_SIZE, size, None)


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
        together = (card.major, card.minor) == _TOGETHER_CAPABILITY
        limit = card.shared_memory_per_block_optin
        self.layout = Layout.that_fits(factors, limit, together=together)
        self._shared_memory = self.layout.shared_memory()
        self._multiprocessors = card.multi_processor_count
        self._device = device
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._cuda.cuLaunchKernel.argtypes = _LAUNCH_TYPES
        self._kernels: dict[str, _Kernel] = {}
        self._of_thread = threading.local()
        self._lock = threading.Lock()
        self._module = self._load(f"sm_{card.major}{card.minor}{'a' if together else ''}")

    def launch(
        self, name: str, grid: tuple[int, int, int], *arguments: Any, threads: int = 0
    ) -> None:
        """Run a kernel on the current stream.

        Arguments are tensors, addresses, None, integers (32 bits) and floats.
        """
        if torch._C._cuda_getDevice() != self._device:
            with torch.cuda.device(self._device):
                return self.launch(name, grid, *arguments, threads=threads)
        kernel = self._kernels.get(name) or self._prepare(name, arguments)
        stream = torch._C._cuda_getCurrentRawStream(self._device)  # as current_stream, but quick
        numbers = [x if type(x) in _NUMBERS else _number(x) for x in arguments]
        with self._lock:  # the buffer is free again when the driver has read it
            kernel.packing.pack_into(kernel.buffer, 0, *numbers)
            shape = *grid, threads or kernel.threads, 1, 1, kernel.shared_memory
            status = self._cuda.cuLaunchKernel(kernel.function, *shape, stream, None, kernel.extra)
        return self._check(status, f"{name} could not be launched")

    def flag(self) -> Flag:
        """The flag of this thread, cleared; good until the thread asks again."""
        flag: Flag | None = getattr(self._of_thread, "flag", None)
        if flag is None:
            flag = self._of_thread.flag = Flag()
        flag.clear()
        return flag

    def halves(
        self, rows: torch.Tensor, longest: torch.Tensor | None = None, *, of_items: bool = False
    ) -> torch.Tensor:
        """Rows in half precision, filled up with zeros; ``longest`` gets the largest length.

        ``rows`` has the shape (models, rows, factors), and ``longest`` one number for each model.
        Those of items are laid out as kernels take them, and there may be more of them.
        """
        models, n = rows.shape[:2]
        shape = (models, self.layout.padded(n) if of_items else n, self.layout.width)
        out = torch.empty(shape, dtype=torch.float16, device=rows.device)
        self.write_halves(rows, out, longest, of_items=of_items)
        return out

    def write_halves(
        self,
        rows: torch.Tensor,
        out: torch.Tensor | Address,
        longest: torch.Tensor | Address | None = None,
        *,
        of_items: bool = False,
    ) -> None:
        """As `halves`, to an array that is there."""
        models, n, factors = rows.shape
        blocks = min(-(-(self.layout.padded(n) if of_items else n) // 8), _HALVES_BLOCKS)
        arguments = (rows, n, factors, int(of_items), out, longest)
        self.launch("to_halves", (blocks, 1, models), *arguments, threads=256)

    def ranges(self, users: int, items: int) -> tuple[int, int, int]:
        """How users and items are cut for the card: tiles, ranges, items of a range.

        How many models are served at once makes no difference, so each has its own bits.
        """
        tiles = -(-users // self.layout.rows)

        def size_of(waves: int) -> int:
            n_ranges = max(1, waves * self._multiprocessors // tiles)
            return -(-items // (n_ranges * _RANGE_UNIT)) * _RANGE_UNIT

        def time_of(size: int) -> int:
            waves = -(-tiles * -(-items // size) // self._multiprocessors)
            return waves * (size + _PROLOGUE)

        size = min(map(size_of, (1, 2, 3)), key=time_of)
        return tiles, -(-items // size), size

    def _prepare(self, name: str, arguments: tuple[Any, ...]) -> _Kernel:
        function, shared = ctypes.c_void_p(), self._shared_memory.get(name, 0)
        status = self._cuda.cuModuleGetFunction(ctypes.byref(function), self._module, name.encode())
        self._check(status, f"there is no kernel {name}")
        self._check(
            self._cuda.cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED, shared),
            f"{name} cannot have {shared} bytes of shared memory",
        )
        threads = self.layout.threads(name)
        kernel = _Kernel(function, threads, shared, "".join(map(_kind, arguments)))
        self._kernels[name] = kernel
        return kernel

    def _load(self, architecture: str) -> ctypes.c_void_p:
        module, source = ctypes.c_void_p(), source_of(self.layout)
        with torch.cuda.device(self._device):
            torch.cuda.current_stream().synchronize()  # the card's context is there now
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
    if value is None or isinstance(value, (Address, torch.Tensor)):
        return "P"
    return "f" if isinstance(value, float) else "i"


def _number(value: Any) -> int | float:
    if isinstance(value, torch.Tensor):
        assert value.is_contiguous()
        return int(value.data_ptr())
    return 0 if value is None else value


def source_of(layout: Layout) -> str:
    """The source for a layout."""
    shared = layout.shared_memory()
    blocks = layout.blocks
    sizes = {
        "kFactors": layout.width,
        "kRows": layout.rows,
        "kTogether": layout.together,
        "kCountThreads": layout.threads("count_scores"),
        "kUserThreads": layout.threads("gradient_of_users"),
        "kItemThreads": layout.threads("gradient_of_items"),
        "kUserColumns": blocks.user_items,
        "kItemTiles": blocks.item_tiles,
        "kStepUsers": blocks.step_users,
        "kBins": KERNEL_BINS,
        "kGridThreads": GRID_THREADS,
        "kTableThreads": TABLE_THREADS,
        "kSumThreads": SUM_THREADS,
        "kNewtonThreads": NEWTON_THREADS,
        "kSparseSlices": SPARSE_SLICES,
        "kSparseColumns": SPARSE_COLUMNS,
        "kAdamThreads": ADAM_THREADS,
        "kAdamNumbers": ADAM_NUMBERS,
        "kExpectedGroups": layout.groups,
        "kExpectedBlockItems": layout.block_items,
        "kRangeUnit": _RANGE_UNIT,
        "kCountBytes": shared["count_scores"],
        "kToUsersBytes": shared["gradient_of_users"],
        "kStepBytes": shared["gradient_of_items"],
    }
    lines = "".join(f"constexpr int {name} = {int(value)};\n" for name, value in sizes.items())
    folder = resources.files(__package__).joinpath("cuda")
    texts = (f'#line 1 "{n}"\n{folder.joinpath(n).read_text("utf-8")}' for n in _SOURCES)
    return lines + "".join(texts)


def compiled(source: str, architecture: str, *, again: bool = False) -> bytes:
    """The binary of a source, from the cache or, where it is not there or ``again``, compiled."""
    key = hashlib.sha256(f"{torch.version.cuda} {architecture}\n{source}".encode()).hexdigest()
    path = _cache_folder() / f"{key[:32]}.cubin"
    if not again:
        with contextlib.suppress(OSError):
            return path.read_bytes()
    binary = _compile(source, architecture)
    with contextlib.suppress(OSError):  # where nothing can be written, compile again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        with write_whole(path) as file:
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
