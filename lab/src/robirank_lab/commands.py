"""The commands that the laboratory brings to ``robirank``: experiments, report, demonstration.

What heavy commands need is imported in them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from robirank_lab.run_dir import RunDirectory

experiment = typer.Typer(
    no_args_is_help=True, add_completion=False, help="The paper's experiments on your data."
)
report = typer.Typer(add_completion=False)
demo = typer.Typer(add_completion=False)


def _of_files(text: str) -> Any:
    return typer.Option(rich_help_panel="Columns of the files", help=text)


Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Run directory; runs/<data>-<command> if not given."),
]
Methods = Annotated[str | None, typer.Option(help="Names separated by commas; all by default.")]
Select = Annotated[str, typer.Option(help="Metric that chooses settings on validation.")]
Title = Annotated[
    str | None, typer.Option(help="What the report is called; the data's name if not given.")
]
Seed = Annotated[int, typer.Option(min=0, help="Decides everything that is random.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
User = Annotated[str | None, _of_files("Column of users, by name, or by position from 0 on.")]
Item = Annotated[str | None, _of_files("Column of items.")]
Sep = Annotated[str | None, _of_files("What separates columns, if not seen by itself.")]
Header = Annotated[
    bool | None, _of_files("Whether the first line names the columns, if not seen by itself.")
]


def _add_ltr_command(name: str, description: str) -> None:
    """Add a command that compares rankers; the three differ in which ones by default."""

    def command(
        data: Annotated[
            Path, typer.Argument(help="Folder with Fold1 … or with train, vali and test.")
        ],
        output: Output = None,
        title: Title = None,
        methods: Methods = None,
        convention: Annotated[
            Literal["standard", "letor", "trec", "lightgbm"],
            typer.Option(help="What NDCG means."),
        ] = "letor",
        select: Select = "ndcg@1-10",
        normalize: Annotated[
            bool, typer.Option("--normalize", help="Scale features to [0, 1] within each query.")
        ] = False,
        folds: Annotated[
            int | None, typer.Option(min=1, help="The first so many folds; all by default.")
        ] = None,
        quick: Annotated[
            bool, typer.Option("--quick", help="One fold, and at most 3 settings of each method.")
        ] = False,
        seed: Seed = 0,
        seeds: Annotated[
            int, typer.Option(min=1, help="Seeds that a random method is tested with.")
        ] = 1,
        jobs: Annotated[
            int | None, typer.Option(min=1, help="Processes; one a core by default.")
        ] = None,
        modules: Annotated[
            list[str] | None,
            typer.Option(
                "--import",
                metavar="MODULE",
                help="Adds methods of yours; found in this folder too.",
            ),
        ] = None,
        as_json: AsJson = False,
    ) -> None:
        from robirank_lab.ltr.methods import IDENTITY_FIELD, START_FIELD, left_out, whole_field
        from robirank_lab.ltr.runner import run_ltr
        from robirank_lab.ltr.units import data_name
        from robirank_lab.run_format import LtrExperiment

        _import_methods(modules or [])
        fields = {"ltr": whole_field(), "init": START_FIELD, "identity": IDENTITY_FIELD}
        titles = {"ltr": "", "init": ", starts", "identity": ", transformations"}
        called = data_name(data)
        folder = f"{called.replace('/', '-')}-{name}{'-quick' if quick else ''}"
        if name == "ltr" and methods is None:
            for method, package in left_out().items():
                _note(f"{method} is left out: it needs the package {package}")
        run = run_ltr(
            data,
            LtrExperiment(
                convention=convention,
                select=select,
                normalize=normalize,
                seed=seed,
                folds=folds or (1 if quick else None),
                grid_points=3 if quick else None,
                seeds=seeds,
            ),
            output or Path("runs") / folder,
            fields[name] if methods is None else _split(methods),
            title=title or called + titles[name],
            n_jobs=jobs,
        )
        _show(run, as_json)

    experiment.command(name, help=description)(command)


_add_ltr_command("ltr", "Compare the whole field, settings chosen on the validation part.")
_add_ltr_command(
    "init", "Start RoBiRank from zeros, from RankSVM's solution, and from ten random points."
)
_add_ltr_command("identity", "Compare RoBiRank with the identity loss and with Type-II.")


@experiment.command()
def latent(
    data: Annotated[
        Path,
        typer.Argument(help="Folder with train, valid and test files, or one file to split."),
    ],
    output: Output = None,
    title: Title = None,
    methods: Methods = None,
    factors: Annotated[int, typer.Option(min=1, help="Length of the factors.")] = 64,
    iterations: Annotated[
        int, typer.Option(min=1, help="Epochs of every fit, in the search and at the end.")
    ] = 32,
    select: Select = "ndcg@10",
    seeds: Annotated[int, typer.Option(min=1, help="Starting points.")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="16 epochs, and no search for the step size.")
    ] = False,
    seed: Seed = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="All cores by default.")] = None,
    user: User = None,
    item: Item = None,
    sep: Sep = None,
    header: Header = None,
    as_json: AsJson = False,
) -> None:
    """Precision against seconds: RoBiRank, the identity loss, WARP and others from one start."""
    from robirank_lab.latent.data import data_name
    from robirank_lab.latent.methods import LATENT_FIELD
    from robirank_lab.latent.runner import run_latent
    from robirank_lab.run_format import LatentExperiment

    asked = LatentExperiment(
        factors=factors,
        iterations=16 if quick else iterations,
        select=select,
        rates=not quick,
        seed=seed,
        seeds=seeds,
        threads=threads,
    )
    installed = [name for name, method in LATENT_FIELD.items() if not method.missing]
    run = run_latent(
        data,
        asked,
        output or Path("runs") / f"{data_name(data).replace('/', '-')}-latent",
        installed if methods is None else _split(methods),
        columns=_columns(user, item, sep, header),
        title=title,
    )
    _show(run, as_json)


@experiment.command()
def scaling(
    data: Annotated[
        Path | None,
        typer.Argument(help="Interactions as for `latent`; made to order if not given."),
    ] = None,
    output: Output = None,
    workers: Annotated[str, typer.Option(help="Numbers of workers, separated by commas.")] = "",
    parts: Annotated[
        str, typer.Option(help="More numbers of parts, to see how they converge.")
    ] = "",
    factors: Annotated[int, typer.Option(min=1, help="Length of the factors.")] = 32,
    iterations: Annotated[int, typer.Option(min=1, help="Epochs.")] = 16,
    ray: Annotated[
        bool | None,
        typer.Option(help="Run on a Ray cluster of this machine too; yes if Ray is installed."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller data, 8 epochs, up to 2 workers.")
    ] = False,
    seed: Seed = 0,
    user: User = None,
    item: Item = None,
    sep: Sep = None,
    header: Header = None,
    as_json: AsJson = False,
) -> None:
    """Precision against p × seconds: RoBiRank on p threads, and on a Ray cluster."""
    from robirank_lab.latent.data import data_name
    from robirank_lab.run_format import ScalingExperiment
    from robirank_lab.runner import core_count
    from robirank_lab.scaling.runner import has_ray, run_scaling

    most = 2 if quick else max(2, core_count())
    asked = ScalingExperiment(
        workers=_numbers("workers", workers) or tuple(p for p in (1, 2, 4, 8, 16, 32) if p <= most),
        parts=_numbers("parts", parts) or ((32,) if quick else (32, 128)),
        factors=factors,
        iterations=8 if quick else iterations,
        seed=seed,
        ray=has_ray() if ray is None else ray,
    )
    name = "made" if data is None else data_name(data).replace("/", "-")
    run = run_scaling(
        data,
        asked,
        output or Path("runs") / f"{name}-scaling",
        shape=(12_000, 12_000, 600_000) if quick else (30_000, 12_000, 1_500_000),
        columns=_columns(user, item, sep, header),
    )
    _show(run, as_json)


@experiment.command()
def noise(
    data: Annotated[
        Path | None,
        typer.Argument(
            help="Judged lists as for `ltr`, or users and items as for `latent`; made to order if "
            "not given."
        ),
    ] = None,
    output: Output = None,
    title: Title = None,
    methods: Methods = None,
    kinds: Annotated[
        str | None, typer.Option(help="Kinds of noise, separated by commas; all by default.")
    ] = None,
    shares: Annotated[
        str | None,
        typer.Option(help="How much is spoiled; 0,0.2,0.4 for lists, 0,0.05,0.2 for tables."),
    ] = None,
    k: Annotated[
        int | None, typer.Option(min=1, help="Quality is NDCG@k; 10 for lists, 20 for tables.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Training sets of each kind and share; 5 by default.")
    ] = None,
    made: Annotated[
        Literal["lists", "table"], typer.Option(help="What is made where no data are given.")
    ] = "lists",
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Two seeds, no share but the largest, 2 settings a ranker."),
    ] = False,
    seed: Seed = 0,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; one a core by default.")
    ] = None,
    user: User = None,
    item: Item = None,
    sep: Sep = None,
    header: Header = None,
    as_json: AsJson = False,
) -> None:
    """Spoil a growing share of what is learned from, and measure on clean data."""
    from robirank_lab.noise.data import Lists, Table, find_data
    from robirank_lab.noise.runner import default_field, kinds_for, run_noise
    from robirank_lab.run_format import NoiseExperiment

    columns = _columns(user, item, sep, header)
    given: Lists | Table = Lists(None) if made == "lists" else Table(None, columns)
    if data is not None:
        given = find_data(data, columns)
    is_lists = isinstance(given, Lists)
    usual = (0.0, 0.2, 0.4) if is_lists else (0.0, 0.05, 0.2)
    asked = NoiseExperiment(
        kinds=tuple(kinds_for(given) if kinds is None else _split(kinds)),
        shares=_shares(shares) or ((usual[0], usual[-1]) if quick else usual),
        seed=seed,
        seeds=seeds or (2 if quick else 5),
        k=k or (10 if is_lists else 20),
        grid_points=2 if quick else None,
    )
    called = given.describe().name.replace("/", "-")
    run = run_noise(
        given,
        asked,
        output or Path("runs") / f"{called}-noise{'-quick' if quick else ''}",
        default_field(given) if methods is None else _split(methods),
        title=title,
        n_jobs=jobs,
    )
    _show(run, as_json)


@report.command()
def _report(
    run: Annotated[Path, typer.Argument(help="Run directory of an experiment.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page; RUN/report.html by default.")
    ] = None,
) -> None:
    """Make one HTML page of a run: curves, table, queries, settings, times."""
    from robirank_lab.report.write import write_report

    print(write_report(run, output))


@demo.command()
def _demo(
    output: Annotated[Path, typer.Option(help="Folder for the report, models and data.")] = Path(
        "demo-output"
    ),
    queries: Annotated[int, typer.Option(min=10, help="Queries to train on.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Decides the data and all else.")] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads; all cores by default.")
    ] = None,
) -> None:
    """Train RoBiRank on generated data, compare it, recommend, print tables, write a report."""
    from robirank_lab.demo import run_demo

    run_demo(output, queries=queries, seed=seed, threads=threads)


def _note(text: str) -> None:
    """Say on standard error what is going on."""
    print(_printable(text), file=sys.stderr, flush=True)


def _printable(text: str) -> str:
    r"""Text with an escape for each character that a terminal would obey.

    Examples
    --------
    >>> print(_printable("tea\x1b[2J"))
    tea\u001b[2J
    """
    return "".join(c if c.isprintable() or c == "\n" else f"\\u{ord(c):04x}" for c in text)


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",")]


def _numbers(option: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(number) for number in _split(text)})) if text else ()
    except ValueError:
        raise typer.BadParameter(
            f"--{option} must be numbers separated by commas, such as 1,2,4; got {text!r}"
        ) from None


def _shares(text: str | None) -> tuple[float, ...]:
    try:
        return tuple(sorted({float(share) for share in _split(text)})) if text else ()
    except ValueError:
        raise typer.BadParameter(
            f"--shares must be numbers separated by commas, such as 0,0.2,0.4; got {text!r}"
        ) from None


def _columns(
    user: str | None, item: str | None, sep: str | None, header: bool | None
) -> dict[str, Any]:
    """Arguments for `robirank.load_interactions`: a column that is a number is a position."""
    places = {
        name: int(column) if column is not None and column.isdigit() else column
        for name, column in (("user", user), ("item", item))
    }
    return {**places, "sep": {"\\t": "\t", "tab": "\t"}.get(sep or "", sep), "header": header}


def _import_methods(modules: Sequence[str]) -> None:
    """Import modules, also of the working folder, that add methods to the comparison."""
    from robirank_lab.ltr.methods import all_methods

    if modules:
        sys.path.insert(0, str(Path.cwd()))  # the processes that do the work get the path too
    for module in modules:
        if module in sys.modules:
            continue
        before = set(all_methods())
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise
            raise typer.BadParameter(
                "--import must be a module of this folder or of Python's path, such as mymethod "
                f"for mymethod.py; got {module!r}"
            ) from None
        if before == set(all_methods()):
            raise typer.BadParameter(
                f"--import {module} adds no method; it must call robirank_lab.add_method, or "
                "register a ranker"
            )


def _show(run: RunDirectory, as_json: bool) -> None:
    """Write the report of a finished run, print its table, and say whether all went well."""
    import msgspec
    from rich.console import Console
    from rich.markdown import Markdown

    from robirank_lab.report.write import write_report

    page, fits = write_report(run.path), run.fits()
    _note(f"table {run.path / 'table.md'}, report {page}")
    if as_json:
        summary = {"run": str(run.path), "report": str(page), "fits": fits}
        print(msgspec.json.format(msgspec.json.encode(summary), indent=2).decode())
    else:
        table = (run.path / "table.md").read_text("utf-8")
        Console(width=140).print(Markdown(_printable(table)))
    failed = sum(fit.error is not None for fit in fits)
    if failed:
        _note(f"{failed} fits failed; the same command tries them again")
        raise typer.Exit(1)
