"""What the files of a run hold.

Every JSON file of a run is one of the structures below. msgspec decodes it and refuses fields that
are missing, unknown or of the wrong type, so the files of a stranger are safe to read. Tables of
results have the columns that the experiment names, and are checked here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple

import msgspec
import polars as pl

from robirank_lab.statistics import Comparison

FORMAT: Final = 3

Name = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Number = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]


class Structure(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A structure of which every field is known and checked."""


class GridPoint(Structure):
    """A setting that was tried; it has no validation metric where training diverged."""

    params: dict[str, Any]
    validation: float | None
    seconds: Seconds


class Fit(Structure):
    """How a unit of work came out: a method on a fold, from a seed, on some workers.

    Attributes
    ----------
    method, case : str
        The case is a fold ("Fold1") or a starting point ("seed 0"); empty where there is one only.
    error : str or None
        Why it failed; None where it did not.
    params : dict
        The chosen setting, or the given one.
    grid : list of GridPoint
        All settings that were tried; none where nothing was searched.
    validation : float or None
        The metric of the chosen setting on the validation part, by which it was chosen.
    search_seconds, final_seconds : float
        Of the whole search, and of the fit that was tested.
    processor_seconds : float or None
        Of the fit that was tested, all its workers together, where the experiment counts them.
    why : dict from query to list of pairs
        Of a model that can explain itself: the features that do most to put its first document
        of a test query above its second, and what each adds to the difference of the scores.
    by_seed : list of float
        NDCG@10 over the test queries with each seed, where there were several.
    """

    method: Name
    case: str
    error: str | None = None
    params: dict[str, Any] = {}
    grid: list[GridPoint] = []
    validation: float | None = None
    search_seconds: Seconds = 0.0
    final_seconds: Seconds = 0.0
    processor_seconds: Seconds | None = None
    why: dict[str, list[tuple[str, float]]] = {}
    by_seed: list[float] = []

    @property
    def unit(self) -> tuple[str, str]:
        """The method and the case, which tell a unit from the others of its run."""
        return self.method, self.case


# Data sets


class JudgedData(Structure, tag_field="kind", tag="judged"):
    """A data set of judged documents; counts are those of all test parts.

    ``files`` has a checksum of every file, so that a run does not go on with other data.
    """

    name: str
    folds: Annotated[list[Name], msgspec.Meta(min_length=1)]
    queries: Number
    documents: Number
    features: Number
    labels: dict[str, Number]
    files: dict[str, int]


class InteractionData(Structure, tag_field="kind", tag="interactions"):
    """A data set of users and items; parts are counted in interactions.

    ``left_out`` are test interactions of users or items that are in no other part.
    """

    name: str
    users: Number
    items: Number
    train: Number
    test: Number
    test_users: Number
    valid: Number = 0
    left_out: Number = 0
    split: str = ""
    files: dict[str, int] = {}


# Experiments: all that decides the numbers of a run but the data


class LtrExperiment(Structure, tag_field="kind", tag="ltr"):
    """A comparison of rankers; results have a row for each query, metric and cut-off.

    ``k`` is 0 for metrics of the whole list. Values are means over the seeds.

    Attributes
    ----------
    convention : str
        The convention of all metrics; see `robirank.metrics`.
    select : str
        The metric by which settings are chosen on the validation part; ``ndcg@1-10`` is the mean
        of NDCG@1 … @10, which is steadier than one cut-off where validation queries are few.
    k_max : int
        NDCG@k is computed for k = 1 … k_max.
    normalize : bool
        Whether features are scaled to [0, 1] within each query first.
    seed : int
        Decides everything that is random.
    folds : int or None
        How many folds, the first ones; None: all.
    grid_points : int or None
        At most so many settings of each method's grid, evenly spread; None: all.
    seeds : int
        How many seeds the chosen setting is tested with, from ``seed`` upwards; one is enough for
        a method that takes none.
    """

    case_noun: ClassVar[str] = "fold"
    row: ClassVar[str] = "qid"
    schema: ClassVar[Mapping[str, Any]] = {
        "method": pl.String,
        "case": pl.String,
        "qid": pl.String,
        "metric": pl.String,
        "k": pl.Int32,
        "value": pl.Float64,
    }

    convention: Literal["standard", "letor", "trec", "lightgbm"] = "letor"
    select: str = "ndcg@1-10"
    k_max: Count = 20
    normalize: bool = False
    seed: Number = 0
    folds: Count | None = None
    grid_points: Count | None = None
    seeds: Count = 1

    def cases(self, data: JudgedData) -> list[str]:
        """The folds."""
        return data.folds


class _Epochs(Structure, tag_field="kind"):
    """Experiments whose results are metrics on the test part after some of the epochs."""

    case_noun: ClassVar[str] = "starting point"
    row: ClassVar[str] = "epoch"
    schema: ClassVar[Mapping[str, Any]] = {
        "method": pl.String,
        "case": pl.String,
        "epoch": pl.Int32,
        "seconds": pl.Float64,
        "metric": pl.String,
        "value": pl.Float64,
        "error": pl.Float64,
    }

    factors: Count = 64
    iterations: Count = 32
    seed: Number = 0


class LatentExperiment(_Epochs, tag="latent"):
    """A comparison of latent models.

    Attributes
    ----------
    iterations : int
        Epochs of every fit, in the search and at the end.
    seed, seeds : int
        The first seed, which also splits a single file, and the number of starting points.
    select : str
        The metric that chooses settings on the validation part.
    rates : bool
        Whether step sizes are searched too, not penalties alone.
    clock : str
        What the seconds of the results are.
    published, source : dict from metric to float, str
        Figures of others that the page draws as a line, and who published them.
    """

    seeds: Count = 1
    select: str = "ndcg@10"
    rates: bool = True
    threads: Count | None = None
    clock: str = "training time"
    published: dict[str, float] = {}
    source: str = ""

    def cases(self, _: InteractionData) -> list[str]:
        """The starting points."""
        return [f"seed {self.seed + i}" for i in range(self.seeds)]


class ScalingExperiment(_Epochs, tag="scaling"):
    """The parallel algorithm on several numbers of workers and parts.

    ``workers`` are the numbers p of threads, with as many parts; ``parts`` are more numbers of
    parts, to see what many machines would converge to; ``ray`` adds a Ray cluster of this machine.
    """

    workers: tuple[Count, ...] = (1, 2)
    parts: tuple[Count, ...] = (32,)
    ray: bool = False

    def cases(self, _: InteractionData) -> list[str]:
        """Each run is made once."""
        return [""]


class NoiseCell(NamedTuple):
    """One spoiled training set: a kind and share of noise, the fold, and the seed that draws it."""

    kind: str
    share: float
    fold: str
    seed: int

    @property
    def name(self) -> str:
        """What the cell is called in the files of a run."""
        noise = f"{self.kind} {self.share:g}" if self.share else "clean"
        return ", ".join(filter(None, (noise, self.fold, f"seed {self.seed}")))


class NoiseExperiment(Structure, tag_field="kind", tag="noise"):
    """Methods trained and chosen on spoiled data, measured on clean data.

    Attributes
    ----------
    kinds : tuple of str
        Names of `robirank_lab.noise.kinds`.
    shares : tuple of float
        How much is spoiled, rising from 0.
    seed, seeds : int
        The first seed, and how many. Each draws its own noise and works on one fold; seeds take the
        folds in turn.
    k : int
        Settings are chosen by, and quality is, NDCG@k.
    grid_points : int or None
        At most so many settings of each ranker's grid, evenly spread; None: all.
    factors, iterations : int
        Of latent models.
    """

    case_noun: ClassVar[str] = "training set"
    row: ClassVar[str] = "seed"
    schema: ClassVar[Mapping[str, Any]] = {
        "method": pl.String,
        "case": pl.String,
        "kind": pl.String,
        "share": pl.Float64,
        "seed": pl.Int64,
        "metric": pl.String,
        "value": pl.Float64,
    }

    kinds: tuple[Name, ...]
    shares: tuple[Annotated[float, msgspec.Meta(ge=0, lt=1)], ...]
    seed: Number = 0
    seeds: Count = 5
    k: Count = 10
    grid_points: Count | None = None
    factors: Count = 32
    iterations: Count = 16

    def cells(self, data: JudgedData | InteractionData) -> list[NoiseCell]:
        """All training sets, seed after seed: the clean one, then every kind and share."""
        folds = data.folds if isinstance(data, JudgedData) else [""]
        noises = [("", 0.0), *((kind, s) for kind in self.kinds for s in self.shares if s)]
        return [
            NoiseCell(kind, share, folds[i % len(folds)], self.seed + i)
            for i in range(self.seeds)
            for kind, share in noises
        ]

    def cases(self, data: JudgedData | InteractionData) -> list[str]:
        """The names of all training sets."""
        return [cell.name for cell in self.cells(data)]


Experiment = LtrExperiment | LatentExperiment | ScalingExperiment | NoiseExperiment


class Settings(Structure):
    """What was asked for, and where, run.json.

    Attributes
    ----------
    title : str
        What the report is called.
    methods : list of str
        In the order in which they are shown.
    experiment, data
        What decides the numbers.
    versions : dict from package to version
    cores : int
        Of the machine.
    command, created : str
        How to repeat the run, and when it was made.
    """

    title: str
    methods: Annotated[list[Name], msgspec.Meta(min_length=1)]
    experiment: Experiment
    data: JudgedData | InteractionData
    versions: dict[str, str]
    cores: Count
    command: str
    created: str
    format: Literal[3] = FORMAT

    @property
    def cases(self) -> list[str]:
        """What each method is run on: folds, or starting points."""
        data: Any = self.data
        return self.experiment.cases(data)

    @property
    def units(self) -> list[tuple[str, str]]:
        """All units of work, in the order in which they are done."""
        return [(method, case) for case in self.cases for method in self.methods]


class Significance(Structure):
    """Which differences between methods are more than chance, significance.json.

    By a paired sign-flip randomisation test over queries, corrected by Holm's procedure; intervals
    are 95 % paired bootstraps over queries.
    """

    comparisons: list[Comparison]


def check_results(frame: pl.DataFrame, settings: Settings, where: str) -> pl.DataFrame:
    """Check the results of some units or of all; returns them with the types of the schema.

    Each unit must have one value in every cell: for each query, every metric and cut-off, or for
    each epoch every metric.
    """
    schema, row = settings.experiment.schema, settings.experiment.row
    if set(frame.columns) != set(schema):
        raise ValueError(f"{where} must have the columns {list(schema)}; got {frame.columns}")
    try:
        frame = frame.select(pl.col(name).cast(dtype) for name, dtype in schema.items())
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{where} has a column of the wrong type: {error}") from None
    for name in set(schema) - {"error"}:
        if frame[name].null_count():
            raise ValueError(f"{where} has no value in some row of the column {name!r}")
    columns = [name for name in ("metric", "k") if name in schema]
    for (method, case), unit in frame.group_by("method", "case", maintain_order=True):
        if (method, case) not in settings.units:
            raise ValueError(
                f"{where} has results of {method!r} on {case!r}, which run.json does not list"
            )
        cells = unit[row].n_unique() * unit.select(columns).n_unique()
        if not unit.height == unit.select(row, *columns).n_unique() == cells:
            raise ValueError(
                f"{where}: {method}, {case} must have one value for each {row} and metric"
            )
    return frame
