"""Saving and loading fitted estimators, in one file, without pickle.

A model file is a `safetensors <https://github.com/huggingface/safetensors>`_ file: the arrays as
they are, and a JSON object with the name of the estimator they belong to. Loading a file of
unknown origin runs no code of it: the class is looked up by its name in `robirank.registry`, arrays
and parameters are checked against what that class declares, and anything else is a
`ModelFileError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

import msgspec

from robirank import registry
from robirank.storage.folder import Folder
from robirank.storage.manifest import MANIFEST, decode_manifest
from robirank.storage.packing import ModelHeader, pack, unpack_fitted, unpack_params
from robirank.storage.tensor_file import (
    ModelFileError,
    PathOrFile,
    is_open,
    loading,
    open_model,
    write_model,
)


def save_model(
    model: Any,
    path: PathOrFile,
    *,
    feature_names: Sequence[str] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Save a fitted estimator to one file.

    The file appears whole or not at all: a failure on the way leaves an older file of that name
    as it was. The same model gives the same bytes.

    Parameters
    ----------
    model : any estimator of this package
        Fitted; a latent model need not be, as in implicit. Parameters that are functions or other
        objects (a ``gain`` of your own, an estimator as ``init``) cannot be saved; the loaded
        model has their default, and a warning says so. What was learned is always saved whole.
    path : str, path-like or open binary file
        Where to; ``.safetensors`` is the usual ending.
    feature_names : sequence of str, optional
        Names for the features of a model that was fitted without; the loaded model has them as
        ``feature_names_``, and `export_linear` uses them.
    extra : mapping, optional
        Anything else to remember that JSON can hold; `load_extra` gives it back.

    Examples
    --------
    >>> import tempfile
    >>> from robirank import RoBiRank, load_model, make_ranking, save_model
    >>> data = make_ranking(n_queries=10, n_features=3, random_state=0)
    >>> model = RoBiRank().fit(data.X, data.y, qid=data.qid)
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> save_model(model, path)
    >>> bool((load_model(path).coef_ == model.coef_).all())
    True
    """
    _check_registered(model)
    write_model(path, *pack(model, feature_names, extra))


def load_model(path: PathOrFile, *, mapped: bool = False) -> Any:
    """Load an estimator that `save_model` saved.

    Parameters
    ----------
    path : str, path-like or open binary file
        A file, or the folder of a model that was trained on a cluster.
    mapped : bool, default=False
        Map the arrays of a file, read-only, in place of reading them: processes that load the same
        file share its memory. The file must not be written to while a model is in use; one that is
        replaced, as `save_model` does, stays as it was.

    Returns
    -------
    The estimator
        Fitted, and equal to the saved one in what it predicts, to the last bit.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ModelFileError
        If the file is damaged, was written by a newer robirank, or is not a model at all. It is a
        ValueError.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from robirank import RoBiRank, make_ranking
    >>> model = RoBiRank().fit(make_ranking(20, n_docs=5, n_features=3, random_state=0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, Path(folder, "model.safetensors"))
    ...     again = load_model(Path(folder, "model.safetensors"))
    >>> bool((again.coef_ == model.coef_).all())
    True
    """
    return _load(path, mapped=mapped)


def load_extra(path: PathOrFile) -> dict[str, Any]:
    """Load what was given to `save_model` as ``extra``; an empty dict if nothing was.

    Examples
    --------
    >>> import tempfile
    >>> from robirank import RoBiRank, save_model
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> model = RoBiRank().fit([[0.0], [1.0]], [0, 1])
    >>> save_model(model, path, extra={"trained_on": "clicks of May"})
    >>> load_extra(path)
    {'trained_on': 'clicks of May'}
    """
    with open_model(path) as file:
        return msgspec.convert(file.header, ModelHeader).extra


class SaveMixin:
    """Adds ``save`` and ``load`` to an estimator that is registered."""

    def save(
        self,
        path: PathOrFile,
        *,
        feature_names: Sequence[str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Save the fitted estimator to one file; see `robirank.save_model`."""
        save_model(self, path, feature_names=feature_names, extra=extra)

    @classmethod
    def load(cls, path: PathOrFile) -> Self:
        """Load an estimator of this class from a file; see `robirank.load_model`."""
        model: Self = _load(path, expected=cls)
        return model


def _load(path: PathOrFile, expected: type | None = None, *, mapped: bool = False) -> Any:
    if not is_open(path) and Path(cast(str, path), MANIFEST).is_file():
        folder = Folder(cast(str, path), ModelFileError)
        name = decode_manifest(folder, MANIFEST, _Sharded).model
        with loading(folder.url):
            cls = _class_named(name, expected)
            if not hasattr(cls, "from_shards"):
                raise ValueError(f"a {name} is saved in one file")
        return cls.from_shards(path)
    with open_model(path, mapped=mapped) as file:
        header = msgspec.convert(file.header, ModelHeader)
        cls = _class_named(header.class_name, expected)
        params = unpack_params(file, header, cls)
        fitted = unpack_fitted(file, header, cls.fitted_parts)
    model = cls(**params)
    for attribute, value in fitted.items():
        setattr(model, attribute, value)
    return model


class _Sharded(msgspec.Struct):
    """The field of a sharded model's manifest that names the class."""

    model: str


def _class_named(name: str, expected: type | None) -> Any:
    """The registered class of that name; an error if it is not the expected one."""
    cls = registry.find(name)
    if cls is None:
        raise ValueError(
            f"it holds class {name!r:.80}, which is not registered: import the module that defines "
            f"it before loading; known are {', '.join(registry.estimators())}"
        )
    if expected is not None and cls is not expected:
        raise ValueError(f"it holds a {name}, not a {expected.__name__}; use {name}.load")
    return cls


def _check_registered(model: Any) -> None:
    if registry.find(type(model).__name__) is type(model):
        return
    if hasattr(model, "steps"):
        raise TypeError(
            "a Pipeline cannot be saved as it is; fold its scaling into the weights first: "
            "save_model(fold_scaling(pipeline), path), with fold_scaling from robirank.ltr.export"
        )
    names = ", ".join(registry.estimators())
    raise TypeError(f"model must be one of {names}; got {type(model).__name__}")
