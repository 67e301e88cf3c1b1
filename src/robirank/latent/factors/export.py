"""Factors for libraries that search approximately, where exact search is too slow."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from robirank._callers import warn
from robirank.data.ids import Ids
from robirank.errors import Argument, ArgumentError
from robirank.latent.factors.factor_model import FactorModel
from robirank.latent.factors.frame import id_series
from robirank.storage.files import write_whole

Library = Literal["usearch", "faiss"]

_WIDTH = 128  # candidates that faiss keeps while it searches; its own 16 find .95 on Gowalla


def export_index(
    model: FactorModel,
    path: str | os.PathLike[str],
    *,
    library: Library | None = None,
    what: Literal["items", "users"] = "items",
    ids: str | os.PathLike[str] | None = None,
) -> Any:
    """Write an index for approximate search by inner product.

    Searched with a user's factors, an index of items finds nearly the same as `recommend` without
    filters, in a time that hardly grows with the number of items. It knows no filters: to leave
    out n items that a user has, ask for n more and drop them. Keys are positions of the model;
    ``ids`` says what they are called outside. Content scores, which a model with features of items
    may have, are left out, with a warning.

    Parameters
    ----------
    model : LatentRoBiRank or WARP
        Fitted.
    path : str or path-like
        Where to. The file appears whole or not at all.
    library : {"usearch", "faiss"}, optional
        Whose format; both build a graph of neighbours (HNSW). Default: by the ending of the path,
        ``.usearch`` or ``.faiss``.
    what : {"items", "users"}, default="items"
        Whose factors.
    ids : str or path-like, optional
        Write what the keys are called outside to this file too, a table of the columns key and id
        in the order of the keys: ``.parquet`` or ``.csv``.

    Returns
    -------
    usearch.index.Index or faiss.Index
        The index that was written.

    Notes
    -----
    A distance is 1 − score in usearch; faiss gives the score itself. A file is read again by
    ``usearch.index.Index.restore(path)`` or ``faiss.read_index(path)``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from robirank import LatentRoBiRank, make_interactions
    >>> data = make_interactions(40, 20, 200, random_state=0)
    >>> model = LatentRoBiRank(4, random_state=0).fit(data, show_progress=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     index = export_index(model, Path(folder, "items.usearch"))
    >>> len(index)
    20
    """
    if what not in ("items", "users"):
        raise ArgumentError("what", f"must be 'items' or 'users'; got {what!r}")
    build = _BUILDERS[_library(library, Path(path).suffix)]
    model._check_fitted()
    side = getattr(model.factors_, what)
    if what == "items" and model.factors_.users.content is not None:
        warn(
            "the index has factors alone, and the model adds content scores to inner products, so "
            "that recommend ranks otherwise. Fit with content=(0, 0, 1) for a model without",
        )
    if ids is not None:
        _write_ids(Ids.range(len(side)) if side.ids is None else side.ids, Path(ids))
    vectors = np.ascontiguousarray(side.rows, dtype=np.float32)
    with write_whole(path) as file:
        return build(vectors, file.name)


def _write_ids(outside_ids: Ids, path: Path) -> None:
    """Write keys and outside ids as a table."""
    if path.suffix not in (".parquet", ".csv"):
        raise ArgumentError(
            "ids", f"must be the path of a .parquet or .csv file; got {str(path)!r}"
        )
    if outside_ids.kind == "object":
        raise ArgumentError(
            Argument("ids", str(path)),
            "needs ids that are integers or text, which a table can hold; the first is "
            f"{outside_ids[0]!r:.80}",
        )
    keys = np.arange(len(outside_ids))
    frame = pl.DataFrame([pl.Series("key", keys), id_series("id", outside_ids, keys)])
    with write_whole(path) as file:
        if path.suffix == ".csv":
            frame.write_csv(file)
        else:
            frame.write_parquet(file)


def _library(library: str | None, suffix: str) -> str:
    """The library whose format is meant: the one asked for, or that of the file's ending."""
    endings = ", ".join(f"'.{name}'" for name in _BUILDERS)
    if library is not None and library not in _BUILDERS:
        raise ArgumentError("library", f"must be one of {', '.join(_BUILDERS)}; got {library!r}")
    by_suffix = suffix.removeprefix(".")
    if library is None and by_suffix not in _BUILDERS:
        raise ArgumentError(
            "path",
            f"must end in one of {endings}, or ",
            Argument("library"),
            f" must say whose format; got {suffix!r}",
        )
    if library is not None and by_suffix in _BUILDERS and by_suffix != library:
        raise ArgumentError(
            Argument("library", library), f"does not go with a path that ends in {suffix!r}"
        )
    return library or by_suffix


def _usearch(vectors: Any, path: str) -> Any:
    index = _import("usearch.index").Index(ndim=vectors.shape[1], metric="ip", dtype="f32")
    index.add(np.arange(len(vectors), dtype=np.uint64), vectors)
    index.save(path)
    return index


def _faiss(vectors: Any, path: str) -> Any:
    faiss = _import("faiss")
    index = faiss.IndexHNSWFlat(vectors.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = index.hnsw.efSearch = _WIDTH
    index.add(vectors)
    faiss.write_index(index, path)
    return index


_BUILDERS: dict[str, Callable[[Any, str], Any]] = {"usearch": _usearch, "faiss": _faiss}


def _import(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        library = module.split(".")[0]
        raise ImportError(
            f"export_index(library={library!r}) needs {library}, which is not installed: "
            "pip install 'robirank[ann]'"
        ) from error
