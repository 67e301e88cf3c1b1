"""Sparse matrices as they come in: their structure is checked before anything relies on it.

SciPy's and our own native loops follow the indices of a matrix without looking, and SciPy itself
does not check them when a matrix is made or changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def check_sparse(name: str, matrix: Any) -> Any:
    """Return a sparse matrix in the byte order of this machine, once its indices are checked.

    An index out of the shape is an error. One pass over the indices as they are stored, before any
    conversion; a matrix in the right byte order is returned itself, and so is all that is not
    sparse. Other formats than CSR, CSC, BSR and COO hold no indices that native code follows.
    """
    if getattr(matrix, "format", None) is None or matrix.ndim != 2:
        return matrix
    if matrix.format in ("csr", "csc", "bsr"):
        rows, columns = matrix.shape
        if matrix.format == "bsr":
            rows, columns = rows // matrix.blocksize[0], columns // matrix.blocksize[1]
        if matrix.format == "csc":
            rows, columns = columns, rows
        check_rows(name, matrix.indptr, matrix.indices, (rows, columns))
        if len(matrix.data) < matrix.indptr[-1]:
            _refuse(name, f"it has {matrix.indptr[-1]} indices and {len(matrix.data)} values")
    elif matrix.format == "coo":
        for axis, values in zip(("row", "col"), (matrix.row, matrix.col), strict=True):
            _check_below(name, axis, values, matrix.shape[axis == "col"])
    return _native(matrix)


def _native(matrix: Any) -> Any:
    """The matrix with all its arrays in the byte order of this machine."""
    names = ("data", "indices", "indptr", "row", "col", "offsets")
    arrays = [getattr(matrix, name) for name in names if hasattr(matrix, name)]
    if all(array.dtype.isnative for array in arrays):
        return matrix
    # SciPy brings the indices of a new matrix into the right order, not those that are set later.
    return matrix.astype(matrix.dtype.newbyteorder("="), copy=True)


def check_rows(
    name: str, indptr: NDArray[Any], indices: NDArray[Any], shape: tuple[int, int]
) -> None:
    """Raise an error unless row x can have the columns ``indices[indptr[x]:indptr[x + 1]]``.

    Examples
    --------
    >>> check_rows("user_items", np.array([0, 1, 2]), np.array([0, 7]), (2, 5))
    Traceback (most recent call last):
    ValueError: user_items is damaged: indices[1] is 7; it must be from 0 to 4
    """
    _check_integers(name, "indptr", indptr)
    if indptr.shape != (shape[0] + 1,):
        _refuse(name, f"indptr must have length {shape[0] + 1}; it has {len(indptr)}")
    if indptr[0] != 0:
        _refuse(name, f"indptr must begin with 0; it begins with {indptr[0]}")
    falls = indptr[1:] < indptr[:-1]
    if falls.any():
        x = int(falls.argmax())
        _refuse(
            name,
            f"indptr must never fall; indptr[{x + 1}] is {indptr[x + 1]} after {indptr[x]}",
        )
    if indptr[-1] > len(indices):
        _refuse(name, f"indptr ends with {indptr[-1]}, and there are {len(indices)} indices")
    _check_below(name, "indices", indices[: indptr[-1]], shape[1])


def rows_are_sorted(indptr: NDArray[Any], indices: NDArray[Any]) -> bool:
    """Whether the columns of each row never fall; SciPy's own answer may be out of date.

    Examples
    --------
    >>> rows_are_sorted(np.array([0, 2, 3]), np.array([4, 7, 1]))
    True
    """
    falls = np.flatnonzero(indices[1 : indptr[-1]] < indices[: max(0, indptr[-1] - 1)]) + 1
    return bool(np.isin(falls, indptr).all()) if len(falls) else True


def offsets(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Where rows of the given lengths begin, and where the last one ends."""
    out = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, dtype=np.int64, out=out[1:])
    return out


def places_of_rows(
    indptr: NDArray[Any], rows: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each of some rows begins when they are put together, and the places of their entries.

    Examples
    --------
    >>> places_of_rows(np.array([0, 2, 2, 5]), np.array([2, 0]))
    (array([0, 3, 5]), array([2, 3, 4, 0, 1]))
    """
    begin = indptr[rows]
    lengths = indptr[rows + 1] - begin
    starts = offsets(lengths)
    return starts, np.repeat(begin - starts[:-1], lengths) + np.arange(starts[-1])


def sound_csr(name: str, matrix: Any) -> Any:
    """A checked CSR matrix that shares memory with the given one where that is CSR.

    What SciPy remembers of the order of the indices is left behind: it is out of date where the
    indices were changed since.
    """
    from scipy import sparse

    csr = check_sparse(name, matrix).tocsr()
    if matrix.format != csr.format:
        check_sparse(name, csr)
    n = csr.indptr[-1]
    return sparse.csr_matrix((csr.data[:n], csr.indices[:n], csr.indptr), shape=csr.shape)


def _check_below(name: str, what: str, values: NDArray[Any], limit: int) -> None:
    _check_integers(name, what, values)
    # Negative numbers become large ones.
    unsigned = values.view(np.dtype(f"u{values.itemsize}").newbyteorder(values.dtype.byteorder))
    if len(values) and unsigned.max() >= limit:
        k = int((unsigned >= limit).argmax())
        _refuse(name, f"{what}[{k}] is {values[k]}; it must be from 0 to {limit - 1}")


def _check_integers(name: str, what: str, values: NDArray[Any]) -> None:
    if values.dtype.kind not in "iu" or values.ndim != 1:
        _refuse(name, f"{what} must be a list of integers; it is {values.dtype} {values.shape}")


def _refuse(name: str, reason: str) -> None:
    raise ValueError(f"{name} is damaged: {reason}")
