"""The device of a fit: whether it is there, and what its errors mean."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache

import torch

from robirank._callers import warn
from robirank.errors import RobirankError
from robirank.latent.gpu.kernels import kernels_for
from robirank.latent.gpu.layout import MOST_FACTORS, KernelError


class DeviceError(RobirankError, RuntimeError):
    """The device that was asked for is not there, was lost, or has too little memory."""


def has_card() -> bool:
    """Whether PyTorch sees a card, and is new enough."""
    return _why_not() == ""


def describe_card() -> str:
    """The card in words, or why there is none."""
    why = _why_not()
    if why:
        return f"none ({why})"
    major, minor = torch.cuda.get_device_capability()
    name = torch.cuda.get_device_name()
    return f"{name}, compute capability {major}.{minor}, CUDA {torch.version.cuda}"


def _why_not() -> str:
    if torch.version.cuda is None:
        return "this PyTorch is built without CUDA"
    if not hasattr(torch, "AcceleratorError"):
        return "PyTorch 2.8 or later is needed"
    return "" if torch.cuda.is_available() else "no card is visible to PyTorch"


def cuda_device() -> torch.device:
    """The current card; an error says why there is none."""
    why = _why_not()
    if why:
        raise DeviceError(
            f"device must be 'cpu' here: {why} (torch {torch.__version__}). See nvidia-smi, or "
            "take device='auto', which uses a card only where there is one"
        )
    return torch.device("cuda", torch.cuda.current_device())


def free_memory(device: torch.device) -> int:
    """Bytes that are free on a card, with those that PyTorch holds and would use again."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


@cache
def has_kernels(factors: int, device: torch.device, *, warns: bool = True) -> bool:
    """Whether the kernels can be used; where they should but cannot, a warning may say why."""
    if device.type != "cuda":
        return False
    try:
        if factors > MOST_FACTORS:
            raise KernelError(f"the kernels take {MOST_FACTORS} factors at most, not {factors}")
        kernels_for(factors, device.index or 0)
    except (KernelError, OSError) as error:
        if warns:
            warn(f"plain PyTorch is used on the card, which is much slower: {error}")
        return False
    return True


_LOST = (
    "The factors on it are lost; a fit with checkpoint= goes on with resume=True, in a new process"
)


@contextlib.contextmanager
def device_errors(doing: str) -> Iterator[None]:
    """Say in plain words what an error of the device means."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        free, total = (number / 2**30 for number in torch.cuda.mem_get_info())
        raise DeviceError(
            f"the card ran out of memory while {doing}: {free:.1f} of {total:.1f} GiB are free, "
            "perhaps because another process uses it. Fewer factors need less, and device='cpu' "
            "needs none"
        ) from error
    except (torch.AcceleratorError, KernelError) as error:
        first = str(error).splitlines()[0]
        raise DeviceError(f"the card failed while {doing}: {first}. {_LOST}") from error
