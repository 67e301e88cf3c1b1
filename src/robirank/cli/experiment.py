"""Commands that run the paper's experiments and make their report."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robirank.cli.console import UNEXPECTED, for_reader, note, print_json
from robirank.cli.interactions import Columns, Header, Item, Sep, User

if TYPE_CHECKING:
    from robirank.experiments.run_dir import RunDirectory

app = typer.Typer(no_args_is_help=True, help="The paper's experiments on your data.")

Data = Annotated[Path, typer.Argument(help="Folder with Fold1 … or with train, vali and test.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Run directory; runs/<data>-<command> if not given."),
]
Methods = Annotated[str | None, typer.Option(help="Names separated by commas; all by default.")]
Convention = Annotated[str, typer.Option(help="standard, letor, trec or lightgbm.")]
Select = Annotated[str, typer.Option(help="Measure that chooses settings on validation.")]
Normalize = Annotated[
    bool, typer.Option("--normalize", help="Scale features to [0, 1] within each query.")
]
Title = Annotated[
    str | None, typer.Option(help="What the report is called; the data's name if not given.")
]
Seed = Annotated[int, typer.Option(min=0, help="Decides everything that is random.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes; one a core by default.")]
Modules = Annotated[
    list[str] | None,
    typer.Option(
        "--import", metavar="MODULE", help="Registers rankers of yours; found in this folder too."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def _add_ltr_command(name: str, description: str) -> None:
    """Add a command that compares rankers; the three differ in which ones by default."""

    def command(
        data: Data,
        output: Output = None,
        title: Title = None,
        methods: Methods = None,
        convention: Convention = "letor",
        select: Select = "ndcg@1-10",
        normalize: Normalize = False,
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
        jobs: Jobs = None,
        modules: Modules = None,
        as_json: AsJson = False,
    ) -> None:
        from robirank.experiments.ltr.methods import (
            IDENTITY_FIELD,
            START_FIELD,
            left_out,
            whole_field,
        )
        from robirank.experiments.ltr.runner import run_ltr
        from robirank.experiments.ltr.units import LtrExperiment, data_name

        _import_rankers(modules or [])
        fields = {"ltr": whole_field(), "init": START_FIELD, "identity": IDENTITY_FIELD}
        titles = {"ltr": "", "init": ", starts", "identity": ", transformations"}
        called = data_name(data)
        folder = f"{called.replace('/', '-')}-{name}{'-quick' if quick else ''}"
        experiment = LtrExperiment(
            data,
            convention,
            select,
            normalize=normalize,
            seed=seed,
            folds=folds or (1 if quick else None),
            grid_points=3 if quick else None,
            seeds=seeds,
        )
        if name == "ltr" and methods is None:
            for method, package in left_out().items():
                note(f"{method} is left out: it needs the package {package}")
        run = run_ltr(
            experiment,
            output or Path("runs") / folder,
            fields[name] if methods is None else _names(methods),
            title=title or called + titles[name],
            n_jobs=jobs,
        )
        _show(run, as_json)

    app.command(name, help=description)(command)


_add_ltr_command("ltr", "Compare the whole field, settings chosen on the validation part.")
_add_ltr_command(
    "init", "Start RoBiRank from zeros, from RankSVM's solution, and from ten random points."
)
_add_ltr_command("identity", "Compare RoBiRank with the identity loss and with Type-II.")


@app.command()
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
    from robirank.experiments.latent.methods import LATENT_FIELD
    from robirank.experiments.latent.runner import run_latent
    from robirank.experiments.latent.units import LatentExperiment, data_name

    experiment = LatentExperiment(
        data,
        Columns(user=user, item=item, sep=sep, header=header).options(),
        factors=factors,
        iterations=16 if quick else iterations,
        select=select,
        rates=not quick,
        seed=seed,
        seeds=seeds,
        threads=threads,
    )
    folder = output or Path("runs") / f"{data_name(data).replace('/', '-')}-latent"
    there = tuple(name for name, method in LATENT_FIELD.items() if method.is_there())
    names = there if methods is None else _names(methods)
    _show(run_latent(experiment, folder, names, title=title), as_json)


@app.command()
def scaling(
    data: Annotated[
        Path | None,
        typer.Argument(help="Interactions as for `latent`; made to order if not given."),
    ] = None,
    output: Output = None,
    workers: Annotated[str, typer.Option(help="Numbers of workers, separated by commas.")] = "",
    parts: Annotated[
        str, typer.Option(help="More numbers of parts, on one worker: convergence.")
    ] = "",
    factors: Annotated[int, typer.Option(min=1, help="Length of the factors.")] = 32,
    iterations: Annotated[int, typer.Option(min=1, help="Epochs.")] = 16,
    bandwidth: Annotated[float, typer.Option(help="Of the simulated network, in Gb/s.")] = 10.0,
    latency: Annotated[float, typer.Option(help="Of its messages, in milliseconds.")] = 0.5,
    ray: Annotated[
        bool | None,
        typer.Option(help="Run on a Ray cluster of this machine too; yes if Ray is installed."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller data, 8 epochs, up to 4 workers.")
    ] = False,
    seed: Seed = 0,
    user: User = None,
    item: Item = None,
    sep: Sep = None,
    header: Header = None,
    as_json: AsJson = False,
) -> None:
    """Precision against p × seconds: RoBiRank on p workers, and a simulation of many machines."""
    from robirank.experiments.latent.units import data_name
    from robirank.experiments.scaling.ray_runs import has_ray
    from robirank.experiments.scaling.runner import run_scaling
    from robirank.experiments.scaling.runs import ScalingExperiment

    experiment = ScalingExperiment(
        data,
        (12_000, 12_000, 600_000) if quick else (30_000, 12_000, 1_500_000),
        Columns(user=user, item=item, sep=sep, header=header).options(),
        workers=_numbers("workers", workers) or ((1, 2, 4) if quick else (1, 2, 4, 8)),
        parts=_numbers("parts", parts) or ((32,) if quick else (32, 128)),
        factors=factors,
        iterations=8 if quick else iterations,
        seed=seed,
        bandwidth=bandwidth * 1e9 / 8,
        latency=latency / 1000,
        ray=has_ray() if ray is None else ray,
    )
    name = "made" if data is None else data_name(data).replace("/", "-")
    _show(run_scaling(experiment, output or Path("runs") / f"{name}-scaling"), as_json)


def _numbers(option: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in _names(text)) if text else ()
    except ValueError:
        raise typer.BadParameter(
            f"--{option} must be numbers separated by commas, such as 1,2,4; got {text!r}"
        ) from None


def _import_rankers(modules: Sequence[str]) -> None:
    """Import modules, also of the working folder, that add methods to the comparison."""
    from robirank.experiments.ltr.methods import FIELD

    if modules:
        sys.path.insert(0, str(Path.cwd()))  # the processes that do the work get the path too
    for module in modules:
        if module in sys.modules:
            continue
        before = set(FIELD)
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise
            raise typer.BadParameter(
                "--import must be a module of this folder or of Python's path, such as mymethod "
                f"for mymethod.py; got {module!r}"
            ) from None
        if before == set(FIELD):
            raise typer.BadParameter(
                f"--import {module} adds no method; a class of it must be decorated with "
                "robirank.registry.register and declare `comparison`"
            )


def _names(methods: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in methods.split(","))


def _show(run: RunDirectory[Any], as_json: bool) -> None:
    """Write the report of a finished run, print its table, and say whether all went well."""
    import msgspec
    from rich.console import Console
    from rich.markdown import Markdown

    from robirank.experiments.report.write import write_report

    page, fits = write_report(run.path), run.fits()
    note(f"table {run.path / 'table.md'}, report {page}")
    if as_json:
        print_json({"run": str(run.path), "report": str(page), "fits": msgspec.to_builtins(fits)})
    else:
        table = (run.path / "table.md").read_text("utf-8")
        Console(width=140).print(Markdown(for_reader(table, sys.stdout, keep="\n")))
    failed = sum(fit.error is not None for fit in fits)
    if failed:
        note(f"{failed} fits failed; the same command tries them again")
        raise typer.Exit(UNEXPECTED)


def report(
    run: Annotated[Path, typer.Argument(help="Run directory of an experiment.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page; RUN/report.html by default.")
    ] = None,
) -> None:
    """Make one HTML page of a run: curves, table, queries, settings, times."""
    from robirank.experiments.report.write import write_report

    print(write_report(run, output))
