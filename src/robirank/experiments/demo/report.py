"""What the demonstration says on the terminal."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from robirank.experiments.demo.latent import LatentResult
    from robirank.experiments.demo.run import DemoData, DemoResult

_TITLES = {"ndcg@1": "NDCG@1", "ndcg@5": "NDCG@5", "ndcg@10": "NDCG@10", "map": "MAP"}

_LATENT_TITLES = {
    "precision@1": "P@1",
    "precision@10": "P@10",
    "recall@20": "Recall@20",
    "ndcg@20": "NDCG@20",
}

_EXPLAINED = {
    "RoBiRank": "ρ = log₂(1 + t), Type-I robust",
    "Identity": "ρ = t, convex, gives up on nothing",
    "Type-II": "ρ = 1 − 1/log₂(2 + t), bounded",
    "Pairwise logistic": "scikit-learn, on sampled pairs",
    "RoBiRank, latent": "who played what, no features",
    "Identity, latent": "the same with ρ = t",
    "WARP, latent": "sampled, weighted by estimated rank",
}


class Report:
    """Tells the story of the demonstration as it goes."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()

    def introduce(self, data: DemoData) -> None:
        """Say what the data are."""
        say = self.console.print
        say("\n[bold]RoBiRank on data with planted outliers[/bold]\n", highlight=False)
        say(
            f"A hidden linear model grades documents 0, 1 or 2. {data.train.n_queries} queries to "
            f"train on, {data.vali.n_queries} to choose the penalty, {data.test.n_queries} to "
            f"test; {data.train.n_features} features. In training and validation one document in "
            "ten is an outlier: it belongs to the lower half of its list but has the top grade, "
            "and no good ranking can put it on top. The test queries have the right grades.\n",
            highlight=False,
        )

    @contextlib.contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Show that something is under way, then how long it took."""
        started = time.perf_counter()
        with self.console.status(f"{what} …"):
            yield
        seconds = time.perf_counter() - started
        note = _EXPLAINED.get(what, "")
        self.console.print(
            f"  [green]✓[/green] {what:<22}[dim]{note:<36}[/dim]{seconds:5.1f} s", highlight=False
        )

    def conclude(self, result: DemoResult, data: DemoData) -> None:
        """Print the tables, the files, and what to try next."""
        say = self.console.print
        n_queries = data.test.n_queries
        say(f"\n[bold]Means over {n_queries} test queries[/bold], best of each column bold")
        say(quality_table(result))
        say(f"[bold]NDCG@10 less RoBiRank's[/bold], over the same {n_queries} queries")
        say(difference_table(result))
        say(
            "[dim]A setting chosen to show robustness; in others the order differs "
            "(see the guide). On your own data, measure.[/dim]\n",
            highlight=False,
        )
        self._recommend(result.latent)
        say("[bold]Files[/bold]")
        for what, path in result.files.items():
            say(f"  {what:<24}{path}", highlight=False, soft_wrap=True)
        say("\n[bold]Try next[/bold]")
        for line in next_steps(result):
            say(f"  {line}", highlight=False, soft_wrap=True)
        say(f"\n[dim]{result.seconds:.0f} seconds in all.[/dim]", highlight=False)

    def _recommend(self, latent: LatentResult) -> None:
        say = self.console.print
        ratio = latent.methods["RoBiRank"].measures["ndcg@20"] / latent.popular.measures["ndcg@20"]
        users = len(latent.planted.model.user_factors)
        say("[bold]The same loss without features[/bold]: who played what\n", highlight=False)
        say(
            f"{users:,} users with planted tastes played songs of twelve genres; a fifth of what "
            "each of them played is hidden. The models know neither users nor songs but by what "
            "was played. Means over users, defaults throughout:",
            highlight=False,
        )
        say(latent_table(latent))
        say(
            f"RoBiRank's NDCG@20 is [bold]{ratio:.1f} times[/bold] that of recommending what is "
            "most popular. Three users drawn at random:",
            highlight=False,
        )
        say(taste_table(latent))


def latent_table(result: LatentResult) -> Table:
    """Means over the users, the best method of each column in bold."""
    table = Table(box=SIMPLE_HEAD)
    table.add_column("Method", no_wrap=True)
    for title in (*_LATENT_TITLES.values(), "fit, s"):
        table.add_column(title, justify="right", no_wrap=True)
    best = {m: max(r.measures[m] for r in result.methods.values()) for m in _LATENT_TITLES}
    for name, row in result.methods.items():
        cells = [
            f"[bold]{row.measures[m]:.4f}[/bold]"
            if row.measures[m] == best[m]
            else f"{row.measures[m]:.4f}"
            for m in _LATENT_TITLES
        ]
        table.add_row(name, *cells, f"{row.seconds:.1f}")
    for name, row in (("Most popular", result.popular), ("Planted tastes", result.planted)):
        cells = [f"{row.measures[m]:.4f}" for m in _LATENT_TITLES]
        table.add_row(name, *cells, "", style="dim")
    return table


def taste_table(result: LatentResult) -> Table:
    """What a few users have beside what is recommended to them, song by song."""
    table = Table(box=SIMPLE_HEAD)
    for title in ("User", "has played", "RoBiRank recommends", ""):
        table.add_column(title, no_wrap=True)
    for taste in result.tastes:
        for i, (song, right) in enumerate(zip(taste.recommended, taste.right, strict=True)):
            last = i == len(taste.recommended) - 1
            more = f"[dim]and {len(taste.has) - i} more[/dim]"
            has = more if last and len(taste.has) > i + 1 else taste.has[i]
            mark = "[green]✓ was hidden[/green]" if right else ""
            table.add_row("" if i else str(taste.user), has, song, mark, end_section=last)
    return table


def quality_table(result: DemoResult) -> Table:
    """Means over the test queries, the best method of each column in bold."""
    table = Table(box=SIMPLE_HEAD)
    table.add_column("Method", no_wrap=True)
    for title in (*_TITLES.values(), "alpha", "fit, s"):
        table.add_column(title, justify="right", no_wrap=True)
    best = {m: max(r.measures[m] for r in result.methods.values()) for m in _TITLES}
    for name, row in result.methods.items():
        cells = [
            f"[bold]{row.measures[m]:.4f}[/bold]"
            if row.measures[m] == best[m]
            else f"{row.measures[m]:.4f}"
            for m in _TITLES
        ]
        table.add_row(name, *cells, f"{row.alpha:g}", f"{row.seconds:.1f}")
    ceiling = [f"{result.ceiling.measures[m]:.4f}" for m in _TITLES]
    table.add_row("Planted weights", *ceiling, "", "", style="dim")
    return table


def difference_table(result: DemoResult) -> Table:
    """NDCG@10 of the other methods less RoBiRank's, with intervals."""
    table = Table(box=SIMPLE_HEAD)
    table.add_column("Method", no_wrap=True)
    table.add_column("difference", justify="right", no_wrap=True)
    table.add_column("95 % interval (paired bootstrap)", justify="center", no_wrap=True)
    for name, row in result.methods.items():
        if name != "RoBiRank":
            change, low, high = (_signed(v) for v in row.difference)
            table.add_row(name, change, f"{low} to {high}")
    return table


def next_steps(result: DemoResult) -> list[str]:
    """Commands to go on with, on the files that the demonstration has written."""
    files = result.files
    model, mine = files["model"], files["model"].with_name("mine.safetensors")
    latent, plays = files["latent model"], files["plays, train"]
    train = files["data, train"]
    user = result.latent.tastes[0].user
    command = _command()
    return [
        f"{command} ltr evaluate {model} {files['data, test']}",
        f"{command} ltr train {train} --validation {files['data, vali']} --model {mine}",
        f"{command} ltr export {model} --format solr",
        f"{command} experiment ltr {model.parent} --output {model.parent / 'field'}",
        f'{command} latent similar {latent} "Jazz 1"',
        f"{command} latent recommend {latent} {user} --train {plays}",
        f"{command} experiment latent {plays} --quick --output {model.parent / 'race'}",
    ]


def _command() -> str:
    """How to call robirank from here: by the path it was called by where it is not on PATH."""
    called = sys.argv[0]
    by_path = called.endswith("robirank") and shutil.which("robirank") is None
    return called if by_path else "robirank"


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")
