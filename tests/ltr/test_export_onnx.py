"""ONNX models, run by onnxruntime."""

import sys
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from robirank import (
    MART,
    RandomForests,
    RankBoost,
    RankNet,
    RoBiRank,
    RoBiRankBooster,
    RoBiRankNet,
    export_onnx,
    make_ranking,
)

runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed: pip install 'robirank[onnx]'")

MODELS = [
    RoBiRank(),
    RoBiRankBooster(30, min_samples_leaf=2, num_threads=1),
    MART(20, num_threads=1),
    RandomForests(7, random_state=0, num_threads=1),
    RankNet(max_iter=3, random_state=0),
    RoBiRankNet(8, max_iter=3, random_state=0),
]


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=40, n_docs=15, n_features=5, nonlinear=True, random_state=0)


def run(model_bytes, X):
    session = runtime.InferenceSession(model_bytes, providers=["CPUExecutionProvider"])
    (scores,) = session.run(["score"], {"features": X.astype(np.float32)})
    return scores


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_runtime_gives_the_same_scores(model, data, tmp_path):
    if model.needs:
        pytest.importorskip(model.needs, reason=f"{model.needs} is not installed")
    model.fit(data.X, data.y, qid=data.qid)
    written = export_onnx(model, tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").read_bytes() == written
    scores = run(written, data.X)
    assert scores.shape == (len(data),)
    assert_allclose(scores, model.predict(data.X), rtol=1e-5, atol=1e-5)


SIZES = [1e-12, 1e-8, 1e-6, 1e-3, 1.0, 1e4, 1e12]


@pytest.mark.parametrize("size", SIZES)
def test_networks_on_features_of_many_sizes(data, size):
    pytest.importorskip("torch", reason="torch is not installed")
    X = (data.X * size).astype(np.float32)
    model = RoBiRankNet(8, max_iter=3, random_state=0).fit(X, data.y, qid=data.qid)
    own = model.predict(X)
    assert_allclose(run(export_onnx(model), X), own, atol=1e-4 * np.ptp(own))


def test_logarithms_of_all_sizes():
    """Every digit that float32 has, at the bound of the series and far from it."""
    x = np.concatenate([[0.0], np.logspace(-37, 38, 4001), [0.5, np.nextafter(0.5, 0.0)]])
    x = x.astype(np.float32)[:, None]
    net = RoBiRankNet(1, blocks=1)
    net.n_features_in_ = 1
    net.mean_, net.scale_, net.input_intercept_ = np.zeros(1), np.ones(1), np.zeros(1)
    net.input_coef_, net.output_coef_ = np.ones((1, 1)), np.ones(1)
    net.block_coef_, net.block_intercept_ = np.zeros((1, 1, 1)), np.zeros((1, 1))
    for sign in (1.0, -1.0):
        logs = run(export_onnx(net), sign * x)
        assert_allclose(logs, sign * np.log1p(x.astype(np.float64))[:, 0], rtol=4e-7)


def test_large_features_that_hardly_differ_are_warned_of(data):
    X = 1.7e9 + 128 * np.round(data.X)  # as float32 has them, too
    model = RankNet(max_iter=3, random_state=0).fit(X, data.y, qid=data.qid)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export_onnx(RankNet(max_iter=3, random_state=0).fit(data.X, data.y, qid=data.qid))
    with pytest.warns(UserWarning, match="differ by up to .* where those of the model span"):
        export_onnx(model)


def test_weights_beyond_single_precision(data):
    model = RoBiRank().fit(data.X, data.y, qid=data.qid)
    model.coef_ = np.full(5, -1e300)
    with pytest.raises(ValueError, match=r"within single precision.*one is -1e\+300"):
        export_onnx(model)


def test_missing_values_go_the_same_way(data):
    X = data.X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    model = RoBiRankBooster(30, min_samples_leaf=2, num_threads=1).fit(X, data.y, qid=data.qid)
    assert 0 < model.missing_left_[model.split_feature_ >= 0].mean() < 1
    assert_allclose(run(export_onnx(model), X), model.predict(X), rtol=1e-5, atol=1e-5)


def test_names_are_in_the_metadata(data):
    named = data.to_frame().rename({"f1": "bm25"})
    model = RoBiRank().fit(named, data.y, qid=data.qid)
    session = runtime.InferenceSession(export_onnx(model), providers=["CPUExecutionProvider"])
    names = session.get_modelmeta().custom_metadata_map["feature_names"]
    assert names.split("\n") == ["bm25", "f2", "f3", "f4", "f5"]
    given = export_onnx(model, feature_names=["a", "b", "c", "d", "e f"])
    session = runtime.InferenceSession(given, providers=["CPUExecutionProvider"])
    assert session.get_modelmeta().custom_metadata_map["feature_names"] == "a\nb\nc\nd\ne f"
    with pytest.raises(ValueError, match="each of the 5 features; got 1 names"):
        export_onnx(model, feature_names=["one"])
    with pytest.raises(ValueError, match="no control characters in ONNX's metadata; got 'a"):
        export_onnx(model, feature_names=["a\nb", "c", "d", "e", "f"])


def test_errors_say_what_cannot_be_written(data, monkeypatch):
    kind = np.random.default_rng(0).integers(0, 9, len(data))
    X = np.column_stack([data.X, kind])
    y = data.y + 3 * np.isin(kind, [1, 5, 7])
    trees = RoBiRankBooster(5, categorical_features=[5], min_samples_leaf=1, num_threads=1)
    with pytest.raises(ValueError, match="cannot hold splits by categories"):
        export_onnx(trees.fit(X, y, qid=data.qid))
    with pytest.raises(TypeError, match="model must be one of LinearRanker"):
        export_onnx(RankBoost(5).fit(data.X, data.y, qid=data.qid))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'robirank\[onnx\]'"):
        export_onnx(RoBiRank().fit(data.X, data.y, qid=data.qid))
