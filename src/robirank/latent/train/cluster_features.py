"""A fit with features on a cluster: this process finds the centres, and the workers read them.

The driver gathers the factors before every epoch, regresses them on the features as a fit in one
process does, and writes what rows are pulled to into a file of the run directory. The file is part
of the settings of the epoch's steps, so that a run that lost workers repeats them with the same
centres, and the result has the bits of a fit on threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from robirank.data.interactions import Interactions
from robirank.data.partitions import Partitions, open_partitions
from robirank.data.user_items import as_user_items
from robirank.engine.interface import Figures, never
from robirank.engine.ray.actors import ClusterError
from robirank.engine.ray.driver import ClusterEngine
from robirank.engine.state import FromMatrix
from robirank.latent.factors.factors import Factors, Side
from robirank.latent.solvers.centred import FeaturedTable
from robirank.latent.solvers.interface import InStrataSolver
from robirank.latent.solvers.problem import Problem
from robirank.latent.solvers.strata import CentreRows, StartRows
from robirank.latent.train.local import finished, named_start, with_features
from robirank.latent.train.request import FitOptions, Request
from robirank.storage.folder import FileEntry, Folder
from robirank.storage.manifest import Manifest, read_manifest, write_manifest
from robirank.storage.tensor_file import ArraySpec

_CENTRE_FILES = r"centres-[0-9a-f]{8}-\d{6}\.(json|safetensors)"


class _CentresManifest(Manifest, frozen=True, kw_only=True):
    """What the manifest of a file of centres says."""

    format: str = "robirank-centres"
    format_version: int = 1

    file: FileEntry


@dataclass(frozen=True)
class CentreFile:
    """Centres in a file that all workers see; see `robirank.latent.solvers.strata.AnyCentreRows`.

    ``shapes`` are pairs of a side that has centres, and the shape of their matrix.
    """

    url: str
    entry: FileEntry
    shapes: tuple[tuple[str, tuple[int, int]], ...]

    def read(self) -> CentreRows:
        """The centres; a worker reads the file once for all tasks of an epoch."""
        return _read_centres(self)


@lru_cache(maxsize=1)
def _read_centres(file: CentreFile) -> CentreRows:
    expected = {side: ArraySpec("F32", shape) for side, shape in file.shapes}
    arrays = Folder(file.url).read_arrays(file.entry, expected)
    (_, (_, factors)), *_ = file.shapes
    return CentreRows(arrays.get("users"), arrays.get("items"), factors)


class CentredOnCluster:
    """A solver on a cluster whose rows are pulled to what their features say.

    Parameters
    ----------
    solver : InStrataSolver
    engine : ClusterEngine
    table : FeaturedTable
    factors : int
        The number of factors.
    folder : Folder
        Where centres are written.
    """

    def __init__(
        self,
        solver: InStrataSolver,
        engine: ClusterEngine,
        table: FeaturedTable,
        factors: int,
        folder: Folder,
    ) -> None:
        self._solver, self._engine, self._factors = solver, engine, factors
        self._table, self._folder = table, folder
        folder.make()

    def epoch(self, number: int, epochs: int, should_stop: Callable[[], bool] = never) -> Figures:
        """Renew the centres, then one epoch of the solver inside."""
        if number:
            self._solver.pull_to(self._centres(number))
        return self._solver.epoch(number, epochs, should_stop)

    def _centres(self, number: int) -> CentreFile:
        """The centres of an epoch; a resumed run takes those that it had written."""
        name, shapes = self._name(number), self._shapes()
        if self._folder.size(f"{name}.json") is not None:
            entry = read_manifest(self._folder, f"{name}.json", _CentresManifest).file
            return CentreFile(self._folder.url, entry, shapes)
        if self._engine.is_within_epoch:
            raise ClusterError(
                f"the run cannot go on: {self._folder.path(name)}.json is missing, and the factors "
                "have changed since it was written. Start once more with resume=False"
            )
        users, items = self._table.centres(number, gathered(self._engine))
        arrays = {"users": users, "items": items}
        given = {side: rows for side, rows in arrays.items() if rows is not None}
        entry = self._folder.write_arrays(f"{name}.safetensors", given)
        write_manifest(self._folder, f"{name}.json", _CentresManifest(file=entry))
        self._remove_older()
        return CentreFile(self._folder.url, entry, shapes)

    def _remove_older(self) -> None:
        """Remove the files that no checkpoint could need again."""
        run, oldest = self._name(0)[:-6], self._name(self._engine.oldest_epoch)
        needed = {name for name in self._folder.names() if name.startswith(run) and name >= oldest}
        self._folder.remove_matching(_CENTRE_FILES, keep=needed)

    def _name(self, number: int) -> str:
        """The name of the files of an epoch, without its ending."""
        return f"centres-{self._engine.run_key}-{number:06d}"

    def _shapes(self) -> tuple[tuple[str, tuple[int, int]], ...]:
        table, d = self._table.trained, self._factors
        shapes = []
        if table.user_features is not None:
            shapes.append(("users", (table.n_users, d)))
        if table.item_features is not None:
            shapes.append(("items", (table.n_items, d)))
        return tuple(shapes)


def gathered(engine: ClusterEngine) -> Factors:
    """The factors as they stand, in the memory of this process."""
    model = engine.model()
    return Factors(Side(model["user_factors"]), Side(model["item_factors"]))


class ClusterFeatures:
    """The features of a fit on a cluster; the whole table is in the memory of this process.

    Parameters
    ----------
    data : sparse matrix, Interactions, Partitions or the path of some
    request : Request
    options : FitOptions
    """

    def __init__(self, data: Any, request: Request, options: FitOptions) -> None:
        if isinstance(data, str | os.PathLike):
            data = open_partitions(data)
        if isinstance(data, Partitions):
            data = data.interactions()
        self._matrix = csr_matrix(data.matrix if isinstance(data, Interactions) else data)
        table = as_user_items(data, request.weighting)
        self.table = with_features(table, options.user_features, options.item_features)

    def trained_interactions(self) -> Interactions:
        """The interactions that the workers train on, by position.

        There is a row for each user, also for those known by features alone, and a column for each
        item, of those with features for each that has interactions.
        """
        matrix: Any = self._matrix.copy()
        matrix.resize(self.table.shape)
        if self.table.item_features is not None:
            matrix = csr_matrix(matrix[:, np.flatnonzero(self.table.item_counts())])
        return Interactions.from_matrix(matrix)

    def start(self, problem: Problem) -> StartRows:
        """Where the rows that are trained start: as in a fit in one process."""
        self._problem, self._named = problem, named_start(problem, self.table)
        self._featured = FeaturedTable(self.table, self._named, problem)
        rows = self._featured.start(self._named).items.rows
        return StartRows(StartRows.random(problem).users, FromMatrix(rows))

    def solver(self, solver: InStrataSolver, engine: ClusterEngine, folder: Folder) -> Any:
        """A solver around another one, which pulls rows to what their features say."""
        return CentredOnCluster(solver, engine, self._featured, self._problem.factors, folder)

    def factors(self, engine: ClusterEngine) -> Factors:
        """The factors of the whole table at the end of a fit."""
        factors = self._featured.factors(gathered(engine), self._named)
        return finished(factors, self.table, self._problem)
