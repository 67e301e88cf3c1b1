"""The demonstration: RoBiRank against its relatives, on judged documents and on plays of songs."""

from __future__ import annotations

import gzip
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import robirank as rr
from robirank.metrics import evaluate_ranking
from robirank_lab.files import write_whole
from robirank_lab.ltr.results import LtrResults
from robirank_lab.ltr.runner import run_ltr
from robirank_lab.report.write import write_report
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import LtrExperiment

METHODS = ("RoBiRank", "Identity", "Type-II", "RankSVM")
METRICS = {"ndcg@1": "NDCG@1", "ndcg@10": "NDCG@10", "map": "MAP"}
LATENT_METRICS = {"precision@1": "P@1", "recall@20": "Recall@20", "ndcg@20": "NDCG@20"}
GENRES = (
    *("Ambient", "Blues", "Country", "Disco", "Folk", "Funk"),
    *("Jazz", "Metal", "Opera", "Punk", "Soul", "Techno"),
)
# Chosen, out of several settings tried, to show what robustness is. RoBiRank is not first in all
# of them: with five grades pairwise models are, with more outliers often Type-II (see the guide).
_SHAPE: dict[str, Any] = {"n_docs": (20, 60), "n_features": 50, "n_grades": 3}
_OUTLIERS = 0.1
_FACTORS = 16
_SHOWN_USERS, _SHOWN_ITEMS = 3, 6


def run_demo(
    folder: Path,
    *,
    queries: int = 200,
    seed: int = 0,
    threads: int | None = None,
    console: Console | None = None,
) -> None:
    """Train RoBiRank and its relatives on generated data, compare them, show the results.

    First on judged documents with features, then on users and what they played.

    Parameters
    ----------
    folder : Path
        For the report, models and data; made if it is missing.
    queries : int, default=200
        Queries to train on, at least 10; half as many choose settings, twice as many test.
        There are ten users a query in the second part, 400 to 2,000.
    seed : int, default=0
        Decides the data and everything else.
    threads : int, optional
        Every core by default; the result does not depend on it.
    console : rich.console.Console, optional
        Where to report; standard output by default.
    """
    begin, console = time.perf_counter(), console or Console(highlight=False)
    folder.mkdir(parents=True, exist_ok=True)
    run = rank_documents(folder, queries, seed, threads, console)
    user = recommend_songs(folder, min(max(10 * queries, 400), 2000), seed, threads, console)
    page, steps = write_report(run.path), next_steps(folder, user)
    console.print(
        "[bold]To look at[/bold], in a browser",
        f"  {escape(str(page))}",
        f"\n[bold]Files[/bold] in {escape(str(folder))}",
        "  judged documents: train.txt.gz, vali.txt.gz, test.txt.gz; a model: robirank.safetensors",
        "  plays: plays-train.tsv.gz, plays-test.tsv.gz; a model: latent.safetensors",
        "\n[bold]Try next[/bold]",
        *(f"  {escape(step)}" for step in steps),
        f"\n[dim]{time.perf_counter() - begin:.0f} seconds in all.[/dim]",
        sep="\n",
        soft_wrap=True,
    )


def metric_table(
    means: Mapping[str, Mapping[str, float]],
    metrics: Mapping[str, str],
    bounds: Sequence[str],
    **more: Mapping[str, str],
) -> Table:
    """A row a method, the best of each column in bold; bounds, which are no methods, are dim.

    ``metrics`` are headings by metric, ``more`` are texts by method, by the heading of a column.
    """
    table = Table(box=SIMPLE_HEAD)
    for i, head in enumerate(["Method", *metrics.values(), *more]):
        table.add_column(head, justify="right" if i else "left", no_wrap=True)
    best = [max(v[m] for who, v in means.items() if who not in bounds) for m in metrics]
    for who, values in means.items():
        cells = [f"{values[m]:.4f}" for m in metrics]
        if who not in bounds:
            pairs = zip(cells, best, strict=True)
            cells = [f"[bold]{c}[/bold]" if c == f"{b:.4f}" else c for c, b in pairs]
        texts = [column.get(who, "") for column in more.values()]
        table.add_row(who, *cells, *texts, style="dim" if who in bounds else None)
    return table


def make_documents(queries: int, seed: int) -> tuple[dict[str, rr.RankingData], NDArray[Any]]:
    """Parts to train, to choose settings and to test, and the planted weights that grade them.

    One document in ten of the lists to learn from is an outlier.
    """
    last_train, last_vali = queries, queries + queries // 2
    options = {**_SHAPE, "n_queries": last_vali + 2 * queries, "random_state": seed}
    dirty = rr.make_ranking(**options, outliers=_OUTLIERS)
    clean, coef = rr.make_ranking(**options, return_coef=True)
    parts = {
        "train": dirty.take(dirty.qid <= last_train),
        "vali": dirty.take((dirty.qid > last_train) & (dirty.qid <= last_vali)),
        "test": clean.take(clean.qid > last_vali),
    }
    return parts, coef


def rank_documents(
    folder: Path, queries: int, seed: int, threads: int | None, console: Console
) -> RunDirectory:
    """Compare rankers by the experiment of the laboratory; save data and a model."""
    parts, coef = make_documents(queries, seed)
    train, test = parts["train"], parts["test"]
    for name, part in parts.items():
        rr.save_letor(folder / f"{name}.txt.gz", part)
    console.print(
        "\n[bold]RoBiRank on data with planted outliers[/bold]\n\nA hidden linear model grades "
        f"documents 0, 1 or 2. {train.n_queries} queries to train on, {parts['vali'].n_queries} to "
        f"choose settings, {test.n_queries} to test; {train.n_features} features. In training and "
        "validation one document in ten is an outlier: it belongs to the lower half of its list "
        "but has the top grade, and no good ranking can put it on top. The test queries have the "
        "right grades.\n"
    )
    if (folder / "comparison" / "run.json").exists():  # of other data, perhaps
        shutil.rmtree(folder / "comparison")
    run = run_ltr(
        folder,
        LtrExperiment(convention="standard", select="ndcg@10", seed=seed, grid_points=6),
        folder / "comparison",
        METHODS,
        title="Planted outliers",
        n_jobs=threads,
        console=console,
        command=f"robirank demo --queries {queries} --seed {seed}",
    )
    chosen = run.fits()[0].params
    model = rr.RoBiRank(**chosen, random_state=seed, num_threads=threads or 0).fit(train)
    rr.save_model(model, folder / "robirank.safetensors", feature_names=train.feature_names)
    planted = evaluate_ranking(test.y, test.X @ coef, test.qid, metrics=list(METRICS))
    show_rankers(run, dict(planted), test.n_queries, console)
    return run


def show_rankers(
    run: RunDirectory, planted: dict[str, Any], n_queries: int, console: Console
) -> None:
    """Print the means of all methods, and their differences to RoBiRank."""
    results, significance = LtrResults(run), run.significance()
    means = {method: results.means(method) for method in METHODS}
    differences = {
        c.method: f"{c.difference:+.4f} [{c.low:+.4f}, {c.high:+.4f}]".replace("-", "−")
        for c in (significance.comparisons if significance else ())
        if c.metric == "ndcg@10"
    }
    rows, more = means | {"Planted weights": planted}, {"NDCG@10 less RoBiRank's": differences}
    console.print(
        f"\n[bold]Means over {n_queries} test queries[/bold], best of each column bold",
        metric_table(rows, METRICS, ["Planted weights"], **more),
        "Differences have 95 % intervals (paired bootstrap over queries). [dim]A setting chosen to "
        "show robustness; in others the order differs (see the guide). On your own data, "
        "measure.[/dim]\n",
        sep="\n",
    )


def make_plays(n_users: int, seed: int) -> tuple[rr.Interactions, rr.Interactions, rr.FactorModel]:
    """What users played, what of it is hidden, and the planted tastes that made both.

    There are twelve genres, of which a user likes a few; songs are called by theirs.
    """
    shape = (n_users, n_users // 2, 30 * n_users)
    options: Any = {"factors": len(GENRES), "noise": 0.1, "random_state": seed}
    data, likes, serves = rr.make_interactions(*shape, **options, return_factors=True)
    named = rr.Interactions.from_matrix(data.matrix, items=song_names(serves))
    U, V = (np.ascontiguousarray(rows, dtype=np.float32) for rows in (likes, serves))
    return *rr.split_ratio(named, 0.2, random_state=seed), rr.FactorModel.of(U, V)


def song_names(serves: NDArray[np.float32]) -> list[str]:
    """Call each song by the genre it serves most, numbered from the most popular on."""
    genre = serves.argmax(axis=1)
    names = [""] * len(genre)
    for k, name in enumerate(GENRES):
        songs = np.flatnonzero(genre == k)
        order = np.argsort(-serves[songs, k], kind="stable")
        for place, song in enumerate(songs[order], start=1):
            names[song] = f"{name} {place}"
    return names


def recommend_songs(
    folder: Path, n_users: int, seed: int, threads: int | None, console: Console
) -> int:
    """Fit recommenders with their defaults, compare them, show recommendations; returns a user."""
    train, test, planted = make_plays(n_users, seed)
    for name, part in (("train", train), ("test", test)):
        pairs = zip(part.users[part.user_codes()], part.items[part.indices], strict=True)
        text = "".join(f"{user}\t{song}\n" for user, song in pairs)
        write_whole(folder / f"plays-{name}.tsv.gz", gzip.compress(text.encode(), mtime=0))
    console.print(
        "[bold]The same loss without features[/bold]: who played what\n\n"
        f"{n_users:,} users with planted tastes played songs of twelve genres; a fifth of what "
        "each of them played is hidden. The models know neither users nor songs but by what was "
        "played. Means over users, defaults throughout:"
    )
    options: dict[str, Any] = {"random_state": seed, "num_threads": threads or 0}
    models = {
        "RoBiRank": rr.LatentRoBiRank(_FACTORS, **options),
        "Identity": rr.LatentRoBiRank(_FACTORS, rho="identity", **options),
        "WARP": rr.WARP(_FACTORS, **options),
        "Most popular": rr.Popularity(num_threads=threads or 0),
    }
    seconds, begin = {}, time.perf_counter()
    for name, model in models.items():
        with console.status(f"{name} …"):
            model.fit(train, show_progress=False)
        seconds[name], begin = f"{time.perf_counter() - begin:.1f}", time.perf_counter()
    models["RoBiRank"].save(folder / "latent.safetensors")
    rows = models | {"Planted tastes": planted}
    means = {name: rr.evaluate(model, train=train, test=test) for name, model in rows.items()}
    bounds = ["Most popular", "Planted tastes"]
    console.print(metric_table(means, LATENT_METRICS, bounds, **{"fit, s": seconds}))
    ratio = means["RoBiRank"]["ndcg@20"] / means["Most popular"]["ndcg@20"]
    console.print(
        f"RoBiRank's NDCG@20 is [bold]{ratio:.1f} times[/bold] that of recommending what is most "
        "popular. Three users drawn at random:"
    )
    able = np.flatnonzero((train.lengths >= 12) & (test.lengths >= 3))
    users = np.sort(np.random.default_rng(seed).permutation(able)[:_SHOWN_USERS])
    console.print(taste_table(models["RoBiRank"], train, test, users))
    return int(users[0])


def taste_table(
    model: Any, train: rr.Interactions, test: rr.Interactions, users: NDArray[Any]
) -> Table:
    """What users have beside what is recommended to them, song by song."""
    table = Table(box=SIMPLE_HEAD)
    for title in ("User", "has played", "RoBiRank recommends", ""):
        table.add_column(title, no_wrap=True)
    best, _ = model.recommend(users, train.matrix[users], N=_SHOWN_ITEMS)
    for user, items in zip(users.tolist(), best.tolist(), strict=True):
        played, hidden = train.matrix[user].indices, set(test.matrix[user].indices.tolist())
        played = played[np.argsort(-model.item_counts_[played], kind="stable")]
        has = train.items[played[: _SHOWN_ITEMS - 1]].tolist()
        has.append(f"[dim]and {len(played) - len(has)} more[/dim]")
        marks = ["[green]✓ was hidden[/green]" if item in hidden else "" for item in items]
        names = [str(user), *[""] * (_SHOWN_ITEMS - 1)]
        for cells in zip(names, has, train.items[items], marks, strict=True):
            table.add_row(*cells)
        table.add_section()
    return table


def next_steps(folder: Path, user: int) -> list[str]:
    """Commands to go on with, on the files that the demonstration has written."""
    # By the path it was called by where it is not on PATH.
    by_path = sys.argv[0].endswith("robirank") and shutil.which("robirank") is None
    steps = [
        f"ltr evaluate {folder}/robirank.safetensors {folder}/test.txt.gz",
        f"ltr export {folder}/robirank.safetensors --format solr",
        f"experiment ltr {folder} --output {folder}/field",
        f'latent similar {folder}/latent.safetensors "Jazz 1"',
        f"latent recommend {folder}/latent.safetensors {user} --train {folder}/plays-train.tsv.gz",
        f"experiment latent {folder}/plays-train.tsv.gz --quick --output {folder}/race",
        f"serve {folder}/latent.safetensors --train {folder}/plays-train.tsv.gz",
    ]
    return [f"{sys.argv[0] if by_path else 'robirank'} {step}" for step in steps]
