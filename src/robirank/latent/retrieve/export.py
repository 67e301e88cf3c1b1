"""Factors for libraries that search approximately, where exact search is too slow."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np

from robirank.latent.retrieve.recommend import FactorModel

Library = Literal["usearch", "faiss"]


def export_index(
    model: FactorModel,
    path: str | os.PathLike[str],
    *,
    library: Library = "usearch",
    what: Literal["items", "users"] = "items",
) -> Any:
    """Write an index for approximate search by inner product.

    Searched with a user's factors, an index of items finds nearly the same as `recommend` without
    filters, in a time that hardly grows with the number of items. Keys are the ids of the model.

    Parameters
    ----------
    model : LatentRoBiRank or WARP
        Fitted.
    path : str or path-like
        Where to.
    library : {"usearch", "faiss"}, default="usearch"
        Whose format; both build a graph of neighbours (HNSW).
    what : {"items", "users"}, default="items"
        Whose factors.

    Returns
    -------
    usearch.index.Index or faiss.Index
        The index that was written.

    Notes
    -----
    A distance is 1 − score in usearch; faiss gives the score itself. A file is read again by
    ``usearch.index.Index.restore(path)`` or ``faiss.read_index(path)``.
    """
    if what not in ("items", "users"):
        raise ValueError(f"what must be 'items' or 'users'; got {what!r}")
    if library not in _BUILDERS:
        raise ValueError(f"library must be one of {', '.join(_BUILDERS)}; got {library!r}")
    model._check_fitted()
    vectors = np.ascontiguousarray(getattr(model, f"{what[:-1]}_factors"), dtype=np.float32)
    return _BUILDERS[library](vectors, Path(path))


def _usearch(vectors: Any, path: Path) -> Any:
    index = _import("usearch.index").Index(ndim=vectors.shape[1], metric="ip", dtype="f32")
    index.add(np.arange(len(vectors), dtype=np.uint64), vectors)
    index.save(os.fspath(path))
    return index


def _faiss(vectors: Any, path: Path) -> Any:
    faiss = _import("faiss")
    index = faiss.IndexHNSWFlat(vectors.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.add(vectors)
    faiss.write_index(index, os.fspath(path))
    return index


_BUILDERS = {"usearch": _usearch, "faiss": _faiss}


def _import(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        library = module.split(".")[0]
        raise ImportError(
            f"export_index(library={library!r}) needs {library}, which is not installed: "
            "pip install 'robirank[ann]'"
        ) from error
