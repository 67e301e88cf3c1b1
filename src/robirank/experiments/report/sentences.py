"""Sentences that the reports of all experiments have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from robirank.experiments.text import abbreviate

_MEASURE_NAMES = {"ndcg": "NDCG", "mean_ndcg": "MeanNDCG", "map": "MAP", "hit_rate": "hit rate"}


def measure_name(measure: str) -> str:
    """Write a measure as people do.

    Examples
    --------
    >>> measure_name("ndcg@10"), measure_name("mean_ndcg"), measure_name("ndcg@1-10")
    ('NDCG@10', 'MeanNDCG', 'mean of NDCG@1 to @10')
    """
    name, at, k = measure.partition("@")
    first, to, last = k.partition("-")
    if to:
        return f"mean of {_MEASURE_NAMES.get(name, name)}@{first} to @{last}"
    return _MEASURE_NAMES.get(name, name) + at + k


def share(value: float, digits: int = 4) -> str:
    """A number between 0 and 1.

    Examples
    --------
    >>> share(0.25), share(1.0)
    ('.2500', '1.0000')
    """
    return f"{value:.{digits}f}".removeprefix("0")


def who_leads(values: Mapping[str, float], measure: str, emphasis: str) -> str:
    """Say which of several methods is first, and where the emphasised one is.

    Examples
    --------
    >>> who_leads({"RoBiRank": 0.4, "MART": 0.5}, "MAP", "RoBiRank")
    'MART has the highest MAP of 2 methods, .5000; RoBiRank is second with .4000.'
    """
    ranking = sorted(values, key=lambda name: -values[name])
    leader = ranking[0]
    if len(ranking) == 1:
        return f"{leader} has a {measure} of {share(values[leader])}; it has no rival in this run."
    text = f"{leader} has the highest {measure} of {len(ranking)} methods, {share(values[leader])}"
    if leader == emphasis:
        return f"{text}; {ranking[1]} follows with {share(values[ranking[1]])}."
    if emphasis not in ranking:
        return f"{text}."
    place = _ordinal(ranking.index(emphasis) + 1)
    return f"{text}; {emphasis} is {place} with {share(values[emphasis])}."


def what_is_lacking(states: Sequence[Mapping[str, str]], n_missing: int) -> list[str]:
    """Say which methods failed, and how much is still to be done."""
    found = []
    failed = [state["name"] for state in states if state["state"] == "failed"]
    if failed:
        found.append(f"Failed, and so without a result: {abbreviate(failed)}.")
    if n_missing:
        fits = "one fit is" if n_missing == 1 else f"{n_missing} fits are"
        found.append(f"This run is not finished: {fits} still to be done.")
    return found


def _ordinal(n: int) -> str:
    words = {1: "first", 2: "second", 3: "third"}
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th") if n % 100 not in (11, 12, 13) else "th"
    return words.get(n, f"{n}{suffix}")
