"""One function writes every ranker, in the formats that can hold it."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from robirank import (
    MART,
    RankBoost,
    RankNet,
    RoBiRank,
    export_linear,
    export_model,
    export_onnx,
    export_trees,
    make_ranking,
)

NAMES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=10, n_docs=8, n_features=3, random_state=0)


@pytest.fixture(scope="module")
def models(data):
    kinds = [RoBiRank(), MART(3, num_threads=1), RankNet(max_iter=1), RankBoost(2)]
    return {type(m).__name__: m.fit(data.X, data.y, qid=data.qid) for m in kinds}


def test_each_ranker_is_written_by_its_function(models, tmp_path):
    given = {"feature_names": NAMES, "name": "m"}
    linear, trees = models["RoBiRank"], models["MART"]
    for format in ("solr", "elasticsearch"):
        assert export_model(linear, format, **given) == export_linear(linear, format, **given)
    for format in ("solr", "elasticsearch", "ranklib", "lightgbm"):
        assert export_model(trees, format, **given) == export_trees(trees, format, **given)
    stored = export_model(linear, feature_store="shop", path=tmp_path / "m.json", **given)
    assert stored["store"] == "shop"
    assert (tmp_path / "m.json").exists()


def test_onnx(models):
    pytest.importorskip("onnx", reason="onnx is not installed")
    for name in ("RoBiRank", "MART", "RankNet"):
        given = {"feature_names": NAMES, "name": "m"}
        assert export_model(models[name], "onnx", **given) == export_onnx(models[name], **given)


def test_a_pipeline_is_folded(data):
    pipeline = make_pipeline(StandardScaler(), RoBiRank()).fit(np.asarray(data.X), data.y)
    assert export_model(pipeline) == export_linear(pipeline)


@pytest.mark.parametrize(
    ("name", "format", "message"),
    [
        ("RoBiRank", "ranklib", r"\['solr', 'elasticsearch', 'onnx'\] for a RoBiRank; got 'rankl"),
        ("RankNet", "solr", r"format must be one of \['onnx'\] for a RankNet; got 'solr'"),
        ("MART", "pmml", "for a MART; got 'pmml'"),
    ],
)
def test_a_format_that_cannot_hold_the_ranker(models, name, format, message):
    with pytest.raises(ValueError, match=message):
        export_model(models[name], format)


def test_other_errors(models):
    with pytest.raises(ValueError, match="feature_store='x' is for format='solr'"):
        export_model(models["RoBiRank"], "onnx", feature_store="x")
    with pytest.raises(ValueError, match=r"MART has no weights.* export_model knows"):
        export_linear(models["MART"])
    with pytest.raises(TypeError, match=r"model must be one of .*; got RankBoost"):
        export_model(models["RankBoost"], "onnx")
