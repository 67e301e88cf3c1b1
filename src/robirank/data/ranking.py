"""Judged documents in memory: features, labels, query ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from robirank._checks import check_length
from robirank._features import dense, feature_type
from robirank._queries import Queries, as_ids, group_queries
from robirank._sparse import check_sparse
from robirank.errors import ArgumentError

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)  # comparing arrays has no single answer
class RankingData:
    """Judged documents: one row a document, grouped into queries by ``qid``.

    Attributes
    ----------
    X : array or CSR matrix of shape (n_rows, n_features)
        The features: float32 from LETOR files and from columns that are all float32, else float64.
    y : array of shape (n_rows,)
        The relevance labels (0 = irrelevant).
    qid : array of shape (n_rows,)
        The query ids; rows of a query need not be side by side.
    doc_ids : array of str of shape (n_rows,), or None
        The documents' outside ids, if the source has them.
    feature_names : tuple of str, or None
        The features' names, if the source has them.
    n_skipped : int
        The number of bad lines of the source that were left out on request.

    Examples
    --------
    >>> data = RankingData([[0.1], [0.9], [0.4]], [0, 2, 1], ["a", "a", "b"])
    >>> data.n_rows, data.n_queries, data.n_features
    (3, 2, 1)
    """

    X: Any
    y: NDArray[Any]
    qid: NDArray[Any]
    doc_ids: NDArray[Any] | None = None
    feature_names: tuple[str, ...] | None = None
    n_skipped: int = 0

    def __post_init__(self) -> None:
        X = check_sparse("X", self.X)
        X = cast(Any, X).tocsr() if sp.issparse(X) else np.asarray(X)
        if X.ndim != 2:
            raise ArgumentError("X", f"must have two dimensions, rows and features; got {X.ndim}")
        object.__setattr__(self, "X", X)
        columns = {"y": np.asarray(self.y), "qid": as_ids(self.qid)}
        if self.doc_ids is not None:
            columns["doc_ids"] = np.asarray(self.doc_ids)
        for name, values in columns.items():
            check_length(name, values, X.shape[0], "rows of X")
            object.__setattr__(self, name, values)
        if self.feature_names is not None:
            names = tuple(str(n) for n in self.feature_names)
            if len(names) != X.shape[1]:
                raise ArgumentError(
                    "feature_names",
                    f"must name each of the {X.shape[1]} features; got {len(names)}",
                )
            object.__setattr__(self, "feature_names", names)

    @property
    def n_rows(self) -> int:
        """The number of documents."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """The number of features."""
        return int(self.X.shape[1])

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self.queries)

    @property
    def queries(self) -> Queries:
        """The rows grouped by query."""
        return group_queries(self.qid, self.n_rows)

    def __len__(self) -> int:
        return self.n_rows

    def __iter__(self) -> Iterator[Any]:
        """Unpack as ``X, y, qid = data``."""
        return iter((self.X, self.y, self.qid))

    def __repr__(self) -> str:
        kind = "sparse" if sp.issparse(self.X) else "dense"
        return (
            f"RankingData({self.n_rows:,} documents, {self.n_queries:,} queries, "
            f"{self.n_features} features, {kind})"
        )

    def take(self, rows: ArrayLike) -> RankingData:
        """Keep the given rows (an index array, a slice or a boolean mask)."""
        index = rows if isinstance(rows, slice) else np.asarray(rows)
        if not isinstance(index, slice) and index.size == 0 and index.dtype.kind == "f":
            index = index.astype(np.intp)  # an empty list, which NumPy takes for floats
        return replace(
            self,
            X=self.X[index],
            y=self.y[index],
            qid=self.qid[index],
            doc_ids=None if self.doc_ids is None else self.doc_ids[index],
        )

    def normalize(self) -> RankingData:
        """Scale every feature to [0, 1] within each query; see `normalize_queries`."""
        return replace(self, X=normalize_queries(self.X, self.qid))

    def log(self) -> RankingData:
        """Take logarithms of the features; see `signed_log`."""
        return replace(self, X=signed_log(self.X))

    def to_frame(self) -> pl.DataFrame:
        """The features as a polars DataFrame whose columns have their names, f1, f2, … without.

        A ranker that is fitted to it keeps the names: ``model.fit(data.to_frame(), data.y,
        qid=data.qid)``.

        Examples
        --------
        >>> data = RankingData([[0.1], [0.9]], [0, 2], ["a", "a"], feature_names=("bm25",))
        >>> data.to_frame().columns
        ['bm25']
        """
        import polars as pl

        names = self.feature_names or [f"f{j}" for j in range(1, self.n_features + 1)]
        return pl.DataFrame(dense(self.X), schema=list(names))

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        label: str = "label",
        qid: str = "qid",
        doc_id: str | None = None,
        features: Sequence[str] | None = None,
    ) -> RankingData:
        """Take judged documents from a DataFrame (pandas or polars, a LazyFrame too).

        Parameters
        ----------
        frame : DataFrame
            One row a document.
        label, qid : str
            The columns that hold the relevance label and the query id.
        doc_id : str, optional
            The column that holds the documents' own ids.
        features : sequence of str, optional
            The feature columns, in this order; all remaining columns by default. They hold numbers
            or booleans, with NaN for what is missing. Text, categories with names, and times are
            an error: encode them first, for example by scikit-learn's ``OrdinalEncoder``.

        Examples
        --------
        >>> import polars as pl
        >>> df = pl.DataFrame({"qid": ["a", "a"], "label": [1, 0], "bm25": [2.5, 0.5]})
        >>> RankingData.from_frame(df).feature_names
        ('bm25',)
        """
        from robirank.data import _columns

        frame = _columns.as_frame(frame)
        names = _columns.column_names(frame)
        columns = {str(name): name for name in names}
        if len(columns) < len(names):
            raise ValueError(f"the frame must name each column once; it has {names}")
        used = {"label": label, "qid": qid} | ({"doc_id": doc_id} if doc_id else {})
        if features is None:
            features = [name for name in columns if name not in used.values()]
        _columns.check_columns(
            [*columns], [*used.items(), *(("features", name) for name in features)]
        )
        if not features:
            raise ValueError("the frame has no feature columns beside the label and the query id")
        frame = _columns.collected(frame, dict.fromkeys([*used.values(), *features]))
        kinds = [feature_type(frame[columns[name]]) for name in features]
        X = np.empty((len(frame), len(features)), dtype=np.result_type(*kinds))
        for j, name in enumerate(features):
            X[:, j] = _columns.as_numbers(frame[columns[name]], f"column {name!r}", _NO_FEATURE)
        return cls(
            X,
            _columns.as_numbers(frame[columns[label]], f"column {label!r}", _NO_LABEL).to_numpy(),
            frame[columns[qid]].to_numpy(),
            doc_ids=frame[columns[doc_id]].to_numpy().astype(str) if doc_id else None,
            feature_names=tuple(features),
        )


_NO_FEATURE = (
    ". Leave it out with features=[...], name it as qid, label or doc_id, or make numbers of it "
    "first: categories by OrdinalEncoder, times as a difference such as days"
)
_NO_LABEL = ". Name another column as label, or make numbers of it first, such as 0, 1, 2"


def signed_log(X: Any) -> Any:
    """Return sign(x) log(1 + |x|) of each feature: for raw counts, lengths and scores.

    Such features spread over many powers of ten, and what matters is their ratio. A sparse matrix
    stays sparse. float32 stays float32, and all else becomes float64.

    Examples
    --------
    >>> signed_log([[0.0, -1.0, 1e6]]).round(4).tolist()
    [[0.0, -0.6931, 13.8155]]
    """
    if sp.issparse(X):
        logs = check_sparse("X", X).tocsr().copy()
        logs.data = signed_log(logs.data)
        return logs
    values = np.asarray(X, dtype=feature_type(X))
    return np.sign(values) * np.log1p(np.abs(values))


def normalize_queries(X: Any, qid: ArrayLike | None) -> Any:
    """Scale every feature to [0, 1] within each query, as LETOR's "QueryLevelNorm" files do.

    For query x, document y and feature f::

        (φ_f(x, y) − min_y' φ_f(x, y')) / (max_y' φ_f(x, y') − min_y' φ_f(x, y'))

    A feature that is constant within a query becomes 0 there. NaN, a missing value, stays NaN and
    counts for neither the minimum nor the maximum; an infinite value is an error. The result is
    dense (a minimum that is not zero would fill a sparse matrix anyway). float32 stays float32, and
    all else becomes float64.

    Examples
    --------
    >>> normalize_queries([[1.0], [3.0], [2.0], [9.0]], [1, 1, 1, 2]).ravel().tolist()
    [0.0, 1.0, 0.5, 0.0]
    """
    dtype = feature_type(X)
    X = check_sparse("X", X)
    X = np.asarray(dense(X), dtype=dtype)
    if X.shape[0] == 0:
        return X.copy()
    queries = group_queries(qid, X.shape[0])
    out = np.asarray(queries.sort(X))
    out = out.copy() if out is X else out
    starts = queries.offsets[:-1]
    low = np.fmin.reduceat(out, starts, axis=0)
    high = np.fmax.reduceat(out, starts, axis=0)
    if np.isinf(low).any() or np.isinf(high).any():
        row, column = np.argwhere(np.isinf(X))[0]
        raise ValueError(
            f"X has {X[row, column]} in row {row}, column {column}; "
            "to normalize, every value must be finite, or NaN where it is missing"
        )
    span = high - low
    span[span == 0] = 1
    query = queries.codes()  # of each row of `out`
    for begin in range(0, len(out), _CHUNK_ROWS):
        chunk = slice(begin, begin + _CHUNK_ROWS)
        out[chunk] -= low[query[chunk]]
        out[chunk] /= span[query[chunk]]
    return queries.unsort(out)


_CHUNK_ROWS = 65_536
