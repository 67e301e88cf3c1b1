"""The second part of the demonstration: recommendations for users whose tastes are known."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank.data.interactions import Interactions
from robirank.data.make_interactions import make_interactions
from robirank.data.splits import split_ratio
from robirank.experiments.demo.parts import CUTOFFS, DemoPart, MethodResult
from robirank.latent.factors.evaluate import evaluate
from robirank.latent.factors.recommend import FactorModel
from robirank.latent.model import LatentRoBiRank
from robirank.latent.popularity import Popularity
from robirank.latent.warp import WARP
from robirank.storage.files import write_whole

LATENT_MEASURES = ("precision@1", "precision@10", "recall@20", "ndcg@20")
_FACTORS = 16
GENRES = (
    *("Ambient", "Blues", "Country", "Disco", "Folk", "Funk"),
    *("Jazz", "Metal", "Opera", "Punk", "Soul", "Techno"),
)
_SHOWN_USERS, _SHOWN_ITEMS = 3, 6

#: Name of the method, and how to make it for a seed and a number of threads.
LATENT_METHODS: dict[str, Callable[[int, int], Any]] = {
    "RoBiRank": lambda seed, n: LatentRoBiRank(_FACTORS, random_state=seed, num_threads=n),
    "Identity": lambda seed, n: LatentRoBiRank(
        _FACTORS, rho="identity", random_state=seed, num_threads=n
    ),
    "WARP": lambda seed, n: WARP(_FACTORS, random_state=seed, num_threads=n),
}


@dataclass(frozen=True)
class LatentData:
    """What users played, a part to learn from and a part that is hidden.

    ``planted`` are the tastes that made the data: no model can be expected to do better.
    """

    train: Interactions
    test: Interactions
    planted: FactorModel


@dataclass(frozen=True)
class Taste:
    """A user, what they have, and what is recommended; ``right`` marks what was hidden."""

    user: int
    has: list[str]
    recommended: list[str]
    right: list[bool]


@dataclass(frozen=True)
class LatentPart(DemoPart):
    """Bounds are popularity and the truth; tastes of a few users are shown."""

    n_users: int
    tastes: list[Taste]


def make_latent_data(n_users: int, random_state: int) -> LatentData:
    """Plant tastes: twelve genres, of which a user likes a few; songs are called by theirs."""
    data, likes, serves = make_interactions(
        n_users,
        n_users // 2,
        30 * n_users,
        factors=len(GENRES),
        noise=0.1,
        random_state=random_state,
        return_factors=True,
    )
    named = Interactions.from_matrix(data.matrix, items=song_names(serves))
    train, test = split_ratio(named, 0.2, random_state=random_state)
    U, V = (np.ascontiguousarray(rows, dtype=np.float32) for rows in (likes, serves))
    return LatentData(train, test, FactorModel.of(U, V))


def song_names(serves: NDArray[np.float32]) -> list[str]:
    """Call each song by the genre it serves most, numbered from the most popular on."""
    genre = serves.argmax(axis=1)
    names = [""] * len(genre)
    for k, name in enumerate(GENRES):
        mine = np.flatnonzero(genre == k)
        for place, song in enumerate(mine[np.argsort(-serves[mine, k], kind="stable")], start=1):
            names[song] = f"{name} {place}"
    return names


def run_latent_demo(
    folder: Path,
    *,
    n_users: int,
    random_state: int,
    num_threads: int,
    working: Callable[[str], Any],
) -> LatentPart:
    """Train on generated plays, compare with what is most popular, write model and data.

    Parameters
    ----------
    folder : Path
        Where model and data go.
    n_users : int
        There are half as many songs.
    working : callable
        Makes a context manager that shows what is under way.
    """
    data = make_latent_data(n_users, random_state)
    methods = {}
    for name, make in LATENT_METHODS.items():
        model = make(random_state, num_threads)
        started = time.perf_counter()
        with working(f"{name}, latent"):
            model.fit(data.train, show_progress=False)
        methods[name] = _measure(model, data, time.perf_counter() - started)
    popular = Popularity(num_threads=num_threads).fit(data.train)
    bounds = {
        "Most popular": _measure(popular, data),
        "Planted tastes": _measure(data.planted, data),
    }
    model = methods["RoBiRank"].model
    files = _write_files(model, data, folder)
    tastes = _tastes(model, data, popular.item_counts_, random_state)
    return LatentPart(methods, bounds, files, n_users, tastes)


def _measure(model: Any, data: LatentData, seconds: float = 0.0) -> MethodResult:
    found = evaluate(model, train=data.train, test=data.test, k=CUTOFFS)
    curve = np.array([found[f"precision@{k}"] for k in CUTOFFS])
    return MethodResult({m: found[m] for m in LATENT_MEASURES}, curve, model, seconds)


def _tastes(model: Any, data: LatentData, plays: NDArray[Any], seed: int) -> list[Taste]:
    """A few users drawn at random among those with enough to show."""
    able = np.flatnonzero((data.train.lengths >= 12) & (data.test.lengths >= 3))
    users = np.sort(np.random.default_rng(seed).permutation(able)[:_SHOWN_USERS])
    found, _ = model.recommend(users, data.train.matrix[users], N=_SHOWN_ITEMS)
    songs = data.train.items
    tastes = []
    for user, best in zip(users.tolist(), found, strict=True):
        mine, hidden = data.train.matrix[user].indices, set(data.test.matrix[user].indices.tolist())
        mine = mine[np.argsort(-plays[mine], kind="stable")]
        right = [int(song) in hidden for song in best]
        tastes.append(Taste(user, songs[mine].tolist(), songs[best].tolist(), right))
    return tastes


def _write_files(model: Any, data: LatentData, folder: Path) -> dict[str, Path]:
    files = {"latent model": folder / "latent.safetensors"}
    model.save(files["latent model"])
    for name, part in (("train", data.train), ("test", data.test)):
        path = files[f"plays, {name}"] = folder / f"plays-{name}.tsv.gz"
        pairs = zip(part.users[part.user_codes()], part.items[part.indices], strict=True)
        text = "".join(f"{user}\t{song}\n" for user, song in pairs)
        with write_whole(path) as file:
            file.write(gzip.compress(text.encode(), mtime=0))
    return files
