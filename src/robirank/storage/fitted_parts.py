"""Declarations of the attributes of fitted estimators, for saving and loading."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank.storage.tensor_file import TENSOR_TYPES


@dataclass(frozen=True)
class FittedArray:
    """The type and shape of a fitted array.

    Attributes
    ----------
    shape : tuple of int or str
        Lengths; a string stands for a length that is the same wherever the string occurs, and
        "features" for ``n_features_in_``.
    dtype : str
        The safetensors name of the type, such as "F64".
    is_list : bool
        Whether the attribute of the estimator is a list.
    index_of : str
        The name of the length that the values are indices of; empty if they are no indices.
    """

    shape: tuple[int | str, ...]
    dtype: str = "F64"
    is_list: bool = False
    index_of: str = ""

    def check(self, name: str, array: NDArray[Any], lengths: dict[str, int]) -> None:
        """Raise a ValueError unless the array is as declared.

        ``lengths`` has the named lengths of the arrays that were checked before; those of this
        array are added.
        """
        dtype = TENSOR_TYPES.get(array.dtype.name)
        if dtype != self.dtype:
            raise ValueError(f"{name} must have type {self.dtype}; it has {dtype}")
        expected = [lengths.get(n, n) if isinstance(n, str) else n for n in self.shape]
        pairs = list(zip(expected, array.shape, strict=False))
        if len(expected) != array.ndim or any(e != n for e, n in pairs if isinstance(e, int)):
            raise ValueError(
                f"{name} must have shape {_spell(expected)}; it has {_spell(array.shape)}"
            )
        lengths |= {e: n for e, n in pairs if isinstance(e, str)}
        size = lengths.get(self.index_of)
        if size is not None and ((array < 0) | (array >= size)).any():
            bad = array[(array < 0) | (array >= size)][0]
            raise ValueError(f"{name} must hold {self.index_of} 0 to {size - 1}; it holds {bad}")


@dataclass(frozen=True)
class FittedObject:
    """A fitted object with an entry for each user or item; ``to_tensors(name)`` gives its arrays.

    Attributes
    ----------
    length : str
        The name of the length that is the number of its entries.
    from_tensors : callable
        ``from_tensors(arrays, name)`` makes it again.
    """

    length: str
    from_tensors: Callable[[Mapping[str, Any], str], Any]


@dataclass(frozen=True)
class FittedParts:
    """The fitted attributes of an estimator class; its parameters are saved in any case.

    Attributes
    ----------
    arrays : mapping from attribute to FittedArray
        Fitted arrays.
    numbers : mapping from attribute to type
        Fitted numbers (int, which must be ≥ 0, or float) and short texts (str).
    labels : mapping from attribute to int
        Fitted arrays of labels (numbers or strings), and their lengths.
    required : tuple of str
        Attributes that a fitted estimator must have; the others are optional.
    unfitted : bool
        Whether an unfitted estimator can be saved too, as in the implicit package.
    features : bool
        Whether the estimator takes features: it has ``n_features_in_``, and optionally names.
    objects : mapping from attribute to FittedObject
        Objects (or None) that consist of arrays, such as outside ids.
    check : callable, optional
        Called with the fitted attributes by name; raises a ValueError if they are inconsistent.
    """

    arrays: Mapping[str, FittedArray]
    numbers: Mapping[str, type] = field(default_factory=dict)
    labels: Mapping[str, int] = field(default_factory=dict)
    required: tuple[str, ...] = ("coef_",)
    unfitted: bool = False
    features: bool = True
    objects: Mapping[str, FittedObject] = field(default_factory=dict)
    check: Callable[[Mapping[str, Any]], None] | None = None

    def plus(
        self,
        arrays: Mapping[str, FittedArray] | None = None,
        numbers: Mapping[str, type] | None = None,
    ) -> FittedParts:
        """A copy with further arrays and numbers, for a subclass."""
        return replace(
            self,
            arrays={**self.arrays, **(arrays or {})},
            numbers={**self.numbers, **(numbers or {})},
        )

    def validate(self, fitted: Mapping[str, Any]) -> None:
        """Raise a ValueError unless attributes, by name, are those of a fitted estimator."""
        missing = [name for name in self.required if name not in fitted]
        if missing:
            raise ValueError(f"it has no {', '.join(missing)}")
        lengths = {"features": int(fitted["n_features_in_"])} if self.features else {}
        for name, expected in self.arrays.items():
            if name in fitted:
                expected.check(name, np.asarray(fitted[name]), lengths)
        for name, kind in self.numbers.items():
            value = fitted.get(name, kind())
            if type(value) is not kind or (isinstance(value, int) and value < 0):
                raise ValueError(f"{name} must be a finite {kind.__name__}; it is {value!r:.80}")
        for name, count in self.labels.items():
            labels = fitted[name]
            if len(labels) != count or not np.array_equal(np.unique(labels), labels):
                raise ValueError(f"{name} must hold {count} labels that differ, in rising order")
        for name, declared in self.objects.items():
            entries, length = fitted.get(name), declared.length
            if entries is not None and len(entries) != lengths[length]:
                raise ValueError(
                    f"{name} must have {lengths[length]} {length}; it has {len(entries)}"
                )
        if self.check is not None:
            self.check(fitted)


def _spell(shape: Iterable[int | str]) -> str:
    return f"({', '.join(map(str, shape))})"
