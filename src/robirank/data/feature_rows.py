"""The features of the users or items of a table: a row for each, in the order of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robirank._callers import warn
from robirank._sparse import check_rows
from robirank.data.feature_encoder import FeatureEncoder
from robirank.data.features import Features
from robirank.data.ids import Ids, column_like
from robirank.data.sparse_rows import SparseRows
from robirank.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class FeatureRows(SparseRows):
    """Features as numbers, a row for each user or item, and how they became numbers.

    ``matrix`` is a CSR matrix of float32 numbers.
    """

    encoder: FeatureEncoder
    matrix: Any

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def __getstate__(self) -> dict[str, Any]:
        return {"encoder": self.encoder, "matrix": self.matrix}

    def take(self, positions: NDArray[Any]) -> FeatureRows:
        """The rows at some positions."""
        return FeatureRows(self.encoder, self.matrix[positions])

    def without_empty_columns(self) -> FeatureRows:
        """The rows without the columns in which none has an entry, which take no names any more."""
        used, columns = np.unique(self.matrix.indices, return_inverse=True)
        entries = (self.matrix.data, columns.astype(np.int32), self.matrix.indptr)
        matrix = sparse.csr_matrix(entries, shape=(len(self), max(1, len(used))))
        return FeatureRows(self.encoder, matrix)

    def extended(self, n: int) -> FeatureRows:
        """The rows, and after them rows of which nothing is known, n in all."""
        added = self.encoder.nothing(max(0, n - len(self)))
        return FeatureRows(self.encoder, sparse.vstack([self.matrix, added], format="csr"))

    def with_rows(self, places: NDArray[Any], matrix: Any) -> FeatureRows:
        """The rows, with those at some places replaced by the rows of a matrix."""
        order = np.arange(len(self))
        order[places] = len(self) + np.arange(len(places))
        stacked = sparse.vstack([self.matrix, matrix], format="csr")
        return FeatureRows(self.encoder, stacked[order])

    def rows_of(self, argument: str, values: Any) -> FeatureRows:
        """The rows of other users or items, by `Features`, a dict of values, or a list of dicts.

        Columns that a dict does not have are unknown.
        """
        if not isinstance(values, Features):
            rows = [values] if isinstance(values, Mapping) else values
            if not isinstance(rows, list | tuple) or not all(isinstance(r, Mapping) for r in rows):
                raise TypeError(
                    f"{argument} must be Features, a dict of values by column, or a list of such "
                    f"dicts; got {type(values).__name__}"
                )
            values = self.encoder.table_of(rows)
        matrix, unknown = self.encoder.encode(values, partly=True)
        warn_of_unknown(argument, unknown)
        return FeatureRows(self.encoder, matrix)

    def to_tensors(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The arrays that a file keeps."""
        matrix = self.matrix
        return self.encoder.to_tensors(f"{prefix}.encoder") | {
            f"{prefix}.indptr": matrix.indptr.astype(np.int64),
            f"{prefix}.indices": matrix.indices.astype(np.int32),
            f"{prefix}.data": matrix.data.astype(np.float32),
        }

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, NDArray[Any]], prefix: str) -> FeatureRows:
        """The inverse of `to_tensors`; a ValueError unless the arrays fit together."""
        encoder = FeatureEncoder.from_tensors(arrays, f"{prefix}.encoder")
        parts = [arrays.get(f"{prefix}.{part}") for part in ("indptr", "indices", "data")]
        types = [None if part is None else part.dtype for part in parts]
        if types != [np.int64, np.int32, np.float32]:
            raise ValueError(f"{prefix} must be a sparse matrix of float32 numbers")
        indptr, indices, data = parts
        assert indptr is not None
        assert indices is not None
        assert data is not None
        shape = (len(indptr) - 1, encoder.width)
        check_rows(prefix, indptr, indices, shape)
        if len(data) != len(indices) or not np.isfinite(data).all():
            raise ValueError(f"{prefix} must have a finite number for each index")
        return cls(encoder, sparse.csr_matrix((data, indices, indptr), shape=shape))


class AlignedFeatures(NamedTuple):
    """Features in the order of a table, after whose rows new ones come.

    Attributes
    ----------
    rows : FeatureRows
    ids : Ids or None
        The outside ids of all rows; None for positions.
    """

    rows: FeatureRows
    ids: Ids | None


class UnknownValueWarning(UserWarning):
    """Values of features that the fit had not seen were passed over."""


def align_features(
    argument: str,
    features: Features | None,
    ids: Ids | None,
    n: int,
    before: FeatureRows | None = None,
) -> AlignedFeatures | None:
    """Bring features into the order of n users or items, with new ones after them.

    Parameters
    ----------
    argument : str
        What errors call the features.
    features : Features or None
        None where there are only those known before, if any.
    ids : Ids or None
        The outside ids of the table. Without, ids of features are positions; new ones must go on
        from n without a gap.
    n : int
    before : FeatureRows, optional
        The features of the first users or items that are known already, and how features become
        numbers. Without, that is learned from the features given.
    """
    if features is None:
        return None if before is None else AlignedFeatures(before.extended(n), ids)
    check_features(argument, features)
    encoder = FeatureEncoder.learn(features) if before is None else before.encoder
    matrix, unknown = encoder.encode(features)
    warn_of_unknown(argument, unknown)
    if ids is None:
        places = _positions(argument, features.ids, n)
        total = max(n, int(places.max(initial=-1)) + 1)
    else:
        places, ids = ids.encode(column_like(argument, features.ids, ids, "the table"))
        total = len(ids)
    if before is None and not (places < n).any():
        raise ArgumentError(argument, _of_nobody(features.ids, ids, n))
    known = FeatureRows(encoder, encoder.nothing(0)) if before is None else before
    return AlignedFeatures(known.extended(total).with_rows(places, matrix), ids)


def check_features(argument: str, features: Any) -> None:
    """Raise an error unless an argument is `Features`."""
    if not isinstance(features, Features):
        raise TypeError(
            f"{argument} must be Features, such as Features.from_frame makes of a table; got "
            f"{type(features).__name__}"
        )


def warn_of_unknown(argument: str, unknown: Mapping[str, int]) -> None:
    """Say how many values of features are unknown."""
    if unknown:
        values = ", ".join(f"{count:,} of {name!r}" for name, count in unknown.items())
        warn(
            f"{argument}: values that the fit had not seen were passed over, {values}",
            UnknownValueWarning,
        )


def _of_nobody(given: Ids, ids: Ids | None, n: int) -> str:
    """What is wrong with features that are those of another table."""
    both = given, Ids.range(n) if ids is None else ids
    examples = [", ".join(map(repr, some[:3].tolist())) for some in both]
    return (
        f"must have rows for some of the {n} that the table has, such as {examples[1]}; it has "
        + (f"{len(given)} others, such as {examples[0]}" if len(given) else "no rows")
    )


def _positions(argument: str, ids: Ids, n: int) -> NDArray[Any]:
    """Ids that are positions; new ones must be n, n + 1, …."""
    if ids.kind != "int":
        raise ArgumentError(
            argument,
            f"must have positions as ids, as a matrix has no others; got {ids[0]!r}. Fit "
            "Interactions, which have outside ids",
        )
    places = np.asarray(ids[:], np.int64)
    beyond = np.sort(places[places >= n])
    if (places < 0).any() or not np.array_equal(beyond, n + np.arange(len(beyond))):
        gap = int(places.min()) if (places < 0).any() else int(beyond[0])
        raise ArgumentError(
            argument,
            f"must have ids from 0 to {n - 1}, as the matrix has, and new ones from {n} on without "
            f"a gap; got {gap}",
        )
    return places
