"""What the demonstration says on the terminal."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from robirank.experiments.demo.features import RankingDemoData
from robirank.experiments.demo.latent import LatentPart
from robirank.experiments.demo.parts import DemoPart

if TYPE_CHECKING:
    from robirank.experiments.demo.run import DemoResult

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
    """Prints what the demonstration does and finds."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False)

    def introduce(self, data: RankingDemoData) -> None:
        """Say what the data are."""
        self._print("\n[bold]RoBiRank on data with planted outliers[/bold]\n")
        self._print(
            f"A hidden linear model grades documents 0, 1 or 2. {data.train.n_queries} queries to "
            f"train on, {data.vali.n_queries} to choose the penalty, {data.test.n_queries} to "
            f"test; {data.train.n_features} features. In training and validation one document in "
            "ten is an outlier: it belongs to the lower half of its list but has the top grade, "
            "and no good ranking can put it on top. The test queries have the right grades.\n"
        )

    @contextlib.contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Show that something is under way, then how long it took."""
        started = time.perf_counter()
        with self._console.status(f"{what} …"):
            yield
        seconds = time.perf_counter() - started
        note = _EXPLAINED.get(what, "")
        self._print(f"  [green]✓[/green] {what:<22}[dim]{note:<36}[/dim]{seconds:5.1f} s")

    def conclude(self, result: DemoResult) -> None:
        """Print the tables, the files, and what to try next."""
        by_query = result.features.methods["RoBiRank"].by_query
        assert by_query is not None
        self._print(
            f"\n[bold]Means over {len(by_query)} test queries[/bold], best of each column bold"
        )
        alphas = {name: f"{row.model.alpha:g}" for name, row in result.features.methods.items()}
        self._console.print(quality_table(result.features, _TITLES, {"alpha": alphas}))
        self._print(f"[bold]NDCG@10 less RoBiRank's[/bold], over the same {len(by_query)} queries")
        self._console.print(difference_table(result))
        self._print(
            "[dim]A setting chosen to show robustness; in others the order differs "
            "(see the guide). On your own data, measure.[/dim]\n"
        )
        self._recommend(result.latent)
        for title, lines in (
            ("Files", [f"{what:<24}{path}" for what, path in result.files.items()]),
            ("\nTry next", next_steps(result)),
        ):
            self._print(f"[bold]{title}[/bold]")
            for line in lines:
                self._console.print(f"  {line}", highlight=False, soft_wrap=True)
        self._print(f"\n[dim]{result.seconds:.0f} seconds in all.[/dim]")

    def _recommend(self, latent: LatentPart) -> None:
        rows = latent.methods | latent.bounds
        ratio = rows["RoBiRank"].measures["ndcg@20"] / rows["Most popular"].measures["ndcg@20"]
        self._print("[bold]The same loss without features[/bold]: who played what\n")
        self._print(
            f"{latent.n_users:,} users with planted tastes played songs of twelve genres; a fifth "
            "of what each of them played is hidden. The models know neither users nor songs but "
            "by what was played. Means over users, defaults throughout:"
        )
        self._console.print(quality_table(latent, _LATENT_TITLES))
        self._print(
            f"RoBiRank's NDCG@20 is [bold]{ratio:.1f} times[/bold] that of recommending what is "
            "most popular. Three users drawn at random:"
        )
        self._console.print(taste_table(latent))


def _table(*heads: str) -> Table:
    """An empty table; all columns but the first are numbers."""
    table = Table(box=SIMPLE_HEAD)
    for i, head in enumerate(heads):
        table.add_column(head, justify="right" if i else "left", no_wrap=True)
    return table


def quality_table(
    part: DemoPart, titles: Mapping[str, str], more: Mapping[str, Mapping[str, str]] | None = None
) -> Table:
    """Means of every method, the best of each column in bold, and of the bounds."""
    more = more or {}
    table = _table("Method", *titles.values(), *more, "fit, s")
    best = {m: max(row.measures[m] for row in part.methods.values()) for m in titles}
    for name, row in part.methods.items():
        values = {m: row.measures[m] for m in titles}
        shown = {m: f"{value:.4f}" for m, value in values.items()}
        cells = [f"[bold]{t}[/bold]" if t == f"{best[m]:.4f}" else t for m, t in shown.items()]
        texts = [by_method[name] for by_method in more.values()]
        table.add_row(name, *cells, *texts, f"{row.seconds:.1f}")
    for name, row in part.bounds.items():
        table.add_row(name, *(f"{row.measures[m]:.4f}" for m in titles), style="dim")
    return table


def difference_table(result: DemoResult) -> Table:
    """NDCG@10 of the other methods less RoBiRank's, with intervals."""
    table = _table("Method", "difference", "95 % interval (paired bootstrap)")
    table.columns[-1].justify = "center"
    for name, c in result.differences.items():
        change, low, high = (f"{v:+.4f}".replace("-", "−") for v in (c.difference, c.low, c.high))
        table.add_row(name, change, f"{low} to {high}")
    return table


def taste_table(latent: LatentPart) -> Table:
    """What a few users have beside what is recommended to them, song by song."""
    table = Table(box=SIMPLE_HEAD)
    for title in ("User", "has played", "RoBiRank recommends", ""):
        table.add_column(title, no_wrap=True)
    for taste in latent.tastes:
        for i, (song, right) in enumerate(zip(taste.recommended, taste.right, strict=True)):
            last = i == len(taste.recommended) - 1
            more = f"[dim]and {len(taste.has) - i} more[/dim]"
            has = more if last and len(taste.has) > i + 1 else taste.has[i]
            mark = "[green]✓ was hidden[/green]" if right else ""
            table.add_row("" if i else str(taste.user), has, song, mark, end_section=last)
    return table


def next_steps(result: DemoResult) -> list[str]:
    """Commands to go on with, on the files that the demonstration has written."""
    files = result.files
    model, mine = files["model"], files["model"].with_name("mine.safetensors")
    latent, plays = files["latent model"], files["plays, train"]
    # By the path it was called by where it is not on PATH.
    by_path = sys.argv[0].endswith("robirank") and shutil.which("robirank") is None
    steps = [
        f"ltr evaluate {model} {files['data, test']}",
        f"ltr train {files['data, train']} --validation {files['data, vali']} --model {mine}",
        f"ltr export {model} --format solr",
        f"experiment ltr {model.parent} --output {model.parent / 'field'}",
        f'latent similar {latent} "Jazz 1"',
        f"latent recommend {latent} {result.latent.tastes[0].user} --train {plays}",
        f"experiment latent {plays} --quick --output {model.parent / 'race'}",
    ]
    return [f"{sys.argv[0] if by_path else 'robirank'} {step}" for step in steps]
