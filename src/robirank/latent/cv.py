"""LatentRoBiRankCV: the penalty of a latent model, and more, chosen on held-out records."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from robirank._callers import warn
from robirank._checks import check_count
from robirank._types import Floats32, Ints32
from robirank._workers import Workers
from robirank.data.records import Records, as_records
from robirank.latent.base import LatentModel
from robirank.latent.factors.evaluate import check_metric
from robirank.latent.factors.recommend import FactorModel
from robirank.latent.model import LatentRoBiRank
from robirank.latent.solvers.problem import Problem
from robirank.latent.train.options import DEFAULT_METRIC
from robirank.latent.train.store import checksum, fingerprint
from robirank.latent.tune.fits import fits_side_by_side, runs_side_by_side, whole_fit
from robirank.latent.tune.held_out import hold_out, sample_users
from robirank.latent.tune.path import PenaltyPath, follow_path
from robirank.latent.tune.rule import scale_of_table
from robirank.latent.tune.settle import settle_by_records
from robirank.latent.tune.trials import Trial, TrialLog
from robirank.storage.checkpoint_file import CheckpointFile

log = logging.getLogger("robirank.latent")

_STEP = 1.1  # between the penalties of whole fits
_SHORTER, _LARGER = 0.75, 1.04  # epochs of those fits; how much larger the best λ is with all


class LatentRoBiRankCV(FactorModel):
    """A latent model whose penalty is chosen on held-out records, and that is then fitted to all.

    A tenth of each user's records is held out. One training run under a falling λ
    (`robirank.latent.tune.path`) shows where the best one lies; three fits around it, of three
    quarters of the epochs (side by side on a card), and a parabola through their values say it
    closely. Together with the last fit, to all records, that takes about as long as four fits.
    Where ``grid`` names several settings, each has a run under a falling λ of its own, and the
    best of them goes on.

    Parameters
    ----------
    estimator : LatentRoBiRank or WARP, optional
        What is fitted, with its other parameters. Default: ``LatentRoBiRank()``.
    grid : dict from str to list, optional
        Other parameters of the estimator to choose, as in scikit-learn's ``GridSearchCV``:
        ``{"factors": [64, 128], "user_exponent": [0.5, 1.0], "iterations": [16, 32]}``.
    metric : str, default="ndcg@20"
        What is measured on the held-out records.
    cv : int, sparse matrix or Interactions, default=1
        How many times records are held out, each time others; the values are averaged. A table
        says which of the records are held out instead, such as a validation part.
    sample_users : int, default=50000
        Of a table with more users, so many are searched on; what is found is scaled to the whole.

    Attributes
    ----------
    best_estimator_ : LatentRoBiRank or WARP
        Fitted to all records; `save` saves it.
    best_params_ : dict
        What was chosen, ``regularization`` first.
    best_score_ : float
        The measure on the held-out records.
    cv_results_ : dict of lists
        Everything that was tried, one place in each list: kind ("path" or "fit"), split,
        regularization, value, seconds, and the parameters of ``grid``.
    user_factors, item_factors : float32 arrays
        Those of ``best_estimator_``.

    Examples
    --------
    >>> import robirank as rr
    >>> data = rr.make_interactions(300, 100, 6000, random_state=0)
    >>> model = rr.LatentRoBiRank(factors=8, iterations=8, random_state=0)
    >>> search = rr.LatentRoBiRankCV(model).fit(data, show_progress=False)
    >>> 0.1 < search.best_params_["regularization"] < 0.5
    True
    >>> search.recommend([0, 1], data.matrix[:2], N=3)[0].shape
    (2, 3)
    """

    def __init__(
        self,
        estimator: LatentModel | None = None,
        *,
        grid: Mapping[str, Sequence[Any]] | None = None,
        metric: str = DEFAULT_METRIC,
        cv: Any = 1,
        sample_users: int = 50_000,
    ) -> None:
        self.estimator = estimator
        self.grid = grid
        self.metric = metric
        self.cv = cv
        self.sample_users = sample_users

    def fit(
        self,
        user_items: Any,
        show_progress: bool = True,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
    ) -> Self:
        """Search, and fit the best model to all records.

        Parameters
        ----------
        user_items : sparse matrix or Interactions
        show_progress : bool, default=True
            Print a line for each run and fit, and the progress of the last one.
        checkpoint : path, optional
            Keep the last fit here, as the models do, and what was tried in a file of that name
            with ``.search`` after it.
        resume : bool, default=False
            Go on with what these files hold.

        Returns
        -------
        self
        """
        found = self.search(user_items, show_progress, checkpoint=checkpoint, resume=resume)
        self.best_estimator_ = self._base().set_params(**found)
        self.best_estimator_.fit(
            user_items, show_progress=show_progress, checkpoint=checkpoint, resume=resume
        )
        return self

    def search(
        self,
        user_items: Any,
        show_progress: bool = True,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
    ) -> dict[str, Any]:
        """Search alone, without the last fit: sets ``cv_results_``, returns ``best_params_``."""
        base = self._base()
        self._check(base)
        if checkpoint is not None and base.random_state is None:
            raise ValueError("checkpoint needs a random_state: without one no fit is like another")
        log_path = None if checkpoint is None else f"{os.fspath(checkpoint)}.search"
        if checkpoint is not None and not resume:  # before the search, for the fit after it
            CheckpointFile(checkpoint, "").check_overwrite()
        records = as_records(user_items, base.weighting)
        if not records.n_records:
            raise ValueError("user_items holds no interaction, so there is nothing to search on")
        search = _Search(self, base, records, log_path, resume, show_progress)
        self.best_params_, self.best_score_ = search.run()
        self.cv_results_ = search.results()
        return self.best_params_

    def _base(self) -> Any:
        return clone(self.estimator or LatentRoBiRank())

    @property
    def device(self) -> str:  # type: ignore[override]
        """Where the estimator computes."""
        return getattr(self.estimator, "device", "cpu")

    @property
    def num_threads(self) -> int:  # type: ignore[override]
        """Of the estimator."""
        return getattr(self.estimator, "num_threads", 0)

    @property
    def user_factors(self) -> Floats32:  # type: ignore[override]
        """U."""
        return self._best().user_factors

    @property
    def item_factors(self) -> Floats32:  # type: ignore[override]
        """V."""
        return self._best().item_factors

    @property
    def user_ids_(self) -> Any:
        """Outside ids of the users, where there are some."""
        return self._best().user_ids_

    @property
    def item_ids_(self) -> Any:
        """Outside ids of the items, where there are some."""
        return self._best().item_ids_

    @property
    def item_counts_(self) -> Ints32:  # type: ignore[override]
        """The number of records of each item."""
        counts: Ints32 = self._best().item_counts_
        return counts

    def fold_in(self, user_items: Any) -> Floats32:
        """Find factors for users that the model has not seen; see `LatentRoBiRank.fold_in`."""
        return self._best().fold_in(user_items)

    def save(self, path: Any, **options: Any) -> None:
        """Save the best model, as its own class does; `robirank.load_model` reads it."""
        self._best().save(path, **options)

    def _best(self) -> Any:
        if not hasattr(self, "best_estimator_"):
            raise AttributeError("this LatentRoBiRankCV has no model yet; call fit first")
        return self.best_estimator_

    def _check(self, base: Any) -> None:
        if not isinstance(base, LatentModel):
            raise TypeError(f"estimator must be a LatentRoBiRank or a WARP; got {base!r}")
        if base.engine != "local":
            raise ValueError(f"engine must be 'local' in a search; got {base.engine!r}")
        for name, values in (self.grid or {}).items():
            if name == "regularization" or name not in base.get_params():
                allowed = sorted(set(base.get_params()) - {"regularization"})
                raise ValueError(f"grid may name {', '.join(allowed)}; got {name!r}")
            if isinstance(values, str) or not isinstance(values, Sequence) or not len(values):
                raise ValueError(f"grid must give a list for {name}; got {values!r}")
        check_metric(self.metric)
        if isinstance(self.cv, Integral) or not hasattr(self.cv, "shape"):
            check_count("cv", self.cv)
        check_count("sample_users", self.sample_users)


class _ShortFits(NamedTuple):
    """Fits of fewer epochs: the problem but for its λ, what tells them from others.

    ``together`` says whether several λ are tried at once.
    """

    problem: Problem
    params: dict[str, Any]
    together: bool


class _Search:
    """One search: runs under a falling λ, then whole fits around the best."""

    def __init__(
        self,
        cv: LatentRoBiRankCV,
        base: LatentModel,
        records: Records,
        path: str | None,
        resume: bool,
        show: bool,
    ) -> None:
        self._cv, self._base, self._show = cv, base, show
        request = base.request()
        held_out = None if isinstance(cv.cv, Integral) else as_records(cv.cv, name="cv")
        counts = records.user_counts() if held_out is None else held_out.user_counts()
        users = np.flatnonzero(counts)
        sampled = sample_users(users, cv.sample_users, request.seed)
        self._sample = records if sampled is None else records.rows(sampled)
        if held_out is None:
            self._splits = [hold_out(self._sample, request.seed + n) for n in range(cv.cv)]
            _check_held_out(records, self._splits)
        else:
            taken = _among(records, held_out)
            train, test = records.take(~taken), records.take(taken)
            if sampled is not None:
                train, test = train.rows(sampled), test.rows(sampled)
            self._splits = [(train, test)]
        splits = checksum(held_out) or int(cv.cv)
        data = [checksum(records), splits, cv.sample_users, repr(cv.grid)]
        self._log = TrialLog(path, fingerprint(request, data, cv.metric), resume, self._tell)
        self._scale = scale_of_table(request.exponents, self._splits[0][0], self._sample, records)

    def run(self) -> tuple[dict[str, Any], float]:
        """The chosen parameters, and their value on held-out records."""
        grid = {name: list(values) for name, values in (self._cv.grid or {}).items()}
        iterations = grid.pop("iterations", [self._base.get_params()["iterations"]])
        with Workers(self._base.request().num_threads) as self._workers:
            found = [
                (params, [self._path(params, split) for split in range(len(self._splits))])
                for params in ParameterGrid(grid)
            ]
            params, paths = max(found, key=lambda entry: _mean_peak(entry[1]))
            if any(path.at_border() for path in paths):
                _warn_of_border()
            centre = float(np.exp(np.mean([np.log(path.best()) for path in paths])))
            best = [self._closely(params, n, centre) for n in iterations]
        value, reg, n = max(best)
        chosen = {"regularization": reg * self._scale, **params}
        return chosen | ({"iterations": n} if len(iterations) > 1 else {}), value

    def results(self) -> dict[str, list[Any]]:
        """All trials as columns."""
        rows: list[dict[str, Any]] = [
            {"kind": trial.kind, "split": trial.split, "regularization": reg, "value": value}
            | {"seconds": trial.seconds / len(trial.values)}
            | {name: trial.params.get(name) for name in sorted(self._cv.grid or {})}
            for trial in self._log.trials
            for reg, value in zip(trial.regularizations, trial.values, strict=True)
        ]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def _path(self, params: dict[str, Any], split: int) -> PenaltyPath:
        parts = self._splits[split]
        problem = self._problem(params, parts[0])

        def follow() -> tuple[list[float], list[float]]:
            metric, workers = self._cv.metric, self._workers
            path = follow_path(problem, *parts, metric, workers, lambda _: None)
            return path.regularizations.tolist(), path.values.tolist()

        trial = self._log.get("path", params, split, follow)
        return PenaltyPath(np.array(trial.regularizations), np.array(trial.values))

    def _closely(
        self, params: dict[str, Any], iterations: int | None, centre: float
    ) -> tuple[float, float, int | None]:
        """The best λ near one, by three or four fits: value, λ, number of epochs."""
        fits = self._short_fits(params, iterations)
        tried = self._try(fits, centre, (-1, 0, 1) if fits.together else (0, 1))
        best = max(tried, key=lambda step: tried[step])
        if best in (min(tried), max(tried)):
            tried |= self._try(fits, centre, (best - 1 if best == min(tried) else best + 1,))
        steps = np.array(sorted(tried), float)
        curve, slope, _ = np.polyfit(steps, [tried[step] for step in sorted(tried)], 2)
        best = max(tried, key=lambda step: tried[step])
        top = float(np.clip(-slope / (2 * curve), steps[0], steps[-1])) if curve < 0 else best
        return tried[best], centre * _STEP**top * _LARGER, iterations

    def _try(self, fits: _ShortFits, centre: float, steps: Sequence[int]) -> dict[int, float]:
        """The mean value of fits under penalties some steps away from one."""
        regs = [centre * _STEP**step for step in steps]
        groups = [regs] if fits.together else [[reg] for reg in regs]
        values = [
            [value for group in groups for value in self._fit(fits, group, split)]
            for split in range(len(self._splits))
        ]
        return dict(zip(steps, np.mean(values, axis=0).tolist(), strict=True))

    def _fit(self, fits: _ShortFits, regs: list[float], split: int) -> list[float]:
        """The values under one λ, or under several at once, on a split; they are one trial."""
        parts, metric = self._splits[split], self._cv.metric
        penalty = self._problem(fits.params, parts[0]).penalty
        problems = [
            replace(fits.problem, penalty=replace(penalty, regularization=reg)) for reg in regs
        ]

        def fit() -> tuple[list[float], list[float]]:
            if fits.together:
                return regs, fits_side_by_side(problems, *parts, metric)
            return regs, [whole_fit(problems[0], *parts, metric, self._workers)]

        tried = fits.params | {"regularization": regs[0], "fits": len(regs)}
        return self._log.get("fit", tried, split, fit).values

    def _short_fits(self, params: dict[str, Any], iterations: int | None) -> _ShortFits:
        params = params | {"iterations": iterations}
        problem = self._problem(params, self._splits[0][0])
        problem = replace(problem, epochs=max(1, round(_SHORTER * problem.epochs)))
        return _ShortFits(problem, params, runs_side_by_side(problem))

    def _problem(self, params: dict[str, Any], train: Records) -> Problem:
        """What the estimator with some other parameters makes of a table, with λ by the rule."""
        model = clone(self._base).set_params(**params)
        return settle_by_records(replace(model.request(), regularization=None), train)

    def _tell(self, trial: Trial) -> None:
        left_out = ("regularization", "fits")
        kept = {k: v for k, v in trial.params.items() if k not in left_out and v is not None}
        settings = "  ".join(f"{name} {value}" for name, value in kept.items())
        found = list(zip(trial.regularizations, trial.values, strict=True))
        if trial.kind == "path":
            path = PenaltyPath(np.array(trial.regularizations), np.array(trial.values))
            found = [(path.best(), float(path.means().max()))]
        for reg, value in found:
            line = (
                f"{'falling λ' if trial.kind == 'path' else 'fit':9}  λ {reg:<8.4g} "
                f"{self._cv.metric} {value:.4f}  {trial.seconds / len(found):6.1f} s  {settings}"
            )
            log.info("%s", line)
            if self._show:
                _print(line)


def _print(line: str) -> None:
    from rich.console import Console

    Console(stderr=True).print(line, highlight=False)


def _mean_peak(paths: list[PenaltyPath]) -> float:
    return float(np.mean([path.means().max() for path in paths]))


def _among(records: Records, others: Records) -> NDArray[np.bool_]:
    """Which records are among others, of the same users and items; all of those must be found."""
    if (others.n_users, others.n_items) != (records.n_users, records.n_items):
        raise ValueError(
            f"cv must have the shape of user_items, {(records.n_users, records.n_items)}; it has "
            f"{(others.n_users, others.n_items)}"
        )
    keys, other_keys = (
        np.repeat(np.arange(table.n_users), table.user_counts()) * table.n_items + table.items
        for table in (records, others)
    )
    found = np.isin(keys, other_keys)
    if found.sum() != others.n_records or not found.any() or found.all():
        raise ValueError(
            f"cv must hold some of the interactions of user_items, and not all: of its "
            f"{others.n_records}, {int(found.sum())} are among the {records.n_records} there"
        )
    return found


def _check_held_out(records: Records, splits: list[tuple[Records, Records]]) -> None:
    if all(held_out.n_records for _, held_out in splits):
        return
    counts = records.user_counts()
    raise ValueError(
        "user_items must have users with several interactions, of which a tenth is held out; of "
        f"its {np.count_nonzero(counts)} users {np.count_nonzero(counts > 1)} have more than one, "
        "and nothing was held out. Fit the estimator itself, which takes λ from a rule"
    )


def _warn_of_border() -> None:
    warn(
        "the best λ lies at the border of what was tried; the table is unlike those that the range "
        "was made for. Look at cv_results_, and give regularization= if you know better",
        UserWarning,
    )
