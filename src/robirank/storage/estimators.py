"""Saving and loading fitted estimators, in one file, without pickle.

A model file is a `safetensors <https://github.com/huggingface/safetensors>`_ file: the arrays as
they are, and a JSON object that says which estimator they belong to. Loading a file from a
stranger runs no code of theirs: the class is looked up in `LAYOUTS` below, arrays and parameters
are checked against what that class expects, and anything else is a `ModelFileError`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from robirank.storage.parts import (
    Layout,
    Tensor,
    pack_extra,
    pack_features,
    pack_labels,
    pack_params,
    pack_tensors,
    section,
    unpack_fitted,
    unpack_params,
)
from robirank.storage.tensor_file import ModelFileError, open_model, write_model

__all__ = ["ModelFileError", "SaveMixin", "load_extra", "load_model", "save_model"]

PathLike = str | os.PathLike[str]


_LINEAR = {"coef_": Tensor(("features",)), "loss_curve_": Tensor(("steps",), is_list=True)}

_FOREST = {
    "tree_offsets_": Tensor(("offsets",), "I32"),
    "split_feature_": Tensor(("nodes",), "I32"),
    "threshold_": Tensor(("nodes",)),
    "left_child_": Tensor(("nodes",), "I32"),
    "leaf_value_": Tensor(("nodes",)),
}
_NET = {
    "mean_": Tensor(("features",)),
    "scale_": Tensor(("features",)),
    "hidden_coef_": Tensor(("features", "units")),
    "hidden_intercept_": Tensor(("units",)),
    "output_coef_": Tensor(("units",)),
}
_STUMPS = {
    "features_": Tensor(("rankers",), "I32"),
    "thresholds_": Tensor(("rankers",)),
    "weights_": Tensor(("rankers",)),
}
_ROUNDS = {"validation_scores_": Tensor(("rounds",), is_list=True)}
_FACTORS = {
    "user_factors": Tensor(("users", "factors"), "F32"),
    "item_factors": Tensor(("items", "factors"), "F32"),
}
_N_ROUNDS: dict[str, type] = {"n_iter_": int, "best_iter_": int}


def _latent(
    home: str,
    numbers: Mapping[str, type] | None = None,
    tensors: Mapping[str, Tensor] | None = None,
) -> Layout:
    """The layout of a model of factors, with what else it has learned."""
    return Layout(
        home,
        _FACTORS | dict(tensors or {}),
        numbers or {},
        required=tuple(_FACTORS),
        features=False,
        ids={"user_ids_": "users", "item_ids_": "items"},
    )


#: Every class that can be saved. A new estimator becomes savable by a line here.
LAYOUTS: dict[str, Layout] = {
    "RoBiRank": Layout("robirank.ltr.robirank:RoBiRank", _LINEAR, {"n_iter_": int}),
    "RoBiRankCV": Layout(
        "robirank.ltr.robirank_cv:RoBiRankCV",
        _LINEAR | {"alphas_": Tensor(("alphas",)), "scores_": Tensor(("alphas", "folds"))},
        {"n_iter_": int, "alpha_": float, "best_score_": float},
    ),
    "RankSVM": Layout("robirank.ltr.ranksvm:RankSVM", _LINEAR, {"n_iter_": int}),
    "LSRank": Layout(
        "robirank.ltr.lsrank:LSRank", _LINEAR, {"n_iter_": int, "n_rounds_": int, "gap_": float}
    ),
    "IRPush": Layout("robirank.ltr.irpush:IRPush", _LINEAR, {"n_iter_": int, "gap_": float}),
    "InfNormPush": Layout(
        "robirank.ltr.infnormpush:InfNormPush", _LINEAR, {"n_iter_": int, "gap_": float}
    ),
    "MART": Layout("robirank.ltr.mart:MART", _FOREST | _ROUNDS, _N_ROUNDS, required=tuple(_FOREST)),
    "LambdaMART": Layout(
        "robirank.ltr.lambdamart:LambdaMART",
        _FOREST | _ROUNDS,
        _N_ROUNDS,
        required=tuple(_FOREST),
    ),
    "RandomForests": Layout(
        "robirank.ltr.random_forests:RandomForests", _FOREST, required=tuple(_FOREST)
    ),
    "ListNet": Layout("robirank.ltr.listnet:ListNet", _LINEAR, {"n_iter_": int}),
    "RankNet": Layout(
        "robirank.ltr.ranknet:RankNet",
        _NET | _ROUNDS | {"loss_curve_": Tensor(("steps",), is_list=True)},
        _N_ROUNDS,
        required=tuple(_NET),
    ),
    "RankBoost": Layout(
        "robirank.ltr.rankboost:RankBoost",
        _STUMPS | _ROUNDS | {"loss_curve_": Tensor(("steps",), is_list=True)},
        _N_ROUNDS,
        required=tuple(_STUMPS),
    ),
    "AdaRank": Layout(
        "robirank.ltr.adarank:AdaRank",
        {
            "coef_": Tensor(("features",)),
            "features_": Tensor(("rankers",), "I32"),
            "weights_": Tensor(("rankers",)),
            "measure_curve_": Tensor(("steps",), is_list=True),
        }
        | _ROUNDS,
        _N_ROUNDS,
    ),
    "CoordinateAscent": Layout(
        "robirank.ltr.coordinate_ascent:CoordinateAscent",
        {
            "coef_": Tensor(("features",)),
            "objective_curve_": Tensor(("steps",), is_list=True),
            "restart_objectives_": Tensor(("restarts",), is_list=True),
        }
        | _ROUNDS,
        _N_ROUNDS,
    ),
    "RobustClassifier": Layout(
        "robirank.classifier:RobustClassifier",
        _LINEAR | {"coef_": Tensor((1, "features")), "intercept_": Tensor((1,))},
        {"n_iter_": int},
        {"classes_": 2},
        required=("coef_", "intercept_", "classes_"),
    ),
    "LatentRoBiRank": _latent(
        "robirank.latent.model:LatentRoBiRank", _N_ROUNDS | {"solver_": str, "user_scale_": float}
    ),
    "WARP": _latent("robirank.latent.warp:WARP", _N_ROUNDS),
}


def save_model(
    model: Any,
    path: PathLike,
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
        Fitted. Parameters that are functions or other objects (a ``gain`` of your own, an
        estimator as ``init``) cannot be saved; the loaded model has their default, and a warning
        says so. What was learned is always saved whole.
    path : str or path-like
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
    from sklearn.utils.validation import check_is_fitted

    name = _class_name(model)
    layout = LAYOUTS[name]
    check_is_fitted(model, list(layout.required))
    params, unsaved, arrays = pack_params(model)
    tensors = arrays | pack_tensors(model, layout)
    numbers = {
        n: kind(getattr(model, n)) for n, kind in layout.numbers.items() if hasattr(model, n)
    }
    header = {
        "class": name,
        "params": params,
        "unsaved": unsaved,
        "numbers": numbers,
        "labels": {n: pack_labels(n, getattr(model, n)) for n in layout.labels},
        "extra": pack_extra(extra),
    }
    if layout.features:
        header |= pack_features(model, feature_names)
    elif feature_names is not None:
        raise ValueError(f"feature_names must be left out: a {name} knows no features")
    write_model(path, header, tensors)


def load_model(path: PathLike) -> Any:
    """Load an estimator that `save_model` saved.

    Parameters
    ----------
    path : str or path-like
        A file, or the folder of a model that a `RayEngine` trained.

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
    """
    return _load(path)


def load_extra(path: PathLike) -> dict[str, Any]:
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
        return section(file, "extra")


class SaveMixin:
    """Adds ``save`` and ``load`` to an estimator that `LAYOUTS` lists."""

    def save(
        self,
        path: PathLike,
        *,
        feature_names: Sequence[str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Save the fitted estimator to one file; see `robirank.save_model`."""
        save_model(self, path, feature_names=feature_names, extra=extra)

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Load an estimator of this class from a file; see `robirank.load_model`."""
        model: Self = _load(path, expected=cls)
        return model


def _load(path: PathLike, expected: type | None = None) -> Any:
    if Path(path, "manifest.json").is_file():
        return _load_folder(path, expected)
    with open_model(path) as file:
        name = file.header.get("class")
        if not isinstance(name, str) or name not in LAYOUTS:
            file.refuse(f"it holds class {name!r:.80}; known are {', '.join(LAYOUTS)}")
        layout = LAYOUTS[name]
        cls = _import(layout.home)
        if expected is not None and cls is not expected:
            file.refuse(f"it holds a {name}, not a {expected.__name__}; use {name}.load")
        params = unpack_params(file, cls)
        fitted = unpack_fitted(file, layout)
    model = cls(**params)
    for attribute, value in fitted.items():
        setattr(model, attribute, value)
    return model


def _load_folder(path: PathLike, expected: type | None) -> Any:
    """Load a model that a cluster left in many files."""
    from robirank.latent.retrieve.sharded import load_sharded

    classes = {name: _import(LAYOUTS[name].home) for name in ("LatentRoBiRank", "WARP")}
    if expected is not None:
        classes = {name: cls for name, cls in classes.items() if cls is expected}
    return load_sharded(path, classes)


def _import(home: str) -> Any:
    module, name = home.split(":")
    return getattr(import_module(module), name)


def _class_name(model: Any) -> str:
    kind = type(model)
    for name, layout in LAYOUTS.items():
        if layout.home == f"{kind.__module__}:{kind.__qualname__}":
            return name
    if hasattr(model, "steps"):
        raise TypeError(
            "a Pipeline cannot be saved as it is; fold its scaling into the weights first: "
            "save_model(fold_scaling(pipeline), path), with fold_scaling from robirank.ltr.export"
        )
    raise TypeError(f"model must be one of {', '.join(LAYOUTS)}; got {kind.__name__}")
