"""What an installed robirank must do, checked with nothing but the package and Python.

``python tests/packaging/smoke.py`` in an environment into which only the wheel was installed. It
goes through both kinds of model, their files and the command line, by every instruction set of the
machine, and compares bits: those of one and of two threads, of a model and of its file. The last
line that it prints is one JSON object with the digests, to compare machines, builds and versions.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import robirank as rr
from robirank import _core


def digest(*arrays: np.ndarray) -> str:
    """Name bits by a short hash."""
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()[:12]


def features(threads: int) -> rr.RoBiRank:
    data = rr.make_ranking(60, n_docs=20, n_features=8, random_state=0)
    model = rr.RoBiRank(alpha=1e-2, num_threads=threads).fit(data)
    assert model.score(data) > 0.6
    return model


def latent(solver: str) -> Callable[[int], rr.LatentRoBiRank]:
    def fit(threads: int) -> rr.LatentRoBiRank:
        data = rr.make_interactions(400, 150, 6000, random_state=0)
        model = rr.LatentRoBiRank(
            factors=16,
            solver=solver,
            regularization=0.1,
            iterations=4,
            num_threads=threads,
            random_state=0,
        ).fit(data)
        items, _ = model.recommend(0, data.matrix[0], N=5)
        assert len(set(items)) == 5
        return model

    return fit


MODELS = {"features": features, "exact": latent("exact"), "sgd": latent("sgd")}


def bits(model) -> str:
    if isinstance(model, rr.RoBiRank):
        return digest(model.coef_)
    return digest(model.user_factors, model.item_factors)


def check_models() -> dict[str, str]:
    """Fit every model on one and two threads; save and load it."""
    found = {}
    for name, fit in MODELS.items():
        model = fit(1)
        found[name] = bits(model)
        assert bits(fit(2)) == found[name], f"{name}: two threads give other bits than one"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.safetensors")
            rr.save_model(model, path)
            assert bits(rr.load_model(path)) == found[name], f"{name}: the file has other bits"
    return found


def check_command_line() -> None:
    """Train and recommend from a file, as somebody without Python does."""
    program = Path(sysconfig.get_path("scripts"), "robirank")
    with tempfile.TemporaryDirectory() as folder:
        plays = Path(folder, "plays.tsv")
        data = rr.make_interactions(100, 40, 1500, random_state=0)
        rows = zip(data.user_codes(), data.indices, strict=True)
        lines = [f"u{u}\tartist {i}\t1\n" for u, i in rows]
        plays.write_text("user\tartist\tplays\n" + "".join(lines))
        for arguments in (
            ["--version"],
            ["latent", "train", plays, "--item", "artist", "--factors", "8", "-o", "m.safetensors"],
            ["latent", "recommend", "m.safetensors", "u1", "--train", plays, "--item", "artist"],
        ):
            command = [str(program), *map(str, arguments)]
            ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    assert "artist" in ran.stdout


def main() -> None:
    began = time.perf_counter()
    checkout = Path(__file__).resolve().parents[2]
    assert checkout not in Path(rr.__file__).resolve().parents or "site-packages" in rr.__file__, (
        f"{rr.__file__} is the checkout and not an installed package"
    )
    found = {}
    for name in _core.instruction_sets():
        _core.use_instruction_set(name)
        found[name] = check_models()
        print(name, found[name])
    check_command_line()
    sets = list(found.values())
    same = [key for key in MODELS if all(one[key] == sets[0][key] for one in sets)]
    print(f"the same bits by every instruction set: {', '.join(same) or 'none'}")
    print(
        json.dumps(
            {
                "robirank": rr.__version__,
                "python": platform.python_version(),
                "machine": platform.machine(),
                "numpy": np.__version__,
                "seconds": round(time.perf_counter() - began, 1),
                "digests": found,
            }
        )
    )


if __name__ == "__main__":
    sys.exit(main())
