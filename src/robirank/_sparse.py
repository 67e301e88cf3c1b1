"""Checks of the indices of sparse matrices, and arithmetic with row offsets.

Native loops, SciPy's and those of this package, do not check the indices of a matrix, nor does
SciPy when a matrix is made or changed. So every matrix of a caller is checked once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank.errors import ArgumentError


def check_sparse(name: str, matrix: Any) -> Any:
    """Check the indices of a sparse matrix, and convert it to the byte order of this machine.

    Formats other than CSR, CSC, BSR and COO have no indices that native code uses, and an argument
    that is no sparse matrix is returned as it is.
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
    names = ("data", "indices", "indptr", "row", "col", "offsets")
    arrays = [getattr(matrix, name) for name in names if hasattr(matrix, name)]
    if all(array.dtype.isnative for array in arrays):
        return matrix
    # SciPy converts the indices when it makes a matrix, but not indices that are assigned later.
    return matrix.astype(matrix.dtype.newbyteorder("="), copy=True)


def check_rows(
    name: str, indptr: NDArray[Any], indices: NDArray[Any], shape: tuple[int, int]
) -> None:
    """Raise an error unless ``indptr`` and ``indices`` are the rows of a matrix of that shape."""
    _check_integers(name, "indptr", indptr)
    length = max(0, shape[0]) + 1
    if indptr.shape != (length,):
        _refuse(name, f"indptr must have length {length}; it has {len(indptr)}")
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
    """Whether the indices of each row are sorted; the flag that SciPy keeps may be out of date."""
    falls = np.flatnonzero(indices[1 : indptr[-1]] < indices[: max(0, indptr[-1] - 1)]) + 1
    return bool(np.isin(falls, indptr).all()) if len(falls) else True


def offsets(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Row offsets: where rows of the given lengths begin, and where the last one ends."""
    out = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, dtype=np.int64, out=out[1:])
    return out


def places_of_rows(
    indptr: NDArray[Any], rows: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Offsets of the given rows put one after the other, and the positions of their entries."""
    begin = indptr[rows]
    lengths = indptr[rows + 1] - begin
    starts = offsets(lengths)
    return starts, np.repeat(begin - starts[:-1], lengths) + np.arange(starts[-1])


def sound_csr(name: str, matrix: Any) -> Any:
    """Check a sparse matrix and convert it to CSR; a CSR matrix shares its memory.

    The result does not have the flags of the argument for sorted indices and duplicates, which may
    be out of date.
    """
    from scipy import sparse

    csr = check_sparse(name, matrix).tocsr()
    if matrix.format != csr.format:
        check_sparse(name, csr)
    n = csr.indptr[-1]
    return sparse.csr_matrix((csr.data[:n], csr.indices[:n], csr.indptr), shape=csr.shape)


def _check_below(name: str, what: str, values: NDArray[Any], limit: int) -> None:
    _check_integers(name, what, values)
    # As unsigned integers, negative ones are large.
    unsigned = values.view(np.dtype(f"u{values.itemsize}").newbyteorder(values.dtype.byteorder))
    if len(values) and unsigned.max() >= limit:
        k = int((unsigned >= limit).argmax())
        _refuse(name, f"{what}[{k}] is {values[k]}; it must be from 0 to {limit - 1}")


def _check_integers(name: str, what: str, values: NDArray[Any]) -> None:
    if values.dtype.kind not in "iu" or values.ndim != 1:
        _refuse(name, f"{what} must be a list of integers; it is {values.dtype} {values.shape}")


def _refuse(name: str, reason: str) -> None:
    raise ArgumentError(name, f"is damaged: {reason}")
