"""What a report of a defect needs to say of the machine: ``robirank --version --verbose``."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from robirank import __version__

_REQUIRED = ("nanobind-backend", "numpy", "scipy", "scikit-learn", "polars", "msgspec", "typer")
_OPTIONAL = (
    *("lightgbm", "torch", "ray", "onnx", "starlette", "uvicorn", "usearch", "faiss-cpu"),
    "robirank-lab",
)


def about() -> str:
    """Versions, instruction set, threads, BLAS and card, a line each.

    Examples
    --------
    >>> about().splitlines()[0].split()[0]
    'robirank'
    """
    from robirank import _core
    from robirank._blas import describe_blas
    from robirank._threads import thread_count

    sets = ", ".join(_core.instruction_sets())
    found = {name: _version_of(name) for name in (*_REQUIRED, *_OPTIONAL)}
    lines = {
        "robirank": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.platform()}",
        "instruction set": f"{_core.instruction_set()} (this machine has {sets})",
        "threads": str(thread_count()),
        "BLAS": describe_blas(),
        "card": _card(),
        **{name: there for name, there in found.items() if there or name in _REQUIRED},
    }
    width = max(map(len, lines))
    return "\n".join(f"{name:<{width}}  {value or 'missing'}" for name, value in lines.items())


def _version_of(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def _card() -> str:
    if find_spec("torch") is None:
        return "none (PyTorch is not installed)"
    from robirank.latent.gpu.device import describe_card

    return describe_card()
