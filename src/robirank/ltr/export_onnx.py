"""Rankers as ONNX models, for any runtime that reads them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from robirank import __version__
from robirank._callers import warn
from robirank.ltr._forest import ForestRanker
from robirank.ltr.base import LinearRanker, Ranker
from robirank.ltr.export import check_names, check_one_line, check_single
from robirank.ltr.export_trees import check_forest_for, single_thresholds
from robirank.ltr.ranknet import RankNet
from robirank.ltr.robirank_net import RoBiRankNet
from robirank.storage.files import write_whole

_OPSET, _ML_OPSET, _IR = 17, 3, 8
_LARGEST_LOG = 88.0  # the logarithm of the largest float32
_SHARE_OF_SPREAD = 1e-3  # of the span of the scores, by which they may differ without a warning


def export_onnx(
    model: Ranker,
    path: str | os.PathLike[str] | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    name: str = "robirank",
) -> bytes:
    """Write a linear ranker, a tree ranker or a network as an ONNX model.

    The model has one input, ``features`` of shape (n, n_features), and one output, ``score`` of
    shape (n,), both float32. The names of the features are in its metadata, separated by newlines.
    A network is run once on features like those that it was trained on; a warning says where single
    precision changes their scores, as it does where a feature is large and hardly differs. Needs
    ``pip install 'robirank[onnx]'``; whoever runs the model needs a runtime alone.

    Parameters
    ----------
    model : a linear ranker, a tree ranker, RankNet or RoBiRankNet
        Fitted. Splits by categories cannot be written.
    path, feature_names, name
        As in `export_model`.

    Returns
    -------
    bytes
        What the file holds.

    Examples
    --------
    >>> from robirank import RoBiRank, export_onnx
    >>> model = RoBiRank().fit([[1.0, 0.0], [0.0, 0.0]], [1, 0])
    >>> len(export_onnx(model)) > 100
    True
    """
    check_is_fitted(model)
    write = next((write for kind, write in _WRITERS.items() if isinstance(model, kind)), None)
    if write is None:
        kinds = ", ".join(kind.__name__ for kind in _WRITERS)
        raise TypeError(f"model must be one of {kinds}; got {type(model).__name__}")
    names = check_names(model, feature_names)
    check_one_line(names, "ONNX's metadata")
    onnx = _import_onnx()
    graph = _Graph(onnx)
    graph.add("Reshape", write(graph, "features", model), graph.keep([-1]), output="score")
    onnx_model = graph.model(names, name)
    if isinstance(model, RankNet | RoBiRankNet):
        _compare(onnx_model, model)
    data = onnx_model.SerializeToString()
    if path is not None:
        with write_whole(path) as file:
            file.write(data)
    return bytes(data)


def _import_onnx() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise ImportError(
            "ONNX models are written by the package onnx, which is not installed: "
            "pip install 'robirank[onnx]'"
        ) from error
    return onnx


class _Graph:
    """The nodes and constants of an ONNX graph, named by their numbers."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def add(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node with one output; return the output's name."""
        name = output or f"t{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def keep(self, values: Any) -> str:
        """Add a constant, float32 unless it holds integers; return its name."""
        array = np.asarray(values)
        if array.dtype.kind == "f":
            check_single("weight", array.ravel())
        array = array.astype(np.int64 if array.dtype.kind == "i" else np.float32)
        name = f"c{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def model(self, names: Sequence[str], name: str) -> Any:
        """The ONNX model with all nodes and constants."""
        helper, number = self._onnx.helper, self._onnx.TensorProto.FLOAT
        features = helper.make_tensor_value_info("features", number, [None, len(names)])
        score = helper.make_tensor_value_info("score", number, [None])
        graph = helper.make_graph(self._nodes, name, [features], [score], self._constants)
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR)
        model.producer_name, model.producer_version = "robirank", __version__
        helper.set_model_props(model, {"feature_names": "\n".join(names)})
        return model


def _compare(onnx_model: Any, model: Any) -> None:
    """Warn where an ONNX model gives other scores to features like those of the training data."""
    from onnx.reference import ReferenceEvaluator

    z = np.random.default_rng(0).standard_normal((64, model.n_features_in_))
    X = model.mean_ + z * model.scale_
    if isinstance(model, RoBiRankNet):
        X = np.sign(X) * np.expm1(np.minimum(np.abs(X), _LARGEST_LOG))
    features = X.astype(np.float32)
    exact = model._scores(features.astype(np.float64))
    (scores,) = ReferenceEvaluator(onnx_model).run(["score"], {"features": features})
    largest, spread = float(np.abs(scores - exact).max()), float(np.ptp(exact))
    if not largest <= _SHARE_OF_SPREAD * spread:
        warn(
            f"the ONNX model computes in single precision, and its scores differ by up to "
            f"{largest:.2g} where those of the model span {spread:.2g}: features that are large "
            "and hardly differ lose their digits. Subtract their mean before the fit",
        )


def _linear(graph: _Graph, x: str, model: Any) -> str:
    return graph.add("MatMul", x, graph.keep(model.coef_[:, None]))


def _trees(graph: _Graph, x: str, model: Any) -> str:
    forest = model.forest()
    check_forest_for("an ONNX model", forest)
    sizes = np.diff(forest.tree_offsets)
    tree = np.repeat(np.arange(forest.n_trees), sizes)
    first = np.repeat(forest.tree_offsets[:-1], sizes)
    inner = forest.split_feature >= 0
    left = np.where(inner, forest.left_child - first, 0)
    leaves = np.flatnonzero(~inner)
    return graph.add(
        "TreeEnsembleRegressor",
        x,
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=tree.tolist(),
        nodes_nodeids=(np.arange(len(inner)) - first).tolist(),
        nodes_featureids=np.maximum(forest.split_feature, 0).tolist(),
        nodes_modes=np.where(inner, "BRANCH_LEQ", "LEAF").tolist(),
        nodes_values=np.where(inner, single_thresholds(forest), 0).astype(float).tolist(),
        nodes_truenodeids=left.tolist(),
        nodes_falsenodeids=np.where(inner, left + 1, 0).tolist(),
        nodes_missing_value_tracks_true=(forest.missing_left * inner).tolist(),
        target_treeids=tree[leaves].tolist(),
        target_nodeids=(leaves - first[leaves]).tolist(),
        target_ids=[0] * len(leaves),
        target_weights=(1.0 / model.divisor(forest) * forest.leaf_value[leaves]).tolist(),
    )


def _affine(graph: _Graph, x: str, coef: Any, intercept: Any) -> str:
    return graph.add("Add", graph.add("MatMul", x, graph.keep(coef)), graph.keep(intercept))


def _standardised(graph: _Graph, x: str, model: Any) -> str:
    centred = graph.add("Sub", x, graph.keep(model.mean_))
    return graph.add("Div", centred, graph.keep(model.scale_))


def _ranknet(graph: _Graph, x: str, model: Any) -> str:
    z = _standardised(graph, x, model)
    hidden = graph.add("Tanh", _affine(graph, z, model.hidden_coef_, model.hidden_intercept_))
    return graph.add("MatMul", hidden, graph.keep(model.output_coef_[:, None]))


def _log1p(graph: _Graph, x: str) -> str:
    """The nodes for log(1 + x) of x ≥ 0: below 1/2 as 2 artanh(r), r = x / (x + 2) ≤ 1/5.

    Its series r + r³/3 + r⁵/5 + … ends with r¹¹, where float32 does. ONNX has no such function,
    and in float32 1 + x is 1 for x below 6e-8.
    """
    r = graph.add("Div", x, graph.add("Add", x, graph.keep(2.0)))
    square = graph.add("Mul", r, r)
    total = graph.keep(1 / 11)
    for power in (9, 7, 5, 3, 1):
        total = graph.add("Add", graph.add("Mul", total, square), graph.keep(1 / power))
    small = graph.add("Mul", graph.add("Mul", total, r), graph.keep(2.0))
    large = graph.add("Log", graph.add("Add", x, graph.keep(1.0)))
    return graph.add("Where", graph.add("Less", x, graph.keep(0.5)), small, large)


def _robirank_net(graph: _Graph, x: str, model: Any) -> str:
    size = _log1p(graph, graph.add("Abs", x))
    z = _standardised(graph, graph.add("Mul", graph.add("Sign", x), size), model)
    hidden = _affine(graph, z, model.input_coef_, model.input_intercept_)
    for coef, intercept in zip(model.block_coef_, model.block_intercept_, strict=True):
        step = graph.add("Relu", _affine(graph, hidden, coef, intercept))
        hidden = graph.add("Add", hidden, step)
    return graph.add("MatMul", hidden, graph.keep(model.output_coef_[:, None]))


_WRITERS: dict[type[Any], Callable[[_Graph, str, Any], str]] = {
    LinearRanker: _linear,
    ForestRanker: _trees,
    RankNet: _ranknet,
    RoBiRankNet: _robirank_net,
}
