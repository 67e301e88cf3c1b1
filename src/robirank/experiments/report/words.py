"""What the report of a run says in words: the data, the findings, how the numbers were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robirank.experiments._run_format import some
from robirank.metrics import CONVENTIONS, Convention

#: Differences with an adjusted p-value below this are called differences.
SIGNIFICANT = 0.05

_GAIN = {
    "exp": "A document with label r is worth 2ʳ − 1",
    "linear": "A document with label r is worth r",
}
_DISCOUNT = {
    "log2": "the document at rank i counts 1 / log₂(i + 1) of that",
    "letor": "ranks 1 and 2 count in full and rank i from there on 1 / log₂ i of that",
}
_TIES = {
    "first": "Documents with equal scores stay in the order of the file",
    "last": "Documents with equal scores come in reverse order of the file",
    "best": "Of documents with equal scores the more relevant one comes first",
    "worst": "Of documents with equal scores the less relevant one comes first",
    "average": "Documents with equal scores count as the average over all their orders",
}
_EMPTY = {
    "zero": "a query without any relevant document counts as 0",
    "one": "a query without any relevant document counts as 1",
    "skip": "a query without any relevant document is left out",
}
_CONVENTION_NAMES = {
    "letor": "LETOR's own convention",
    "standard": "The standard convention",
    "trec": "trec_eval's convention",
    "lightgbm": "LightGBM's convention",
}
_MEASURE_NAMES = {
    "ndcg": "NDCG",
    "mean_ndcg": "MeanNDCG",
    "map": "MAP",
    "hit_rate": "hit rate",
}


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


def lead_measure(settings: Mapping[str, Any]) -> str:
    """The measure that the page speaks of first: what chose the settings, where that is shown.

    Examples
    --------
    >>> lead_measure({"select": "ndcg@5", "k_max": 20})
    'ndcg@5'
    >>> lead_measure({"select": "ndcg@1-10", "k_max": 20})
    'ndcg@10'
    """
    name, _, k = str(settings["select"]).partition("@")
    shown = name == "ndcg" and k.isdigit() and 1 <= int(k) <= settings["k_max"]
    if shown or settings["select"] in ("mean_ndcg", "map"):
        return str(settings["select"])
    return f"ndcg@{min(10, settings['k_max'])}"


def facts(settings: Mapping[str, Any], n_queries: int) -> list[dict[str, str]]:
    """List what there is to know about the data set, as terms and values."""
    data = settings["data"]
    found = []
    if data.get("name") and data["name"] != settings["title"]:
        found.append({"term": "Data", "value": str(data["name"])})
    if n_queries:
        found.append({"term": "Test queries", "value": f"{n_queries:,}"})
    for name in ("queries", "documents", "features", "folds"):
        value = data.get(name)
        if value is not None and not (name == "queries" and value == n_queries):
            text = f"{value:,}" if isinstance(value, int) else str(value)
            found.append({"term": name.capitalize(), "value": text})
    labels = data.get("labels") or {}
    total = sum(labels.values())
    if total:
        shares = [f"{label}: {100 * n / total:.0f} %" for label, n in labels.items()]
        found.append({"term": "Labels", "value": " · ".join(shares)})
    return found


def findings(
    settings: Mapping[str, Any],
    emphasis: str,
    methods: Sequence[Mapping[str, Any]],
    means: Mapping[str, Mapping[str, float]],
    comparisons: Sequence[Mapping[str, Any]],
    n_missing: int,
) -> list[str]:
    """Say in a few sentences what came out."""
    select = lead_measure(settings)
    ranking = sorted(
        (name for name in means if select in means[name]), key=lambda name: -means[name][select]
    )
    sentences = []
    if ranking:
        sentences.append(_who_leads(ranking, means, select, emphasis))
        against = [c for c in comparisons if c["measure"] == select and c["baseline"] == emphasis]
        if against:
            sentences.append(_what_is_certain(emphasis, against))
    failed = [m["name"] for m in methods if m["state"] == "failed"]
    if failed:
        sentences.append(f"Failed on at least one fold, and so without a mean: {some(failed)}.")
    if n_missing:
        fits = "one fit is" if n_missing == 1 else f"{n_missing} fits are"
        sentences.append(f"This run is not finished: {fits} still to be done.")
    return sentences


def _who_leads(
    ranking: Sequence[str], means: Mapping[str, Mapping[str, float]], select: str, emphasis: str
) -> str:
    def told(name: str) -> str:
        return f"{means[name][select]:.4f}".removeprefix("0")

    leader, measure = ranking[0], measure_name(select)
    if len(ranking) == 1:
        return (
            f"{leader} has a mean {measure} of {told(leader)}; there is nothing to compare it with."
        )
    first = f"{leader} has the highest mean {measure} of {len(ranking)} methods, {told(leader)}"
    if leader == emphasis:
        return f"{first}; {ranking[1]} follows with {told(ranking[1])}."
    if emphasis not in ranking:
        return first + "."
    place = ordinal(ranking.index(emphasis) + 1)
    return f"{first}; {emphasis} is {place} with {told(emphasis)}."


def _what_is_certain(emphasis: str, against: Sequence[Mapping[str, Any]]) -> str:
    tested = [c for c in against if c.get("p_adjusted") is not None]
    certain = [c for c in tested if c["p_adjusted"] < SIGNIFICANT]
    behind = sum((c.get("difference") or 0) > 0 for c in certain)
    ahead = len(certain) - behind
    level = f"{SIGNIFICANT:.2f}".removeprefix("0")
    return (
        f"Query by query, {emphasis} is ahead of {_count(ahead)} and behind {_count(behind)} "
        f"at an adjusted p below {level}; {_count(len(against) - len(certain))} cannot be told "
        "apart from it."
    )


def how_it_was_made(
    settings: Mapping[str, Any], significance: Mapping[str, Any], n_queries: int, n_folds: int
) -> list[dict[str, str]]:
    """Explain every number on the page, as terms and texts."""
    every = f"all {n_queries:,} test queries" + (f" of {n_folds} folds" if n_folds > 1 else "")
    how = [
        {"term": "NDCG@k", "text": convention_in_words(settings["convention"])},
        {
            "term": "MeanNDCG, MAP",
            "text": "MeanNDCG is the mean of NDCG@k over all cut-offs k of a list. MAP is mean "
            "average precision over the whole list, where labels from 1 up are relevant.",
        },
        {
            "term": "Means",
            "text": f"Over {every}, each query counting once. Bands are 95 % confidence intervals "
            "of a mean over queries (Student's t). They say how far a mean may move with other "
            "queries, not whether two methods differ: for that, methods are compared query by "
            "query.",
        },
        {
            "term": "Settings",
            "text": "In each fold a method's setting is the one with the best "
            f"{measure_name(settings['select'])} on the validation queries. Test queries decide "
            "nothing.",
        },
    ]
    told = [
        f"{label}: {significance[name]}."
        for name, label in (
            ("test", "Test"),
            ("correction", "Correction for many comparisons"),
            ("intervals", "Intervals"),
        )
        if significance.get(name)
    ]
    if told:
        how.append({"term": "Differences", "text": " ".join(told)})
    how.append(
        {
            "term": "Times",
            "text": "Wall-clock seconds. The search tries every setting on a fold; the final fit "
            "is the one whose model is tested.",
        }
    )
    return how


def convention_in_words(convention: str | Mapping[str, Any]) -> str:
    """Spell out what the measures count.

    Examples
    --------
    >>> convention_in_words("letor").partition(": ")[0]
    "LETOR's own convention"
    """
    if isinstance(convention, str):
        if convention not in CONVENTIONS:
            return f"Convention “{convention}”."
        rule, name = CONVENTIONS[convention], _CONVENTION_NAMES.get(convention, convention)
    else:
        rule, name = Convention(**convention), "A convention of its own"
    gain = _GAIN[rule.gain] if isinstance(rule.gain, str) else "Gains are of the run's own making"
    return (
        f"{name}: {gain[0].lower()}{gain[1:]}, and {_DISCOUNT[rule.discount]}; the sum over the "
        f"first k is divided by the largest sum that any order can reach. {_TIES[rule.ties]}; "
        f"{_EMPTY[rule.empty]}."
    )


def ordinal(n: int) -> str:
    """A place in words."""
    words = {1: "first", 2: "second", 3: "third"}
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th") if n % 100 not in (11, 12, 13) else "th"
    return words.get(n, f"{n}{suffix}")


def _count(n: int) -> str:
    return "none" if n == 0 else "one method" if n == 1 else f"{n} methods"
