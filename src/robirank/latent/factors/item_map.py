"""Items as points of the plane: those that factors say are alike lie near to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from robirank._types import Floats32, Floats64, Ints32
from robirank.errors import ArgumentError
from robirank.storage.tensor_file import (
    ArraySpec,
    PathOrFile,
    check_arrays,
    open_model,
    write_model,
)

MapKind = Literal["directions", "neighbours"]

_CLASS = "ItemMap"
_BLOCK = 2048  # rows that are compared with the placed ones at a time
_NEAREST = 5  # placed items between which another one is put
_PERPLEXITY = 30.0


@dataclass(frozen=True, eq=False)
class ItemMap:
    """A point for each item.

    Attributes
    ----------
    points : float32 array of shape (items, 2)
    kind : {"directions", "neighbours"}
        Two directions of the factors, or a map that keeps neighbours together (t-SNE).
    share : float or None
        Of directions: the part of the spread of the items that lies in them.
    model : str or None
        The checksum of the model.
    """

    points: Floats32
    kind: MapKind
    share: float | None = None
    model: str | None = None

    def save(self, path: PathOrFile) -> None:
        """Save the map to one file, which appears whole or not at all."""
        header = {"class": _CLASS, "kind": self.kind, "share": self.share, "model": self.model}
        write_model(path, header, {"points": self.points})

    @classmethod
    def load(cls, path: PathOrFile) -> ItemMap:
        """Load a map; a `ModelFileError` says what is wrong with a file."""
        with open_model(path) as file:
            header = file.header
            if header.get("class") != _CLASS:
                raise ValueError(
                    f"it holds a {header.get('class')}; a map is made by robirank latent map"
                )
            if header.get("kind") not in ("directions", "neighbours"):
                raise ValueError(f"it has a map of kind {header.get('kind')!r}")
            points = file.tensors.get("points", ArraySpec("", ()))
            check_arrays(file.tensors, {"points": ArraySpec("F32", (*points.shape[:1], 2))})
            return cls(file.read("points"), header["kind"], header["share"], header["model"])


def map_of_directions(rows: Any) -> ItemMap:
    """The two directions in which normalised rows differ most.

    With W the rows divided by their lengths, less their mean, these are the first two eigenvectors
    e₁, e₂ of WᵀW, and the points are W e₁ and W e₂. The sign of a direction is such that its
    largest entry is positive.

    Examples
    --------
    >>> rows = np.array([[2, 0, 0], [0, 1, 0], [-1, 0, 0]], np.float32)
    >>> found = map_of_directions(rows)
    >>> found.points[:, 0].round(2).tolist(), round(found.share, 3)
    ([1.0, 0.0, -1.0], 1.0)
    """
    unit = unit_rows(rows)
    unit -= unit.mean(axis=0, dtype=np.float64).astype(np.float32)
    spread: Floats64 = (unit.T @ unit).astype(np.float64)
    values, vectors = np.linalg.eigh(spread)
    directions = vectors[:, ::-1][:, :2]
    largest = np.abs(directions).argmax(axis=0)
    directions = directions * np.sign(directions[largest, np.arange(directions.shape[1])])
    points = np.zeros((len(unit), 2), np.float32)
    points[:, : directions.shape[1]] = unit @ directions.astype(np.float32)
    total = float(values.sum())
    return ItemMap(points, "directions", float(values[::-1][:2].sum()) / total if total else 0.0)


def map_of_neighbours(
    rows: Any,
    counts: Ints32 | None = None,
    *,
    most: int = 20_000,
) -> ItemMap:
    """A map that keeps items together whose factors point the same way (t-SNE).

    The ``most`` items that were taken most often are placed by t-SNE (van der Maaten & Hinton
    2008, in the approximation of scikit-learn), which begins with `map_of_directions`. Each of the
    others is put at the mean of its 5 nearest placed items. Nothing is random.
    """
    if most < 2:
        raise ArgumentError("most", f"must be at least 2; got {most}")
    from sklearn.manifold import TSNE

    unit = unit_rows(rows)
    start = map_of_directions(unit).points
    order = np.arange(len(unit)) if counts is None else np.argsort(-counts, kind="stable")
    placed = np.sort(order[:most])
    points = start.copy()
    if len(placed) < 4:
        return ItemMap(points, "neighbours")
    begin = start[placed] - start[placed].mean(axis=0)
    begin *= 1e-4 / max(float(begin[:, 0].std()), 1e-12)
    tsne = TSNE(
        init=begin,
        learning_rate="auto",
        perplexity=min(_PERPLEXITY, (len(placed) - 1) / 3),
    )
    # scikit-learn adds up what its threads found, so that more of them change the last bits.
    with threadpool_limits(limits=1):
        points[placed] = tsne.fit_transform(unit[placed])
        others = np.setdiff1d(np.arange(len(unit)), placed)
        for begin_at in range(0, len(others), _BLOCK):
            block = others[begin_at : begin_at + _BLOCK]
            points[block] = _between(unit[block], unit[placed], points[placed])
    return ItemMap(points, "neighbours")


def unit_rows(rows: Any) -> Floats32:
    """Rows divided by their lengths; rows of zeros stay as they are."""
    rows = np.array(rows, np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def _between(unit: Floats32, placed: Floats32, points: Floats32) -> Floats32:
    """The mean point of the placed rows that are most like each row."""
    likeness = unit @ placed.T
    nearest = np.argpartition(-likeness, min(_NEAREST, len(placed)) - 1, axis=1)[:, :_NEAREST]
    return points[nearest].mean(axis=1)
