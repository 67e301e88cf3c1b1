"""What ``robirank ltr explain`` compares and prints."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from robirank._types import Ints64
from robirank.data.ranking import RankingData
from robirank.ltr.explain import Explanation


@dataclass(frozen=True)
class Pair:
    """Two documents of a query, their names and ranks, and why A has another score than B."""

    query: str
    names: tuple[str, str]
    ranks: tuple[int, int]
    why: Explanation

    def title(self) -> str:
        """The title of a table: the query and the two documents with their ranks."""
        a, b = (f"{n} (rank {r})" for n, r in zip(self.names, self.ranks, strict=True))
        return f"Query {self.query}: A is {a}, B is {b}"

    def as_json(self) -> dict[str, Any]:
        """The explanation as a JSON object, with the effects of all features."""
        keys = ("feature", "a", "b", "effect")
        return {
            "query": self.query,
            "a": self.names[0],
            "b": self.names[1],
            "score_a": self.why.score_a,
            "score_b": self.why.score_b,
            "effects": [dict(zip(keys, row, strict=True)) for row in self.why.table()],
        }


def explain(
    model: Any, data: RankingData, scores: Any, query: str | None, documents: dict[str, str]
) -> list[Pair]:
    """Explain the difference of two documents of a query, the first by default.

    ``documents`` are two options and what they say: the id of a document, or its rank. Without
    them, every document is compared with the one of the next rank.
    """
    if not hasattr(model, "explain"):
        raise ValueError(
            f"a {type(model).__name__} cannot explain its scores; linear rankers and trees can"
        )
    name, ranked = _ranked(data, scores, query)
    if documents:
        above, below = (_rank(data, ranked, *document) for document in documents.items())
        pairs = [(above, below)]
    elif len(ranked) < 2:
        raise ValueError(f"query {name} must have two documents to compare; it has {len(ranked)}")
    else:
        pairs = list(pairwise(range(1, len(ranked) + 1)))
    explained = []
    for ranks in pairs:
        a, b = (int(ranked[rank - 1]) for rank in ranks)
        names = (f"rank {ranks[0]}", f"rank {ranks[1]}")
        if data.doc_ids is not None:
            names = (str(data.doc_ids[a]), str(data.doc_ids[b]))
        explained.append(Pair(name, names, ranks, model.explain(data.X[[a]], data.X[[b]])))
    return explained


def _ranked(data: RankingData, scores: Any, query: str | None) -> tuple[str, Ints64]:
    """The id of a query and its rows, the best first."""
    queries = data.queries
    ids = [str(q) for q in queries.ids.tolist()]
    if query is not None and query not in ids:
        raise ValueError(f"--query must be one of the {len(ids)} query ids; got {query!r}")
    number = 0 if query is None else ids.index(query)
    rows = queries.rows()[queries.offsets[number] : queries.offsets[number + 1]]
    return ids[number], rows[np.argsort(-scores[rows], kind="stable")]


def _rank(data: RankingData, ranked: Ints64, option: str, document: str) -> int:
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
