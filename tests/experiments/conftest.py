"""Runs that several tests look at; made once."""

import numpy as np
import pytest
from rich.console import Console

from experiments.synthetic_run import TINY_SCALING, make_run
from robirank import make_interactions, split_ratio
from robirank.experiments.latent.runner import run_latent
from robirank.experiments.latent.units import LatentExperiment
from robirank.experiments.scaling import forecast
from robirank.experiments.scaling import runner as scaling_runner
from robirank.experiments.scaling.simulation import Shape

QUIET = Console(quiet=True)


@pytest.fixture(scope="session")
def synthetic_run(tmp_path_factory):
    """Twelve methods, five folds, 106 queries."""
    return make_run(tmp_path_factory.mktemp("run") / "ohsumed")


@pytest.fixture(scope="session")
def latent_folder(tmp_path_factory):
    """Three files; the test file has a user and an item that nobody knows."""
    root = tmp_path_factory.mktemp("data") / "toy"
    root.mkdir()
    data = make_interactions(120, 60, 1500, factors=3, noise=0.1, random_state=0)
    rest, test = split_ratio(data, 0.2)
    train, valid = split_ratio(rest, 0.1)
    for name, part in (("train", train), ("valid", valid), ("test", test)):
        pairs = zip(part.users[part.user_codes()], part.items[part.indices], strict=True)
        text = "".join(f"u{user}\ts{item}\n" for user, item in pairs)
        (root / f"{name}.tsv").write_text(text)
    with (root / "test.tsv").open("a") as file:
        file.write("nobody\ts1\nu1\tnothing\n")
    return root


@pytest.fixture(scope="session")
def latent_run(latent_folder, tmp_path_factory):
    """Two methods from two starts."""
    experiment = LatentExperiment(latent_folder, factors=4, iterations=8, threads=1, seeds=2)
    output = tmp_path_factory.mktemp("run") / "toy"
    return run_latent(experiment, output, ["RoBiRank sgd", "WARP"], console=QUIET)


@pytest.fixture(scope="session")
def scaling_run(tmp_path_factory):
    """Runs on one and two workers, and a simulation of a small Million Song shape."""

    def small_song(factors):
        return Shape(np.full(3000, 20.0), np.full(3000, 20.0), factors)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            scaling_runner,
            "million_song_part",
            lambda: make_interactions(300, 900, 6000, random_state=0),
        )
        patch.setattr(forecast, "million_song", small_song)
        output = tmp_path_factory.mktemp("run") / "tiny"
        return scaling_runner.run_scaling(TINY_SCALING, output, console=QUIET)
