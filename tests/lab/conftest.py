"""Runs that several tests look at; made once."""

import pytest
from rich.console import Console

from lab.synthetic_run import make_run
from robirank import make_interactions, split_ratio
from robirank_lab.latent.runner import run_latent
from robirank_lab.noise.data import Lists, Table
from robirank_lab.noise.runner import run_noise
from robirank_lab.run_format import LatentExperiment, NoiseExperiment, ScalingExperiment
from robirank_lab.scaling.runner import run_scaling

QUIET = Console(quiet=True)
TINY_SCALING = ScalingExperiment(workers=(1, 2), parts=(8,), factors=8, iterations=3)
TINY_SHAPE = (300, 120, 6000)
TINY_NOISE = NoiseExperiment(
    kinds=("winners", "spam"), shares=(0, 0.2, 0.4), seeds=2, grid_points=2
)
TINY_ATTACK = NoiseExperiment(
    kinds=("bots", "shilling"), shares=(0, 0.3), seeds=2, factors=4, iterations=3
)


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
    experiment = LatentExperiment(factors=4, iterations=8, threads=1, seeds=2)
    output = tmp_path_factory.mktemp("run") / "toy"
    return run_latent(latent_folder, experiment, output, ["RoBiRank sgd", "WARP"], console=QUIET)


@pytest.fixture(scope="session")
def scaling_run(tmp_path_factory):
    """Runs on one and two workers."""
    output = tmp_path_factory.mktemp("run") / "tiny"
    return run_scaling(None, TINY_SCALING, output, shape=TINY_SHAPE, console=QUIET)


@pytest.fixture(scope="session")
def noise_run(tmp_path_factory):
    """Two rankers under two kinds of noise."""
    output = tmp_path_factory.mktemp("run") / "noise"
    methods = ["RoBiRank", "Log to Type-II"]
    return run_noise(Lists(None, 40), TINY_NOISE, output, methods, n_jobs=2, console=QUIET)


@pytest.fixture(scope="session")
def attack_run(tmp_path_factory):
    """Latent models under attacks."""
    output = tmp_path_factory.mktemp("run") / "attack"
    methods = ["RoBiRank exact", "Popularity"]
    return run_noise(Table(None, {}), TINY_ATTACK, output, methods, n_jobs=2, console=QUIET)
