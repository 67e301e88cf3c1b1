"""What the files of a run hold.

Every JSON file of a run is one of the structures below. msgspec decodes it and refuses fields that
are missing, unknown or of the wrong type, so the files of a stranger are safe to read. Tables of
results have the columns that the settings name, and are checked here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
import polars as pl

from robirank.experiments.statistics import Comparison
from robirank.experiments.text import abbreviate

FORMAT: Final = 2
_ROUNDING = 1e-9

Name = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Number = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
SomeSeconds = Annotated[list[Seconds], msgspec.Meta(min_length=1)]


class Record(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A structure of which every field is known and checked."""


# Units of work


class Fit(Record, kw_only=True):
    """How a unit of work came out.

    Attributes
    ----------
    method : str
    error : str or None
        Why it failed; None where it did not.
    """

    #: The fields that tell a unit from the others of its run; the results have them as columns.
    unit_fields: ClassVar[tuple[str, ...]] = ("method",)

    method: Name
    error: str | None = None

    @property
    def unit(self) -> tuple[Any, ...]:
        """The values of `unit_fields`."""
        return tuple(getattr(self, name) for name in self.unit_fields)

    @property
    def case(self) -> str:
        """What the unit has beside its method, as it is shown: a fold's name, or "seed 3"."""
        named = zip(self.unit_fields[1:], self.unit[1:], strict=True)
        return ", ".join(v if isinstance(v, str) else f"{name} {v}" for name, v in named)


class GridPoint(Record):
    """A setting that was tried; it has no validation measure where training diverged."""

    params: dict[str, Any]
    validation: float | None
    seconds: Seconds


class SearchedFit(Fit, kw_only=True):
    """A fit whose setting was chosen on the validation part.

    Attributes
    ----------
    params : dict
        The chosen setting.
    grid : list of GridPoint
        All that were tried; none where the setting of another unit was taken.
    validation : float or None
        The chosen setting's measure, by which it was chosen.
    search_seconds, final_seconds : float
        Of the whole search, and of the fit that was tested.
    """

    params: dict[str, Any] = {}
    grid: list[GridPoint] = []
    validation: float | None = None
    search_seconds: Seconds = 0.0
    final_seconds: Seconds = 0.0

    def __post_init__(self) -> None:
        if self.error is None and self.validation is None:
            raise ValueError("validation must be a number where there is no error; got None")


class LtrFit(SearchedFit, kw_only=True):
    """A ranker on a fold.

    Attributes
    ----------
    fold : str
    why : dict from query to list of pairs
        Of a model that can explain itself: the features that do most to put its first document
        of a test query above its second, and what each adds to the difference of the scores.
    by_seed : list of float
        NDCG@10 over the test queries with each seed, where there were several.
    """

    unit_fields: ClassVar[tuple[str, ...]] = ("method", "fold")
    fold: Name
    why: dict[str, list[tuple[str, float]]] = {}
    by_seed: list[float] = []


class LatentFit(SearchedFit, kw_only=True):
    """A latent model from the starting point that a seed decides."""

    unit_fields: ClassVar[tuple[str, ...]] = ("method", "seed")
    seed: Number


class QualityFit(Fit, kw_only=True):
    """A method whose quality is followed along one fit.

    Attributes
    ----------
    params : dict
        What was set.
    grid : list of GridPoint
        Settings that were tried beforehand on the validation part; their time is not counted.
    wall_seconds : float
        Of the fit on this machine, whatever else it did; results count processor seconds.
    """

    params: dict[str, Any] = {}
    grid: list[GridPoint] = []
    wall_seconds: Seconds = 0.0


class ScalingFit(Fit, kw_only=True):
    """A measured run, and where the time of its workers went.

    Attributes
    ----------
    workers, parts : int
    engine : {"local", "ray"}
    elapsed, path : list of float
        Seconds of each epoch: on this machine, and with a core for each worker.
    busy : list of float
        Processor seconds of each part in all epochs.
    """

    workers: Count
    parts: Count
    engine: Literal["local", "ray"]
    elapsed: SomeSeconds
    path: SomeSeconds
    busy: SomeSeconds


# Data sets


class LtrFacts(Record):
    """A data set of judged documents; counts are those of all test parts."""

    name: str
    folds: Annotated[list[Name], msgspec.Meta(min_length=1)]
    queries: Number
    documents: Number
    features: Number
    labels: dict[str, Number]
    validation: str
    files: dict[str, int]


class InteractionFacts(Record):
    """A data set of users and items; parts are counted in interactions."""

    name: str
    users: Number
    items: Number
    train: Number
    test: Number
    test_users: Number


class LatentFacts(InteractionFacts):
    """Also: the validation part, how the parts were made, and test interactions left out."""

    valid: Number
    left_out: Number
    split: str
    files: dict[str, int]


# The settings of a run, run.json


class Settings(Record, kw_only=True, tag_field="kind"):
    """What was asked for, and where; a subclass for each kind of experiment.

    Attributes
    ----------
    title : str
    methods : list of str
        In the order in which they are shown.
    seed : int
    versions : dict from package to version
    machine : dict
        Number of cores and operating system.
    command, created : str
        How to repeat the run, and when it was made.
    """

    fit_type: ClassVar[type[Fit]]
    #: Columns of the results and their types; only "error" may lack values.
    schema: ClassVar[Mapping[str, Any]]

    title: str
    methods: Annotated[list[Name], msgspec.Meta(min_length=1)]
    seed: Number
    versions: dict[str, str]
    machine: dict[str, Any]
    command: str
    created: str
    format: Literal[2] = FORMAT

    def __post_init__(self) -> None:
        if len(set(self.methods)) != len(self.methods):
            raise ValueError(f"methods must be different names; got {self.methods}")

    @property
    def kind(self) -> str:
        """Which kind of experiment this is."""
        return str(self.__struct_config__.tag)

    @property
    def cases(self) -> list[tuple[Any, ...]]:
        """What each method is run on: the units without the method."""
        return [()]

    @property
    def units(self) -> list[tuple[Any, ...]]:
        """All units of work, in the order in which they are done."""
        return [(method, *case) for case in self.cases for method in self.methods]

    def check_unit(self, frame: pl.DataFrame, where: str) -> None:
        """Check the results of one unit."""
        raise NotImplementedError

    def check_whole(self, frame: pl.DataFrame, where: str) -> None:
        """Check what must hold between units."""


class LtrSettings(Settings, kw_only=True, tag="ltr"):
    """A comparison of rankers; results have a row for each query, measure and cut-off.

    ``k`` is 0 for measures of the whole list. Values are means over the seeds.
    """

    fit_type: ClassVar[type[Fit]] = LtrFit
    schema: ClassVar[Mapping[str, Any]] = {
        "method": pl.String,
        "fold": pl.String,
        "qid": pl.String,
        "measure": pl.String,
        "k": pl.Int32,
        "value": pl.Float64,
    }

    data: LtrFacts
    convention: Literal["standard", "letor", "trec", "lightgbm"]
    select: str
    k_max: Count
    normalize: bool
    folds: Count | None = None
    grid_points: Count | None = None
    seeds: Count = 1

    @property
    def cases(self) -> list[tuple[Any, ...]]:
        """The folds."""
        return [(fold,) for fold in self.data.folds]

    def check_unit(self, frame: pl.DataFrame, where: str) -> None:
        """There must be one value for each query, measure and cut-off."""
        wanted = {("ndcg", k) for k in range(1, self.k_max + 1)} | {("mean_ndcg", 0), ("map", 0)}
        odd = set(frame.select("measure", "k").unique().rows()) ^ wanted
        if odd:
            names = abbreviate(sorted(f"{m}@{k}" for m, k in odd))
            raise ValueError(
                f"{where} must hold ndcg at each k from 1 to {self.k_max}, and mean_ndcg and map "
                f"at k=0; missing or not wanted: {names}"
            )
        _check_grid(frame, "qid", ["measure", "k"], where)
        _check_shares(frame["value"].drop_nans(), where)

    def check_whole(self, frame: pl.DataFrame, where: str) -> None:
        """Methods are paired by query, so on a fold all must have the same queries."""
        queries: dict[Any, tuple[Any, set[str]]] = {}
        for (method, fold), part in frame.group_by("method", "fold", maintain_order=True):
            found = set(part["qid"])
            other, expected = queries.setdefault(fold, (method, found))
            if found != expected:
                raise ValueError(
                    f"{where}: on {fold}, {method} and {other} have different queries, such as "
                    f"{abbreviate(sorted(found ^ expected), 3)}"
                )


class _SnapshotSettings(Settings, kw_only=True):
    """Runs whose results are measures on the test part after some of the epochs."""

    schema: ClassVar[Mapping[str, Any]] = {
        "method": pl.String,
        "epoch": pl.Int32,
        "seconds": pl.Float64,
        "measure": pl.String,
        "value": pl.Float64,
        "error": pl.Float64,
    }

    columns: dict[str, Any]
    factors: Count

    def check_unit(self, frame: pl.DataFrame, where: str) -> None:
        """There must be the same measures after each of some rising epochs."""
        _check_grid(frame, "epoch", ["measure"], where)
        seconds = frame.sort("epoch")["seconds"]
        if frame.select("epoch", "seconds").n_unique() > frame["epoch"].n_unique():
            raise ValueError(f"{where}: seconds must be the same for all measures of an epoch")
        if (seconds.diff() < 0).any() or seconds[0] < 0:
            raise ValueError(f"{where}: seconds must be ≥ 0 and rise with the epochs")
        _check_shares(frame["value"], where)


class LatentSettings(_SnapshotSettings, kw_only=True, tag="latent"):
    """A comparison of latent models."""

    fit_type: ClassVar[type[Fit]] = LatentFit
    schema: ClassVar[Mapping[str, Any]] = {"seed": pl.Int64, **_SnapshotSettings.schema}

    data: LatentFacts
    iterations: Count
    select: str
    rates: bool
    seeds: Count
    threads: Count | None

    @property
    def cases(self) -> list[tuple[Any, ...]]:
        """The seeds of the starting points."""
        return [(self.seed + i,) for i in range(self.seeds)]


class QualitySettings(_SnapshotSettings, kw_only=True, tag="quality"):
    """Quality on the test part against processor time, beside the best published figures.

    Attributes
    ----------
    threads : int
        Of every method; seconds are processor seconds of the process, divided by it.
    published : dict from measure to float
    source : str
        Who published them.
    """

    fit_type: ClassVar[type[Fit]] = QualityFit

    data: LatentFacts
    threads: Count
    published: dict[str, float]
    source: str


class ScalingSettings(_SnapshotSettings, kw_only=True, tag="scaling"):
    """Runs on several numbers of workers, and a simulation of many machines."""

    fit_type: ClassVar[type[Fit]] = ScalingFit

    data: InteractionFacts
    iterations: Count
    shape: tuple[Count, Count, Count] | None
    workers: list[Count]
    parts: list[Count]
    bandwidth: float
    latency: float
    ray: bool


AnySettings: Any = LtrSettings | LatentSettings | QualitySettings | ScalingSettings


class Significance(Record, kw_only=True):
    """Which differences between methods are more than chance, significance.json."""

    comparisons: list[Comparison]
    test: str = "paired sign-flip randomisation test over queries"
    correction: str = "Holm"
    intervals: str = "95 % paired bootstrap over queries"


def check_results(frame: pl.DataFrame, settings: Settings, where: str) -> pl.DataFrame:
    """Check the results of some units or of all; returns them with the types of the schema."""
    schema = settings.schema
    if set(frame.columns) != set(schema):
        raise ValueError(f"{where} must have the columns {list(schema)}; got {frame.columns}")
    try:
        frame = frame.select(pl.col(name).cast(dtype) for name, dtype in schema.items())
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{where} has a column of the wrong type: {error}") from None
    for name in set(schema) - {"error"}:
        if frame[name].null_count():
            raise ValueError(f"{where} has no value in some row of the column {name!r}")
    for unit, part in frame.group_by(*settings.fit_type.unit_fields, maintain_order=True):
        if unit[0] not in settings.methods:
            raise ValueError(f"{where} has results of {unit[0]!r}, which run.json does not list")
        settings.check_unit(part, f"{where}: {', '.join(map(str, unit))}")
    settings.check_whole(frame, where)
    return frame


def _check_grid(frame: pl.DataFrame, rows: str, columns: list[str], where: str) -> None:
    """Check that there is one value in every cell of a table that is written row by row."""
    cells = frame.select(rows, *columns).n_unique()
    if not frame.height == cells == frame[rows].n_unique() * frame.select(columns).n_unique():
        raise ValueError(f"{where} must have one value for each {rows} and {' and '.join(columns)}")


def _check_shares(values: pl.Series, where: str) -> None:
    outside = values.filter(~values.is_between(-_ROUNDING, 1 + _ROUNDING))
    if len(outside):
        raise ValueError(f"{where}: values must be from 0 to 1; got {outside[0]}")
