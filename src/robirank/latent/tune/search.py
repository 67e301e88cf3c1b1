"""The search for λ and other parameters on held-out interactions, trial by trial."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import ParameterGrid

from robirank._callers import warn
from robirank._workers import Workers
from robirank.data.user_items import UserItems
from robirank.errors import ArgumentError
from robirank.latent.factors.factors import Factors
from robirank.latent.solvers import SOLVERS, start_of
from robirank.latent.solvers.problem import Problem
from robirank.latent.train.local import checksum, fingerprint
from robirank.latent.train.request import Request
from robirank.latent.tune.fits import (
    STEP,
    fits_side_by_side,
    runs_side_by_side,
    top_of_fits,
    whole_fit,
)
from robirank.latent.tune.path import PenaltyPath, follow_path, hold_out
from robirank.latent.tune.settle import (
    scale_of_table,
    settle_by_table,
)
from robirank.latent.tune.split import Split, sample_users
from robirank.latent.tune.trials import Trial, TrialLog
from robirank.latent.tune.width import narrowed, penalty_growth, widened

log = logging.getLogger("robirank.latent")

_OF_WIDTH = {"factors", "solver", "learning_rate"}  # what differs with the number of factors


class _Fits(NamedTuple):
    """Fits under several λ: the problem but for its λ, what tells them from others.

    ``together`` says whether several λ are tried at once.
    """

    problem: Problem
    params: dict[str, Any]
    together: bool


class PenaltySearch:
    """Runs under a falling λ, then whole fits around the best; see `robirank.LatentRoBiRankCV`.

    Parameters
    ----------
    request_with : callable
        Gives the `Request` of a fit under some other parameters, without a λ.
    interactions : UserItems
    grid : dict from str to list
        Other parameters to choose; "iterations" always among them.
    metric : str
    cv : int or UserItems
        How many times interactions are held out, or which.
    users : int
        Of how many users the interactions are searched on, at most.
    log_path : str or None
        Where trials are kept.
    resume : bool
        Whether to go on with the trials there.
    show : bool
        Whether to print a line for each trial.
    """

    def __init__(
        self,
        request_with: Callable[[dict[str, Any]], Request],
        interactions: UserItems,
        *,
        grid: dict[str, list[Any]],
        metric: str,
        cv: int | UserItems,
        users: int,
        log_path: str | None = None,
        resume: bool = False,
        show: bool = False,
    ) -> None:
        self._request_with, self._grid = request_with, grid
        self._metric, self._show = metric, show
        request = request_with({})
        self._num_threads = request.num_threads
        held_out = cv if isinstance(cv, UserItems) else None
        counts = interactions.user_counts() if held_out is None else held_out.user_counts()
        sampled = sample_users(np.flatnonzero(counts), users, request.seed)
        self._table = interactions
        self._sample = interactions if sampled is None else interactions.rows(sampled)
        if not isinstance(cv, UserItems):
            self._splits = [hold_out(self._sample, request.seed + n, metric) for n in range(cv)]
            _check_held_out(interactions, self._splits)
        else:
            taken = _among(interactions, cv)
            train, test = interactions.take(~taken), interactions.take(taken)
            if sampled is not None:
                train, test = train.rows(sampled), test.rows(sampled)
            self._splits = [Split(train, test, metric)]
        data = [checksum(interactions), checksum(held_out) or cv, users, repr(grid)]
        self._log = TrialLog(log_path, fingerprint(request, data, metric), resume, self._tell)
        self._scale = scale_of_table(
            request.exponents, self._splits[0].train, self._sample, interactions
        )

    def run(self) -> tuple[dict[str, Any], float]:
        """The chosen parameters, and their value on held-out interactions."""
        grid = dict(self._grid)
        iterations = grid.pop("iterations")
        with Workers(self._num_threads) as self._workers:
            compared = list(ParameterGrid(grid))
            if self._compares_widths():
                compared = [params | self._counted(params) for params in compared]
            tried = [
                (params, [self._path(params, split) for split in range(len(self._splits))])
                for params in compared
            ]
            params, paths = max(tried, key=lambda entry: _mean_peak(entry[1]))
            if any(path.at_border() for path in paths):
                _warn_of_border()
            centre = float(np.exp(np.mean([np.log(path.best()) for path in paths])))
            narrow = self._path_request(params).factors
            params = params | self._counted(params, centre * self._scale)
            wide = self._request_with(params).factors
            centre *= penalty_growth(wide) / penalty_growth(narrow)
            self._starts: dict[int, Factors] = {}
            best = [self._closely(params, n, centre) for n in iterations]
        value, reg, n = max(best)
        chosen: dict[str, Any] = {"regularization": reg * self._scale, **params}
        if len(iterations) > 1:
            chosen["iterations"] = n
        fits = [t for t in self._log.trials if t.kind == "fit" and t.contents]
        if fits:  # the weights that the best fit had
            best_fit = max(fits, key=lambda trial: max(trial.values))
            chosen["content"] = tuple(best_fit.contents[int(np.argmax(best_fit.values))])
        return chosen, value

    def results(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """All trials as columns, with the parameters of these names."""
        rows: list[dict[str, Any]] = [
            {"kind": trial.kind, "split": trial.split, "regularization": reg, "value": value}
            | {"seconds": trial.seconds / len(trial.values)}
            | (trial.parts[i] if trial.parts else {})
            | {name: trial.params.get(name) for name in names}
            for trial in self._log.trials
            for i, (reg, value) in enumerate(zip(trial.regularizations, trial.values, strict=True))
        ]
        columns = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in columns}

    def _path(self, params: dict[str, Any], split: int) -> PenaltyPath:
        problem = settle_by_table(self._path_request(params), self._splits[split].train)

        def follow() -> dict[str, Any]:
            path = follow_path(problem, self._splits[split], self._workers)
            return {
                "regularizations": path.regularizations.tolist(),
                "values": path.values.tolist(),
                "parts": list(path.parts) if problem.has_features else [],
            }

        trial = self._log.get("path", params, split, follow)
        return PenaltyPath(np.array(trial.regularizations), np.array(trial.values))

    def _compares_widths(self) -> bool:
        """Whether what is compared differs with the number of factors."""
        return bool(self._grid.keys() & _OF_WIDTH)

    def _counted(
        self, params: dict[str, Any], regularization: float | None = None
    ) -> dict[str, Any]:
        """The number of factors, where the whole table says it, under a λ or that of the rule."""
        request = self._request_with(params)
        if not request.counts_factors:
            return {}
        under = replace(request, regularization=regularization)
        problem = settle_by_table(under, self._table)
        return {"factors": widened(under, problem, self._table).factors}

    def _path_request(self, params: dict[str, Any]) -> Request:
        """What a path is followed with: no more than 64 factors, where a default fit does so.

        Paths that are compared by what differs with the number of factors have them all.
        """
        request = self._request_with(params)
        solver = settle_by_table(request, self._splits[0].train).solver
        if self._compares_widths() or not SOLVERS[solver].searches:
            return request
        return narrowed(request, solver)

    def _closely(
        self, params: dict[str, Any], iterations: int | None, centre: float
    ) -> tuple[float, float, int | None]:
        """The best λ near one, by three fits or more: value, λ, number of epochs."""
        params = params | {"iterations": iterations}
        problem = self._problem(params, self._splits[0].train)
        fits = _Fits(problem, params, runs_side_by_side(problem))
        top, value = top_of_fits(
            lambda steps: self._try(fits, centre, steps), together=fits.together
        )
        return value, centre * STEP**top, iterations

    def _try(self, fits: _Fits, centre: float, steps: Sequence[int]) -> dict[int, float]:
        """The mean value of fits under penalties some steps away from one."""
        regs = [centre * STEP**step for step in steps]
        groups = [regs] if fits.together else [[reg] for reg in regs]
        values = [
            [value for group in groups for value in self._fit(fits, group, split)]
            for split in range(len(self._splits))
        ]
        return dict(zip(steps, np.mean(values, axis=0).tolist(), strict=True))

    def _fit(self, fits: _Fits, regs: list[float], split: int) -> list[float]:
        """The values under one λ, or under several at once, on a split; they are one trial."""
        tables = self._splits[split]
        penalty = self._problem(fits.params, tables.train).penalty
        problems = [
            replace(fits.problem, penalty=replace(penalty, regularization=reg)) for reg in regs
        ]

        def fit() -> dict[str, Any]:
            if fits.together:
                if split not in self._starts:
                    self._starts[split] = start_of(problems[0], tables.train)
                values = fits_side_by_side(problems, tables, self._starts[split])
                return {"regularizations": regs, "values": values}
            content = self._request_with(fits.params).content
            fitted = whole_fit(problems[0], tables, self._workers, content)
            return {"regularizations": regs} | fitted

        tried = fits.params | {"regularization": regs[0], "fits": len(regs)}
        return self._log.get("fit", tried, split, fit).values

    def _problem(self, params: dict[str, Any], train: UserItems) -> Problem:
        """What a fit with some other parameters makes of a table, with λ by the rule."""
        return settle_by_table(self._request_with(params), train)

    def _tell(self, trial: Trial) -> None:
        left_out = ("regularization", "fits")
        params = {k: v for k, v in trial.params.items() if k not in left_out and v is not None}
        settings = "  ".join(f"{name} {value}" for name, value in params.items())
        results = list(zip(trial.regularizations, trial.values, strict=True))
        if trial.kind == "path":
            path = PenaltyPath(np.array(trial.regularizations), np.array(trial.values))
            results = [(path.best(), float(path.means().max()))]
        for reg, value in results:
            line = (
                f"{'falling λ' if trial.kind == 'path' else 'fit':9}  λ {reg:<8.4g} "
                f"{self._metric} {value:.4f}  {trial.seconds / len(results):6.1f} s  {settings}"
            )
            log.info("%s", line)
            if self._show:
                _print(line)


def _print(line: str) -> None:
    from rich.console import Console

    Console(stderr=True).print(line, highlight=False)


def _mean_peak(paths: list[PenaltyPath]) -> float:
    return float(np.mean([path.means().max() for path in paths]))


def _among(interactions: UserItems, others: UserItems) -> NDArray[np.bool_]:
    """Which interactions are among others, of the same users and items, which must all be there."""
    if others.shape != interactions.shape:
        raise ArgumentError(
            "cv",
            f"must have the shape of user_items, {interactions.shape}; it has {others.shape}",
        )
    keys, other_keys = (
        np.repeat(np.arange(table.n_users), table.user_counts()) * table.n_items + table.items
        for table in (interactions, others)
    )
    is_among = np.isin(keys, other_keys)
    if is_among.sum() != others.n_interactions or not is_among.any() or is_among.all():
        raise ArgumentError(
            "cv",
            "must hold some of the interactions of user_items, and not all: of its "
            f"{others.n_interactions}, {int(is_among.sum())} are among the "
            f"{interactions.n_interactions} there",
        )
    return is_among


def _check_held_out(interactions: UserItems, splits: list[Split]) -> None:
    if all(split.held_out.n_interactions for split in splits):
        return
    counts = interactions.user_counts()
    raise ArgumentError(
        "user_items",
        "must have users with several interactions, of which a tenth is held out; of its "
        f"{np.count_nonzero(counts)} users {np.count_nonzero(counts > 1)} have more than one, and "
        "nothing was held out. Fit the estimator itself, which takes λ from a rule",
    )


def _warn_of_border() -> None:
    warn(
        "the best λ lies at the border of what was tried; the table is unlike those that the range "
        "was made for. Look at cv_results_, and give regularization= if you know better",
    )
