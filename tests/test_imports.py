"""What is imported when: light packages stay light, and local users need no cluster."""

import subprocess
import sys
import textwrap

import pytest

FIT = """
    import robirank as rr
    data = rr.make_interactions(60, 30, 400, random_state=0)
    train, valid = rr.split_ratio(data, random_state=0)
    for model in (
        rr.LatentRoBiRank(4, solver="exact", iterations=2, random_state=0),
        rr.LatentRoBiRank(4, solver="sgd", iterations=2, random_state=0),
        rr.WARP(4, iterations=2, random_state=0),
    ):
        model.fit(train, show_progress=False, validation=valid)
        model.recommend(0, train.matrix[0])
"""


def loaded_by(script):
    code = textwrap.dedent(script) + "\nimport sys\nprint(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_local_fit_imports_no_cluster():
    modules = loaded_by(FIT)
    assert "robirank.engine.threads" in modules
    unwanted = {
        m
        for m in modules
        if m.split(".")[0] in ("ray", "fsspec", "lightgbm", "matplotlib", "torch")
        or m.startswith("robirank.engine.ray")
        or m in ("robirank.latent.train.cluster", "robirank.data.partitions")
    }
    assert not unwanted


@pytest.mark.parametrize("package", ["sklearn", "polars", "scipy", "rich", "typer"])
def test_the_package_itself_imports_next_to_nothing(package):
    assert package not in loaded_by("import robirank")
