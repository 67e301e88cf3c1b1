"""How the parts of an estimator go into a model file and back."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._callers import warn
from robirank._types import Floats64
from robirank.storage.fitted_parts import FittedParts
from robirank.storage.tensor_file import ModelFile, all_finite

# Parameters: JSON values and arrays are saved, anything else is noted and becomes the default.


_WHERE = ("device",)  # parameters that say where to compute: a file knows no device


def pack_params(model: Any) -> tuple[dict[str, Any], dict[str, str], dict[str, NDArray[Any]]]:
    """Return parameters for the header, those that cannot be saved, and those that are arrays."""
    params: dict[str, Any] = {}
    unsaved: dict[str, str] = {}
    arrays: dict[str, NDArray[Any]] = {}
    for name, value in model.get_params(deep=False).items():
        if name in _WHERE:
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
    """Return an array of finite numbers if the value is one, or a list that makes one."""
    if not isinstance(value, list | np.ndarray) and not hasattr(value, "__array__"):
        return None
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return array if np.isfinite(array).all() and array.ndim else None


def unpack_params(file: ModelFile, cls: Any) -> dict[str, Any]:
    """Return the arguments to make the estimator with; warn of those that were not saved."""
    params, unsaved = section(file, "params"), section(file, "unsaved")
    arrays = [n.removeprefix("params.") for n in file.tensors if n.startswith("params.")]
    known = inspect.signature(cls).parameters
    for name in [*params, *unsaved, *arrays]:
        if name not in known:
            file.refuse(f"it has a parameter {name!r:.80}; {cls.__name__} has {', '.join(known)}")
    for name, value in params.items():
        if not _is_plain_or_list(value):
            file.refuse(
                f"parameter {name} must be a finite number, a string or a list of such; "
                f"it is {value!r:.80}"
            )
    for name in arrays:
        if file.tensors[f"params.{name}"][0] != "F64":
            file.refuse(f"parameter {name} must be an array of type F64")
        params[name] = file.read(f"params.{name}")
    for name, kind in unsaved.items():
        params.pop(name, None)
        warn(
            f"parameter {name} was a {kind!s:.80}, which a model file cannot hold; the loaded "
            f"{cls.__name__} has the default, {name}={known[name].default!r}. What it predicts is "
            f"not touched; set {name} again before you fit it again",
            UserWarning,
        )
    return params


# What was learned.


def pack_fitted(model: Any, parts: FittedParts) -> dict[str, NDArray[Any]]:
    """Return the fitted arrays of a model, checked so that the file can be loaded again."""
    arrays: dict[str, NDArray[Any]] = {
        name: np.asarray(getattr(model, name), _ARRAY_TYPES[expected.dtype])
        for name, expected in parts.arrays.items()
        if hasattr(model, name)
    }
    parts.validate(vars(model) | arrays)
    for name, array in arrays.items():
        if not all_finite(array):
            raise ValueError(f"{name} holds NaN or infinity; such a model cannot be saved")
    for name in parts.ids:
        ids = getattr(model, name, None)
        arrays |= {} if ids is None else ids.to_tensors(name)
    return arrays


_ARRAY_TYPES: dict[str, type] = {"I32": np.int32, "F64": np.float64, "F32": np.float32}


def unpack_fitted(file: ModelFile, parts: FittedParts) -> dict[str, Any]:
    """Return the fitted attributes, each checked against what the class declares."""
    fitted = _unpack_features(file) if parts.features else {}
    fitted |= _unpack_arrays(file, parts)
    fitted |= _unpack_ids(file, parts)
    fitted |= _unpack_numbers(file, parts)
    fitted |= _unpack_labels(file, parts)
    try:
        parts.validate(fitted)
    except ValueError as error:
        file.refuse(str(error))
    lists = {name for name, expected in parts.arrays.items() if expected.is_list}
    return {name: v.tolist() if name in lists else v for name, v in fitted.items()}


def _unpack_features(file: ModelFile) -> dict[str, Any]:
    width = file.header.get("n_features_in_")
    if type(width) is not int or width < 1:
        file.refuse(f"n_features_in_ must be a positive integer; it is {width!r}")
    return {"n_features_in_": width} | _unpack_names(file, width)


def _unpack_arrays(file: ModelFile, parts: FittedParts) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (dtype, _) in file.tensors.items():
        if name.startswith("params.") or name.split(".")[0] in parts.ids:
            continue
        if name not in parts.arrays:
            file.refuse(f"it has an array {name!r:.80}, which is no part of that class")
        if dtype != parts.arrays[name].dtype:
            file.refuse(f"{name} must have type {parts.arrays[name].dtype}; it has {dtype}")
        found[name] = file.read(name)
    return found


def _unpack_ids(file: ModelFile, parts: FittedParts) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in parts.ids:
        tensors = {part: file.read(part) for part in file.tensors if part.startswith(f"{name}.")}
        if tensors:
            assert parts.ids_from is not None
            try:
                found[name] = parts.ids_from(tensors, name)
            except (ValueError, TypeError) as error:
                file.refuse(str(error))
    return found


def _unpack_numbers(file: ModelFile, parts: FittedParts) -> dict[str, Any]:
    numbers = section(file, "numbers")
    for name, value in numbers.items():
        kind: Any = parts.numbers.get(name)
        if kind is None:
            file.refuse(f"it has a number {name!r:.80}, which is no part of that class")
        if type(value) is not kind or not _is_plain(value) or (kind is int and value < 0):
            file.refuse(f"{name} must be a finite {kind.__name__}; it is {value!r:.80}")
    return numbers


def pack_labels(name: str, labels: NDArray[Any]) -> dict[str, Any]:
    """Make an array of labels ready for the header."""
    kind = "str" if labels.dtype.kind == "U" else labels.dtype.name
    values = labels.tolist()
    if not all(map(_is_plain, values)):
        raise ValueError(f"{name} must be numbers or strings to be saved; it is {values!r}")
    return {"dtype": kind, "values": values}


def _unpack_labels(file: ModelFile, parts: FittedParts) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {}
    for name, entry in section(file, "labels").items():
        if name not in parts.labels or not isinstance(entry, dict):
            file.refuse(f"it has labels {name!r:.80}, which are no part of that class")
        kind, values, count = entry.get("dtype"), entry.get("values"), parts.labels[name]
        if not isinstance(kind, str) or kind not in _LABEL_TYPES:
            file.refuse(f"{name} has the unknown type {kind!r:.80}")
        if not _is_plain_or_list(values) or not isinstance(values, list) or len(values) != count:
            file.refuse(f"{name} must hold {count} numbers or strings")
        found[name] = _labels(file, name, values, _LABEL_TYPES[kind])
    return found


def _labels(file: ModelFile, name: str, values: list[Any], kind: type) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.array(values, dtype=kind)
        rising = np.array_equal(np.unique(array), array)
    except (TypeError, ValueError, OverflowError) as error:
        file.refuse(f"{name} does not fit its type ({error})")
    if not rising:
        file.refuse(f"{name} must hold labels that differ, in rising order")
    return array


_LABEL_TYPES: dict[str, type] = {"str": str, "object": object, "bool": bool} | {
    t.__name__: t
    for t in (
        *(np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
        *(np.float16, np.float32, np.float64),
    )
}


# Names, and what users add.


def pack_features(model: Any, names: Sequence[str] | None) -> dict[str, Any]:
    """Return the number of features and their names, for the header."""
    to_save, in_fit = _names_to_save(model, names)
    return {
        "n_features_in_": int(model.n_features_in_),
        "feature_names": to_save,
        "feature_names_in_fit": in_fit,
    }


def _names_to_save(model: Any, given: Sequence[str] | None) -> tuple[list[str] | None, bool]:
    """Return the names to save, and whether they are those of the fit."""
    seen = getattr(model, "feature_names_in_", None)
    if given is None:
        given = getattr(model, "feature_names_", None) if seen is None else seen
        return (None if given is None else [str(n) for n in given]), seen is not None
    names = [given] if isinstance(given, str) else list(given)
    if len(names) != model.n_features_in_:
        raise ValueError(
            f"feature_names must name each of the {model.n_features_in_} features; "
            f"got {len(names)} names"
        )
    if not all(isinstance(n, str) for n in names) or len(set(names)) < len(names):
        raise ValueError(f"feature_names must be strings that differ; got {names!r}")
    if seen is not None and list(seen) != names:
        raise ValueError(
            "feature_names differ from the names that the model was fitted with "
            f"({', '.join(map(str, seen[:3]))}, …); leave feature_names out"
        )
    return names, seen is not None


def _unpack_names(file: ModelFile, width: int) -> dict[str, Any]:
    names = file.header.get("feature_names")
    if names is None:
        return {}
    strings = isinstance(names, list) and all(isinstance(n, str) for n in names)
    if not strings or len(names) != width:
        file.refuse(f"feature_names must be {width} strings")
    attribute = "feature_names_in_" if file.header.get("feature_names_in_fit") else "feature_names_"
    return {attribute: np.array(names, dtype=object)}


def pack_extra(extra: Mapping[str, Any] | None) -> dict[str, Any]:
    """Check that JSON can hold what a user adds."""
    try:
        packed: dict[str, Any] = json.loads(json.dumps(dict(extra or {}), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(f"extra must hold only what JSON can hold; {error}") from None
    return packed


def section(file: ModelFile, name: str) -> dict[str, Any]:
    """Return a part of the header that must be a JSON object."""
    value = file.header.get(name)
    if not isinstance(value, dict):
        file.refuse(f"its header must have an object {name!r}; it has {value!r:.80}")
    return value
