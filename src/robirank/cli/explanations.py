"""What ``robirank ltr explain`` compares and prints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from robirank._types import Ints64
from robirank.data.ranking import RankingData
from robirank.ltr.explain import Explanation
from robirank.storage.files import write_whole


@dataclass(frozen=True)
class Pair:
    """Two documents of a query: their rows in the data, their names, and their ranks."""

    query: str
    rows: tuple[int, int]
    names: tuple[str, str]
    ranks: tuple[int, int]


def choose(data: RankingData, scores: Any, query: str | None, above: str, below: str) -> Pair:
    """Find two documents by their ids, or by their ranks in the order of the scores."""
    name, ranked = _ranked(data, scores, query)
    ranks = (_rank(data, ranked, above, "--above"), _rank(data, ranked, below, "--below"))
    return _pair(data, name, ranked, ranks)


def neighbours(data: RankingData, scores: Any, query: str | None) -> list[Pair]:
    """Every document of a query and the one of the next rank."""
    name, ranked = _ranked(data, scores, query)
    if len(ranked) < 2:
        raise ValueError(f"query {name} must have two documents to compare; it has {len(ranked)}")
    return [_pair(data, name, ranked, (rank, rank + 1)) for rank in range(1, len(ranked))]


def _ranked(data: RankingData, scores: Any, query: str | None) -> tuple[str, Ints64]:
    """The id of a query, the first by default, and its rows, the best first."""
    queries = data.queries
    ids = [str(q) for q in queries.ids.tolist()]
    if query is not None and query not in ids:
        raise ValueError(f"--query must be one of the {len(ids)} query ids; got {query!r}")
    number = 0 if query is None else ids.index(query)
    rows = queries.rows()[queries.offsets[number] : queries.offsets[number + 1]]
    return ids[number], rows[np.argsort(-scores[rows], kind="stable")]


def _rank(data: RankingData, ranked: Ints64, document: str, option: str) -> int:
    if data.doc_ids is not None:
        places = np.flatnonzero(data.doc_ids[ranked] == document)
        if len(places):
            return int(places[0]) + 1
    if document.isdigit() and 1 <= int(document) <= len(ranked):
        return int(document)
    raise ValueError(
        f"{option} must be the id of a document of the query, or a rank from 1 to {len(ranked)}; "
        f"got {document!r}"
    )


def _pair(data: RankingData, query: str, ranked: Ints64, ranks: tuple[int, int]) -> Pair:
    a, b = (int(ranked[rank - 1]) for rank in ranks)
    names = (f"rank {ranks[0]}", f"rank {ranks[1]}")
    if data.doc_ids is not None:
        names = (str(data.doc_ids[a]), str(data.doc_ids[b]))
    return Pair(query, (a, b), names, ranks)


def explain_pair(model: Any, data: RankingData, pair: Pair) -> Explanation:
    """Explain the difference of two scores; an error where the model cannot."""
    if not hasattr(model, "explain"):
        raise ValueError(
            f"a {type(model).__name__} cannot explain its scores; linear rankers and trees can"
        )
    a, b = (data.X[[row]] for row in pair.rows)
    why: Explanation = model.explain(a, b)
    return why


def title(pair: Pair) -> str:
    """The title of the table: the query and the two documents with their ranks."""
    a, b = (f"{n} (rank {r})" for n, r in zip(pair.names, pair.ranks, strict=True))
    return f"Query {pair.query}: A is {a}, B is {b}"


def as_json(why: Explanation, pair: Pair) -> dict[str, Any]:
    """The explanation as a JSON object, with the effects of all features."""
    keys = ("feature", "a", "b", "effect")
    return {
        "query": pair.query,
        "a": pair.names[0],
        "b": pair.names[1],
        "score_a": why.score_a,
        "score_b": why.score_b,
        "effects": [
            {k: None if v != v else v for k, v in zip(keys, row, strict=True)}
            for row in why.table()
        ],
    }


def save_plot(why: Explanation, path: Path, top: int) -> None:
    """Draw the effects into a file; its ending says which kind."""
    figure = why.plot(top=top).figure
    with write_whole(path) as file:
        figure.savefig(file, format=path.suffix.lstrip(".") or "png")
