"""What the reports of all experiments share: states of methods, their fits, sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from robirank_lab.run_dir import RunDirectory
from robirank_lab.text import abbreviate

_METRIC_NAMES = {"ndcg": "NDCG", "mean_ndcg": "MeanNDCG", "map": "MAP", "hit_rate": "hit rate"}


def cases_of(run: RunDirectory) -> list[str]:
    """The folds or starting points that any method has seen, in their order."""
    seen = {fit.case for fit in run.fits()}
    return [case for case in run.settings.cases if case in seen]


def method_states(run: RunDirectory) -> list[dict[str, str]]:
    """Whether each method can be shown whole, and if not, why."""
    fits, cases = run.fits(), cases_of(run)
    return [_state(m, [fit for fit in fits if fit.method == m], cases) for m in run.methods]


def _state(name: str, fits: Sequence[Any], cases: Sequence[str]) -> dict[str, str]:
    failed = [fit.case for fit in fits if fit.error is not None]
    if failed:
        where = f" on {abbreviate(failed)}" if len(failed) < len(cases) else ""
        return {"name": name, "state": "failed", "note": f"failed{where}"}
    seen = {fit.case for fit in fits}
    missing = [case for case in cases if case not in seen]
    if missing or not seen:
        where = f" on {abbreviate(missing)}" if any(missing) else ""
        return {"name": name, "state": "missing", "note": f"not yet run{where}"}
    return {"name": name, "state": "ok"}


def shown_fits(run: RunDirectory) -> list[dict[str, Any]]:
    """All fits; method and case are places in the lists of the page."""
    cases = cases_of(run)
    return [
        {
            **{name: value for name, value in msgspec.structs.asdict(fit).items() if name != "why"},
            "method": run.methods.index(fit.method),
            "case": cases.index(fit.case),
        }
        for fit in run.fits()
    ]


def interaction_facts(run: RunDirectory, *counted: str) -> dict[str, str]:
    """The name and some numbers of a data set of users and items."""
    numbers = {
        name.capitalize().replace("_", " "): f"{getattr(run.data, name):,}" for name in counted
    }
    return {"Data": run.data.name} | numbers | {"Factors": str(run.experiment.factors)}


def what_is_lacking(run: RunDirectory) -> list[str]:
    """Say which methods failed, and how much is still to be done."""
    sentences, failed = [], [m for m in run.methods if m not in run.complete_methods()]
    if failed:
        sentences.append(f"Failed, and so without a result: {abbreviate(failed)}.")
    n_missing = len(run.missing())
    if n_missing:
        fits = "one fit is" if n_missing == 1 else f"{n_missing} fits are"
        sentences.append(f"This run is not finished: {fits} still to be done.")
    return sentences


def who_leads(values: Mapping[str, float], metric: str, emphasis: str) -> str:
    """Say which of several methods is first, and where the emphasised one is.

    Examples
    --------
    >>> who_leads({"RoBiRank": 0.4, "MART": 0.5}, "MAP", "RoBiRank")
    'MART has the highest MAP of 2 methods, .5000; RoBiRank has place 2 with .4000.'
    >>> who_leads({"RoBiRank": 0.5, "MART": 0.5}, "MAP", "RoBiRank")
    'RoBiRank and MART share the highest MAP of 2 methods, .5000.'
    """
    shown = {name: fraction(value) for name, value in values.items()}
    if len(shown) == 1:
        ((only, value),) = shown.items()
        return f"{only} has a {metric} of {value}; it has no rival in this run."
    # What looks equal is called equal.
    places = sorted(set(shown.values()), key=float, reverse=True)
    tied = [[name for name, value in shown.items() if value == place] for place in places]
    verb = "has" if len(tied[0]) == 1 else "share"
    text = f"{_and(tied[0])} {verb} the highest {metric} of {len(shown)} methods, {places[0]}"
    if tied[0] == [emphasis]:
        follow = "follows" if len(tied[1]) == 1 else "follow"
        return f"{text}; {_and(tied[1])} {follow} with {places[1]}."
    if emphasis in tied[0] or emphasis not in shown:
        return f"{text}."
    better = sum(float(value) > float(shown[emphasis]) for value in shown.values())
    return f"{text}; {emphasis} has place {better + 1} with {shown[emphasis]}."


def _and(names: Sequence[str]) -> str:
    """Names in a sentence; of many only the number."""
    if len(names) > 4:
        return f"{len(names)} methods"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def fraction(value: float, digits: int = 4) -> str:
    """A number between 0 and 1.

    Examples
    --------
    >>> fraction(0.25), fraction(1.0)
    ('.2500', '1.0000')
    """
    return f"{value:.{digits}f}".removeprefix("0")


def metric_name(metric: str) -> str:
    """Write a metric as people do.

    Examples
    --------
    >>> metric_name("ndcg@10"), metric_name("mean_ndcg"), metric_name("ndcg@1-10")
    ('NDCG@10', 'MeanNDCG', 'mean of NDCG@1 to @10')
    """
    name, at, k = metric.partition("@")
    first, to, last = k.partition("-")
    if to:
        return f"mean of {_METRIC_NAMES.get(name, name)}@{first} to @{last}"
    return _METRIC_NAMES.get(name, name) + at + k
