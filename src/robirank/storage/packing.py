"""Conversion of estimators to the header and arrays of a model file, and back."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from robirank._callers import warn
from robirank._checks import all_finite
from robirank._types import Floats64
from robirank.errors import ArgumentError
from robirank.storage.fitted_parts import FittedParts
from robirank.storage.tensor_file import NUMPY_TYPES, ModelFile

_NOT_SAVED = ("device",)  # parameters that depend on the machine

_Ints = Literal["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
_LabelType = Literal["str", "object", "bool", _Ints, "float16", "float32", "float64"]


class Labels(msgspec.Struct):
    """An array of labels in the header: its values, and NumPy's name of their type."""

    dtype: _LabelType
    values: list[bool | int | float | str | None]


class ModelHeader(msgspec.Struct, kw_only=True):
    """The header of a model file; parameters that are arrays are stored as arrays."""

    class_name: str = msgspec.field(name="class")
    params: dict[str, Any]
    unsaved: dict[str, str]  # names and types of parameters that cannot be saved
    extra: dict[str, Any]  # what the user added
    fitted: bool = True
    numbers: dict[str, int | float | str] = {}
    labels: dict[str, Labels] = {}
    n_features_in_: Annotated[int, msgspec.Meta(ge=1)] | None = None
    feature_names: list[str] | None = None
    feature_names_in_fit: bool = False  # or they were given later


def pack(
    model: Any, feature_names: Sequence[str] | None, extra: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header and the arrays of a model file for an estimator.

    Attributes that could not be loaded again are an error.
    """
    from sklearn.utils.validation import check_is_fitted

    name, parts = type(model).__name__, model.fitted_parts
    params, unsaved, arrays = _pack_params(model)
    header = {"class": name, "params": params, "unsaved": unsaved, "extra": _pack_extra(extra)}
    if parts.unfitted and not any(hasattr(model, part) for part in parts.required):
        return header | {"fitted": False}, arrays
    check_is_fitted(model, list(parts.required))
    header["numbers"] = _numbers(model, parts)
    header["labels"] = {n: _pack_labels(n, getattr(model, n)) for n in parts.labels}
    if parts.features:
        header |= _pack_features(model, feature_names)
    elif feature_names is not None:
        raise ArgumentError("feature_names", f"must be left out: a {name} knows no features")
    return header, arrays | _pack_fitted(model, parts)


# Parameters: JSON values and arrays are saved; others get their default when the file is loaded.
# When a file is read, whatever an estimator of its class does not have is a ValueError.


def _pack_params(model: Any) -> tuple[dict[str, Any], dict[str, str], dict[str, NDArray[Any]]]:
    """Parameters for the header, types of parameters that cannot be saved, and array parameters."""
    params: dict[str, Any] = {}
    unsaved: dict[str, str] = {}
    arrays: dict[str, NDArray[Any]] = {}
    for name, value in model.get_params(deep=False).items():
        if name in _NOT_SAVED:
            continue
        value = value.item() if isinstance(value, np.generic) else value
        value = list(value) if isinstance(value, tuple) else value
        array = _as_array(value)
        if _is_plain_or_list(value):
            params[name] = value
        elif array is not None:
            arrays[f"params.{name}"] = array
        else:
            params[name] = None
            unsaved[name] = type(value).__name__
    return params, unsaved, arrays


def _is_plain(value: Any) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (bool, int, str)


def _is_plain_or_list(value: Any) -> bool:
    return _is_plain(value) or (isinstance(value, list) and all(map(_is_plain, value)))


def _as_array(value: Any) -> Floats64 | None:
    """The value as an array of finite numbers; None if it is not one."""
    if not isinstance(value, list | np.ndarray) and not hasattr(value, "__array__"):
        return None
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return array if np.isfinite(array).all() and array.ndim else None


def unpack_params(file: ModelFile, header: ModelHeader, cls: Any) -> dict[str, Any]:
    """The parameters of the estimator; a warning names those that were not saved."""
    params = header.params
    arrays = [n.removeprefix("params.") for n in file.tensors if n.startswith("params.")]
    arguments = inspect.signature(cls).parameters
    for name in [*params, *header.unsaved, *arrays]:
        if name not in arguments:
            raise ValueError(
                f"it has a parameter {name!r:.80}; {cls.__name__} has {', '.join(arguments)}"
            )
    for name, value in params.items():
        if not _is_plain_or_list(value):
            raise ValueError(
                f"parameter {name} must be a number, a string or a list of such; "
                f"it is {value!r:.80}"
            )
    for name in arrays:
        if file.tensors[f"params.{name}"].dtype != "F64":
            raise ValueError(f"parameter {name} must be an array of type F64")
        params[name] = file.read(f"params.{name}")
    for name, kind in header.unsaved.items():
        params.pop(name, None)
        warn(
            f"parameter {name} was a {kind!s:.80}, which a model file cannot hold; the loaded "
            f"{cls.__name__} has the default, {name}={arguments[name].default!r}. What it predicts "
            f"is not touched; set {name} again before you fit it again",
        )
    return params


# Fitted attributes.


def _pack_fitted(model: Any, parts: FittedParts) -> dict[str, NDArray[Any]]:
    """Check all fitted attributes, and return those that are arrays."""
    arrays: dict[str, NDArray[Any]] = {
        name: np.asarray(getattr(model, name), NUMPY_TYPES[expected.dtype])
        for name, expected in parts.arrays.items()
        if hasattr(model, name)
    }
    objects = {name: getattr(model, name, None) for name in parts.objects}
    parts.validate(vars(model) | _numbers(model, parts) | arrays | objects)
    for name, array in arrays.items():
        if not all_finite(array):
            raise ValueError(f"{name} holds NaN or infinity; such a model cannot be saved")
    for name, entries in objects.items():
        arrays |= {} if entries is None else entries.to_tensors(name)
    return arrays


def _numbers(model: Any, parts: FittedParts) -> dict[str, Any]:
    kinds = {name: kind for name, kind in parts.numbers.items() if hasattr(model, name)}
    return {name: kind(getattr(model, name)) for name, kind in kinds.items()}


def unpack_fitted(file: ModelFile, header: ModelHeader, parts: FittedParts) -> dict[str, Any]:
    """The fitted attributes by name; an empty dict for an estimator that was not fitted."""
    fitted: dict[str, Any] = {
        name: file.read(name) for name in file.tensors if not name.startswith("params.")
    }
    if not header.fitted and parts.unfitted:
        if fitted:
            raise ValueError(
                f"its header says that it is not fitted, and it has an array {min(fitted)!r:.80}"
            )
        return {}
    features = _unpack_features(header) if parts.features else {}
    for name, declared in parts.objects.items():
        tensors = {part: fitted.pop(part) for part in [*fitted] if part.startswith(f"{name}.")}
        if tensors:
            fitted[name] = declared.from_tensors(tensors, name)
    fitted |= header.numbers
    fitted |= {name: _unpack_labels(name, labels) for name, labels in header.labels.items()}
    for name in fitted:
        if name not in {*parts.arrays, *parts.objects, *parts.numbers, *parts.labels}:
            raise ValueError(f"it has {name!r:.80}, which is no part of that class")
    fitted |= features
    parts.validate(fitted)
    lists = {name for name, expected in parts.arrays.items() if expected.is_list}
    return {name: v.tolist() if name in lists else v for name, v in fitted.items()}


def _pack_labels(name: str, labels: NDArray[Any]) -> dict[str, Any]:
    values = labels.tolist()
    if not all(map(_is_plain, values)):
        raise ValueError(f"{name} must be numbers or strings to be saved; it is {values!r}")
    return {"dtype": "str" if labels.dtype.kind == "U" else labels.dtype.name, "values": values}


def _unpack_labels(name: str, labels: Labels) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.array(labels.values, dtype=labels.dtype)
        np.sort(array)  # raises a TypeError if labels of different types cannot be compared
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} does not fit its type ({error})") from None
    return array


# Names of features, and values that users add.


def _pack_features(model: Any, names: Sequence[str] | None) -> dict[str, Any]:
    fit_names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = getattr(model, "feature_names_", None) if fit_names is None else fit_names
    else:
        _check_names(names, model.n_features_in_, fit_names)
    return {
        "n_features_in_": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "feature_names_in_fit": fit_names is not None,
    }


def _check_names(names: Sequence[str], width: int, fit_names: Any) -> None:
    strings = {name for name in names if isinstance(name, str)}
    if isinstance(names, str) or not len(names) == len(strings) == width:
        raise ArgumentError(
            "feature_names", f"must be {width} strings that differ, one a feature; got {names!r}"
        )
    if fit_names is not None and list(fit_names) != list(names):
        raise ArgumentError(
            "feature_names",
            "differ from the names that the model was fitted with "
            f"({', '.join(map(str, fit_names[:3]))}, …); leave feature_names out",
        )


def _unpack_features(header: ModelHeader) -> dict[str, Any]:
    width, names = header.n_features_in_, header.feature_names
    if width is None:
        raise ValueError("its header must say n_features_in_")
    if names is None:
        return {"n_features_in_": width}
    if len(names) != width:
        raise ValueError(f"feature_names must be {width} strings; there are {len(names)}")
    attribute = "feature_names_in_" if header.feature_names_in_fit else "feature_names_"
    return {"n_features_in_": width, attribute: np.array(names, dtype=object)}


def _pack_extra(extra: Mapping[str, Any] | None) -> dict[str, Any]:
    try:
        packed: dict[str, Any] = json.loads(json.dumps(dict(extra or {}), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ArgumentError("extra", f"must hold only what JSON can hold; {error}") from None
    return packed
