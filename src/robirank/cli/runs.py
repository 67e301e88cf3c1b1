"""Scores as text: one a line, tables, TREC run files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robirank._types import Floats64
from robirank.storage.files import write_text

if TYPE_CHECKING:
    from robirank.data.ranking import RankingData


def as_scores(_: RankingData, scores: NDArray[Any], __: str) -> str:
    """One score a line, in the order of the documents, with all digits."""
    return "".join(f"{score!r}\n" for score in scores.tolist())


def as_tsv(data: RankingData, scores: NDArray[Any], _: str) -> str:
    """Query, document and score, in the order of the documents."""
    rows = zip(data.qid.tolist(), _doc_ids(data), scores.tolist(), strict=True)
    lines = [f"{q}\t{doc}\t{score!r}\n" for q, doc, score in rows]
    return "".join(["qid\tdocid\tscore\n", *lines])


def as_trec(data: RankingData, scores: NDArray[Any], tag: str) -> str:
    """Lines ``qid Q0 docid rank score tag``, each query's best document first."""
    if not tag or any(c.isspace() for c in tag):
        raise ValueError(f"--tag must be one word; got {tag!r}")
    docs = _doc_ids(data)
    queries = data.queries
    order = queries.rows()
    lines = []
    for i, query in enumerate(queries.ids.tolist()):
        rows = order[queries.offsets[i] : queries.offsets[i + 1]]
        best_first = rows[np.argsort(-scores[rows], kind="stable")]
        lines += [
            f"{query} Q0 {docs[row]} {rank} {float(scores[row])!r} {tag}\n"
            for rank, row in enumerate(best_first.tolist(), start=1)
        ]
    return "".join(lines)


FORMATS: Mapping[str, Callable[[Any, NDArray[Any], str], str]] = {
    "scores": as_scores,
    "tsv": as_tsv,
    "trec": as_trec,
}


def _doc_ids(data: RankingData) -> list[str]:
    """Return the documents' ids as single words; d1, d2, … where the file has none."""
    ids = [] if data.doc_ids is None else data.doc_ids.tolist()
    ids = ids or [""] * data.n_rows
    return ["_".join(str(doc).split()) or f"d{row}" for row, doc in enumerate(ids, start=1)]


def read_scores(path: Path, n_rows: int) -> Floats64:
    """Read one score a line, as many as there are documents."""
    lines = path.read_text("utf-8").split()
    if len(lines) != n_rows:
        raise ValueError(
            f"{path} must hold one score for each of the {n_rows:,} documents, "
            f"one a line; it has {len(lines):,}"
        )
    try:
        scores = np.array(lines, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"{path} must hold numbers, one a line ({error})") from None
    if not np.isfinite(scores).all():
        bad = int(np.argmin(np.isfinite(scores)))
        raise ValueError(f"{path} must hold finite numbers; score {bad + 1} is {lines[bad]}")
    return scores


def write_per_query(path: Path, ids: NDArray[Any], table: Mapping[str, Any]) -> None:
    """Write a line for each query, a column for each metric."""
    lines = ["\t".join(["qid", *table]) + "\n"]
    lines += [
        "\t".join([str(query), *(repr(float(v)) for v in values)]) + "\n"
        for query, *values in zip(ids.tolist(), *table.values(), strict=True)
    ]
    write_text(path, "".join(lines))
