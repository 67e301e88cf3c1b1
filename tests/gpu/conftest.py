"""What runs on a card, on the CPU: the plain PyTorch path of the same steps."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture
def as_if_a_card(monkeypatch):
    """``device="cuda"`` means PyTorch on the CPU."""
    for module in (
        "solvers.design_on_card",
        "solvers.exact_on_card",
        "factors.topk_on_card",
        "solvers.fold_in_on_card",
        "gpu.device",
    ):
        monkeypatch.setattr(f"robirank.latent.{module}.cuda_device", lambda: torch.device("cpu"))


@pytest.fixture(autouse=True)
def _one_thread():
    """Tables are small here, and threads would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
