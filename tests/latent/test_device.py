"""device=: which one is meant, what it refuses, and files that know none."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from robirank import LatentRoBiRank, load_model, make_interactions
from robirank.latent.gpu.resolve import resolve_device

TABLE = make_interactions(60, 40, 500, random_state=0)
HAS_CARD = False
if find_spec("torch") is not None:
    import torch

    HAS_CARD = torch.cuda.is_available()


def test_the_cpu_imports_no_torch():
    code = (
        "import sys; from robirank import LatentRoBiRank, make_interactions; "
        "LatentRoBiRank(2, iterations=1, random_state=0)"
        ".fit(make_interactions(20, 20, 90, random_state=0), False); "
        "print('torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_unknown_devices_are_named():
    with pytest.raises(ValueError, match=r"device must be one of .*cuda.*got 'gpu'"):
        LatentRoBiRank(device="gpu").fit(TABLE, False)


@pytest.mark.skipif(HAS_CARD, reason="there is a card")
def test_auto_without_a_card_is_the_cpu():
    assert resolve_device("auto") == "cpu"
    one, other = (
        LatentRoBiRank(4, iterations=2, random_state=0, device=device).fit(TABLE, False)
        for device in ("auto", "cpu")
    )
    np.testing.assert_array_equal(one.item_factors, other.item_factors)


@pytest.mark.skipif(HAS_CARD or find_spec("torch") is None, reason="needs torch and no card")
def test_a_missing_card_is_an_error_that_says_why():
    from robirank.latent.gpu.device import DeviceError

    with pytest.raises(DeviceError, match="device must be 'cpu' here"):
        LatentRoBiRank(device="cuda").fit(TABLE, False)


def test_a_missing_torch_is_an_error_that_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("robirank.latent.gpu.resolve.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"robirank\[gpu\]"):
        resolve_device("cuda")
    assert resolve_device("auto") == "cpu"


def test_files_know_no_device(tmp_path):
    model = LatentRoBiRank(4, iterations=1, random_state=0).fit(TABLE, False)
    model.set_params(device="auto").save(tmp_path / "m.safetensors")
    assert b"device" not in (tmp_path / "m.safetensors").read_bytes()
    assert load_model(tmp_path / "m.safetensors").device == "cpu"


def test_only_the_exact_solver_has_a_device(monkeypatch):
    monkeypatch.setattr("robirank.latent.model.resolve_device", lambda device: "cuda")
    with pytest.raises(ValueError, match=r"solver must be one of \('auto', 'exact'\) on device"):
        LatentRoBiRank(solver="sgd", device="cuda").fit(TABLE, False)


def test_a_cluster_has_no_device(monkeypatch):
    monkeypatch.setattr("robirank.latent.model.resolve_device", lambda device: "cuda")
    with pytest.raises(ValueError, match="device must be 'cpu' on a cluster"):
        LatentRoBiRank(engine="ray", device="cuda").solver_for(10, 10)
