"""Which device is meant and how it does, without importing PyTorch where none is asked for."""

from __future__ import annotations

from importlib.util import find_spec

from robirank._checks import check_choice


def resolve_device(device: str) -> str:
    """The device that is meant: "cpu" or "cuda".

    Examples
    --------
    >>> resolve_device("cpu")
    'cpu'
    """
    check_choice("device", device, ("cpu", "cuda", "auto"))
    if device == "cpu":
        return device
    if find_spec("torch") is None:
        if device == "auto":
            return "cpu"
        raise ImportError(
            "device='cuda' needs PyTorch; install it with: pip install 'robirank[gpu]'"
        )
    from robirank.latent.gpu.device import cuda_device, has_card

    if device == "auto":
        return "cuda" if has_card() else "cpu"
    cuda_device()
    return device


def is_fast(factors: int, device: str) -> bool:
    """Whether a device is at its full speed with so many factors: a card, if its kernels take them.

    Examples
    --------
    >>> is_fast(256, "cpu")
    True
    """
    if device == "cpu":
        return True
    from robirank.latent.gpu.device import cuda_device, has_kernels

    return has_kernels(factors, cuda_device(), warns=False)
