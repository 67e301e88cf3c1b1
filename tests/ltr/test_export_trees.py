"""Trees for search engines, evaluated as those engines do; and for LightGBM, by LightGBM."""

import json
import xml.etree.ElementTree as ET
from copy import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose

from robirank import (
    LambdaMART,
    RandomForests,
    RoBiRank,
    RoBiRankBooster,
    export_trees,
    make_ranking,
)

lightgbm = pytest.importorskip("lightgbm")

NAMES = ["bm25", "age", "clicks", "title length", "rank"]


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=40, n_docs=15, n_features=5, nonlinear=True, random_state=0)


@pytest.fixture(scope="module", params=["booster", "lambdamart", "forest"])
def model(request, data):
    made = {
        "booster": RoBiRankBooster(15, min_samples_leaf=2, num_threads=1),
        "lambdamart": LambdaMART(10, num_threads=1),
        "forest": RandomForests(7, random_state=0, num_threads=1),
    }[request.param]
    return made.fit(data.X, data.y, qid=data.qid)


def at_the_thresholds(model, data):
    """Rows with values at the thresholds, and next to them, in float32 as engines have it."""
    rows = [data.X]
    for f in range(5):
        edges = model.threshold_[model.split_feature_ == f].astype(np.float32)
        edges = edges[np.abs(edges) > 1e-30]  # LightGBM takes numbers next to 0 for 0
        for end in (0, 9, -9):
            value = edges if end == 0 else np.nextafter(edges, np.float32(end))
            probe = np.resize(data.X, (len(edges), 5)).copy()
            probe[:, f] = value
            rows.append(probe)
    return np.vstack(rows)


def test_solr(model, data):
    document = export_trees(model, "solr", feature_names=NAMES, name="m", feature_store="shop")
    assert document["class"] == "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
    assert (document["name"], document["store"]) == ("m", "shop")
    assert [f["name"] for f in document["features"]] == NAMES

    def score(node, row):
        if "value" in node:
            return node["value"]
        goes_left = row[NAMES.index(node["feature"])] <= np.float32(node["threshold"])
        return score(node["left" if goes_left else "right"], row)

    X = at_the_thresholds(model, data)
    trees = json.loads(json.dumps(document))["params"]["trees"]
    scores = [sum(t["weight"] * score(t["root"], row) for t in trees) for row in X]
    assert_allclose(scores, model.predict(X), rtol=1e-9, atol=1e-12)


def test_elasticsearch_by_xgboosts_dump(model, data):
    document = export_trees(model, "elasticsearch", feature_names=NAMES)["model"]["model"]
    assert document["type"] == "model/xgboost+json"

    def score(node, row):
        if "leaf" in node:
            return node["leaf"]
        below = row[NAMES.index(node["split"])] < np.float32(node["split_condition"])
        wanted = node["yes" if below else "no"]
        (child,) = [c for c in node["children"] if c["nodeid"] == wanted]
        assert node["missing"] in (node["yes"], node["no"])
        return score(child, row)

    X = at_the_thresholds(model, data)
    trees = json.loads(document["definition"])
    scores = [sum(score(tree, row) for tree in trees) for row in X]
    assert_allclose(scores, model.predict(X), rtol=1e-5, atol=1e-6)


def test_elasticsearch_by_ranklib(model, data):
    document = export_trees(model, "ranklib")["model"]["model"]
    assert document["type"] == "model/ranklib"
    head, _, body = document["definition"].partition("\n\n")
    assert head == "## LambdaMART"
    trees = ET.fromstring(body)

    def score(split, row):
        if split.find("output") is not None:
            return float(split.find("output").text)
        feature = int(split.find("feature").text)
        goes_left = row[feature - 1] <= np.float32(split.find("threshold").text)
        left, right = split.findall("split")
        assert (left.get("pos"), right.get("pos")) == ("left", "right")
        return score(left if goes_left else right, row)

    X = at_the_thresholds(model, data)
    scores = [sum(float(t.get("weight")) * score(t.find("split"), row) for t in trees) for row in X]
    assert_allclose(scores, model.predict(X), rtol=1e-5, atol=1e-6)


def test_lightgbm_reads_its_text(model, data, tmp_path):
    text = export_trees(model, "lightgbm", feature_names=NAMES, path=tmp_path / "m.txt")
    assert (tmp_path / "m.txt").read_text("utf-8") == text
    booster = lightgbm.Booster(model_file=str(tmp_path / "m.txt"))
    X = at_the_thresholds(model, data)
    assert_allclose(booster.predict(X), model.predict(X), rtol=1e-12, atol=1e-14)
    assert booster.feature_name() == [n.replace(" ", "_") for n in NAMES]


def test_missing_values_and_categories_go_the_same_way(data):
    rng = np.random.default_rng(0)
    X = np.column_stack([data.X, rng.integers(0, 60, len(data))]).astype(np.float64)
    X[rng.random(X.shape) < 0.2] = np.nan
    y = data.y + 2 * (X[:, 5] % 7 == 1)
    settings = {"n_estimators": 20, "min_samples_leaf": 2, "num_threads": 1}
    model = RoBiRankBooster(**settings, categorical_features=[5]).fit(X, y, qid=data.qid)
    assert len(model.categories_)
    booster = lightgbm.Booster(model_str=export_trees(model, "lightgbm"))
    assert_allclose(booster.predict(X), model.predict(X), rtol=1e-12, atol=1e-14)
    for format in ("solr", "elasticsearch", "ranklib"):
        with pytest.raises(ValueError, match="cannot hold splits by categories"):
            export_trees(model, format)


def test_errors_name_the_argument(model, data):
    with pytest.raises(ValueError, match="format must be one of"):
        export_trees(model, "pmml")
    with pytest.raises(ValueError, match="each of the 5 features; got 1 names"):
        export_trees(model, feature_names=["one"])
    with pytest.raises(ValueError, match="feature_store='x' is for format='solr'"):
        export_trees(model, "ranklib", feature_store="x")
    with pytest.raises(ValueError, match="name must be a non-empty string"):
        export_trees(model, name="")
    with pytest.raises(TypeError, match=r"a tree ranker; got RoBiRank\. export_model knows"):
        export_trees(RoBiRank().fit(data.X, data.y, qid=data.qid))


@pytest.mark.parametrize("format", ["solr", "elasticsearch", "ranklib"])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_numbers_beyond_single_precision(format, side, tmp_path):
    """They are errors, never Infinity."""
    X = side * np.array([[1e300], [2e300], [3e300], [4e300]])
    model = LambdaMART(3, num_threads=1).fit(X, [0, 1, 2, 3])
    sign = "-" if side < 0 else ""
    message = rf"every threshold must be within single.* one is {sign}[\d.]+e\+300\."
    with pytest.raises(ValueError, match=message):
        export_trees(model, format, path=tmp_path / "m.json")
    assert not (tmp_path / "m.json").exists()
    assert_allclose(
        lightgbm.Booster(model_str=export_trees(model, "lightgbm")).predict(X), model.predict(X)
    )


def test_a_split_off_of_missing_values_is_written(data):
    """Its threshold is above all numbers."""
    X = np.zeros((len(data), 1))
    X[data.y > 0] = np.nan
    X[0] = 1.0
    model = RoBiRankBooster(3, min_samples_leaf=1, num_threads=1).fit(X, data.y, qid=data.qid)
    assert (model.threshold_ == np.finfo(np.float64).max).any()
    for format in ("solr", "elasticsearch", "ranklib"):
        assert "inf" not in json.dumps(export_trees(model, format)).lower()


def test_leaves_beyond_single_precision(model):
    large = copy(model)
    large.leaf_value_ = model.leaf_value_ * 1e300
    with pytest.raises(ValueError, match="every leaf must be within single precision"):
        export_trees(large)


@pytest.mark.parametrize("bad", ["a\nb", "a\0b", "a\tb", "a\u2028b"])
def test_names_that_break_lightgbms_text(model, bad):
    names = [bad, *NAMES[1:]]
    with pytest.raises(ValueError, match="no control characters in LightGBM's text; got 'a"):
        export_trees(model, "lightgbm", feature_names=names)
    assert json.loads(json.dumps(export_trees(model, feature_names=names)))["features"][0] == {
        "name": bad
    }


def test_names_that_lightgbm_would_take_for_one(model):
    names = ["a b", "a_b", *NAMES[2:]]
    with pytest.raises(ValueError, match=r"blanks are underscores.*got 'a b' and 'a_b'"):
        export_trees(model, "lightgbm", feature_names=names)
    assert export_trees(model, feature_names=names)["features"][1] == {"name": "a_b"}
