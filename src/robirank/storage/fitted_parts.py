"""Declarations of what a fitted estimator consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class FittedArray:
    """What is expected of a fitted array.

    Attributes
    ----------
    shape : tuple of int or str
        A string names a length that is the same wherever the name occurs; "features" is
        ``n_features_in_``.
    dtype : str
        In safetensors' words.
    is_list : bool
        Whether the estimator keeps it as a list.
    index_of : str
        The name of a length, where the values are indices: they run from 0 to below it.
    """

    shape: tuple[int | str, ...]
    dtype: str = "F64"
    is_list: bool = False
    index_of: str = ""

    def check(self, name: str, array: NDArray[Any], lengths: dict[str, int]) -> None:
        """Raise a ValueError unless the array is as expected; learn lengths by their names."""
        wanted = [lengths.get(n, n) if isinstance(n, str) else n for n in self.shape]
        pairs = list(zip(wanted, array.shape, strict=False))
        if len(wanted) != array.ndim or any(w != n for w, n in pairs if isinstance(w, int)):
            raise ValueError(
                f"{name} must have shape {_spell(wanted)}; it has {_spell(array.shape)}"
            )
        lengths |= {w: n for w, n in pairs if isinstance(w, str)}
        size = lengths.get(self.index_of)
        if size is not None and ((array < 0) | (array >= size)).any():
            bad = array[(array < 0) | (array >= size)][0]
            raise ValueError(f"{name} must hold {self.index_of} 0 to {size - 1}; it holds {bad}")


@dataclass(frozen=True)
class FittedParts:
    """What a fitted estimator consists of, beside its parameters; classes declare it.

    Attributes
    ----------
    arrays : mapping from attribute to FittedArray
        Fitted arrays.
    numbers : mapping from attribute to type
        Fitted numbers (int, which counts something, or float) and short texts (str).
    labels : mapping from attribute to int
        Fitted arrays of labels (numbers or strings), and how many.
    required : tuple of str
        Attributes without which there is no model; the others are saved where they exist.
    unfitted : bool
        Whether an estimator without them can be saved too, as implicit's can.
    features : bool
        Whether it scores features: it then has ``n_features_in_``, and perhaps their names.
    ids : mapping from attribute to str
        Outside ids, or None, and the name of their number among the lengths of the arrays.
    ids_from : callable, optional
        ``ids_from(arrays, name)`` makes outside ids of arrays; they give them by ``to_tensors``.
    check : callable, optional
        Is given the fitted attributes by name; raises a ValueError if they do not fit together.
    """

    arrays: Mapping[str, FittedArray]
    numbers: Mapping[str, type] = field(default_factory=dict)
    labels: Mapping[str, int] = field(default_factory=dict)
    required: tuple[str, ...] = ("coef_",)
    unfitted: bool = False
    features: bool = True
    ids: Mapping[str, str] = field(default_factory=dict)
    ids_from: Callable[[Mapping[str, Any], str], Any] | None = None
    check: Callable[[Mapping[str, Any]], None] | None = None

    def plus(
        self,
        arrays: Mapping[str, FittedArray] | None = None,
        numbers: Mapping[str, type] | None = None,
    ) -> FittedParts:
        """The same and more, for a subclass."""
        return replace(
            self,
            arrays={**self.arrays, **(arrays or {})},
            numbers={**self.numbers, **(numbers or {})},
        )

    def validate(self, fitted: Mapping[str, Any]) -> None:
        """Raise a ValueError unless these attributes, by name, make a fitted estimator."""
        missing = [name for name in self.required if name not in fitted]
        if missing:
            raise ValueError(f"it has no {', '.join(missing)}")
        lengths = {"features": int(fitted["n_features_in_"])} if self.features else {}
        for name, expected in self.arrays.items():
            if name in fitted:
                expected.check(name, np.asarray(fitted[name]), lengths)
        for name, length in self.ids.items():
            ids = fitted.get(name)
            if ids is not None and len(ids) != lengths[length]:
                raise ValueError(
                    f"{name} must name {lengths[length]} {length}; it names {len(ids)}"
                )
        if self.check is not None:
            self.check(fitted)


def _spell(shape: Iterable[int | str]) -> str:
    return f"({', '.join(map(str, shape))})"
