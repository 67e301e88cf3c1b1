"""Exported JSON ranks as the model does; folded weights rank as the pipeline does."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from robirank import MART, RoBiRank, RoBiRankCV, export_linear, load_model, make_ranking, save_model
from robirank.ltr.export import fold_scaling
from robirank.ltr.ranksvm import RankSVM

N_FEATURES = 5
DATA = make_ranking(n_queries=20, n_docs=15, n_features=N_FEATURES, random_state=0)
# Features of very different size and place, so that scaling matters.
X = DATA.X.astype(np.float64) * [1.0, 100.0, 0.01, 5.0, 1e4] + [0.0, -50.0, 3.0, 1.0, 1e5]
NAMES = ["title", "body", "age", "clicks", "price"]

SCALERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    StandardScaler(with_mean=False, with_std=False),
    MinMaxScaler(),
    MinMaxScaler(feature_range=(-2, 5)),
    MaxAbsScaler(),
    RobustScaler(),
    RobustScaler(with_scaling=False),
    RobustScaler(with_centering=False, quantile_range=(10, 90)),
]


def fit_pipeline(*steps, features=X) -> Pipeline:
    pipeline = make_pipeline(*steps)
    return pipeline.fit(features, DATA.y, **{f"{pipeline.steps[-1][0]}__qid": DATA.qid})


def assert_same_up_to_a_constant(scores, reference):
    shift = scores - reference
    np.testing.assert_allclose(shift, shift[0], atol=1e-9 * max(1, np.abs(scores).max()))


def weights_of(document: dict) -> dict:
    if "params" in document:
        assert [f["name"] for f in document["features"]] == list(document["params"]["weights"])
        return document["params"]["weights"]
    return document["model"]["model"]["definition"]


def score_from_json(text: str, features: pd.DataFrame) -> np.ndarray:
    """What a search engine does: look features up by name, sum weight times value."""
    weights = weights_of(json.loads(text))
    return sum(weight * features[name].to_numpy() for name, weight in weights.items())


def rankings(scores) -> list:
    return [np.argsort(-scores[DATA.qid == q], kind="stable").tolist() for q in np.unique(DATA.qid)]


# Folding


@pytest.mark.parametrize("scaler", SCALERS, ids=str)
def test_folded_model_differs_from_the_pipeline_by_a_constant(scaler):
    pipeline = fit_pipeline(scaler, RoBiRank(alpha=0.01))
    folded = fold_scaling(pipeline)
    assert type(folded) is RoBiRank
    assert_same_up_to_a_constant(folded.predict(X), pipeline.predict(X))
    assert rankings(folded.predict(X)) == rankings(pipeline.predict(X))


def test_several_scalers_and_skipped_steps():
    pipeline = fit_pipeline(
        StandardScaler(), "passthrough", MinMaxScaler(), None, RobustScaler(), RoBiRank()
    )
    assert_same_up_to_a_constant(fold_scaling(pipeline).predict(X), pipeline.predict(X))


def test_a_pair_will_do():
    scaler = StandardScaler().fit(X)
    model = RoBiRank().fit(scaler.transform(X), DATA.y, qid=DATA.qid)
    folded = fold_scaling((scaler, model))
    np.testing.assert_allclose(folded.coef_, model.coef_ / scaler.scale_, rtol=1e-12)


def test_sparse_data():
    csr = sp.csr_matrix(np.where(X > 0, X, 0))
    pipeline = fit_pipeline(MaxAbsScaler(), RoBiRank(), features=csr)
    np.testing.assert_allclose(fold_scaling(pipeline).predict(csr), pipeline.predict(csr))


def test_folded_model_keeps_parameters_curve_and_names(tmp_path):
    frame = pd.DataFrame(X, columns=NAMES)
    pipeline = fit_pipeline(StandardScaler(), RoBiRank(alpha=0.5, rho="type2"), features=frame)
    folded = fold_scaling(pipeline)
    assert (folded.alpha, folded.rho) == (0.5, "type2")
    assert folded.n_iter_ == pipeline[-1].n_iter_
    assert folded.loss_curve_ == pipeline[-1].loss_curve_
    assert folded.feature_names_in_.tolist() == NAMES
    assert_same_up_to_a_constant(folded.predict(frame), pipeline.predict(frame))

    save_model(folded, tmp_path / "m")
    np.testing.assert_array_equal(load_model(tmp_path / "m").coef_, folded.coef_)


def test_cross_validated_model_becomes_plain_with_the_chosen_penalty():
    cv = RoBiRankCV(alphas=[10.0, 0.01], cv=2, random_state=0, rho="identity")
    pipeline = fit_pipeline(StandardScaler(), cv)
    folded = fold_scaling(pipeline)
    assert type(folded) is RoBiRank
    assert folded.alpha == pipeline[-1].alpha_
    assert folded.rho == "identity"
    assert_same_up_to_a_constant(folded.predict(X), pipeline.predict(X))


def test_other_linear_rankers_keep_their_class():
    pipeline = fit_pipeline(StandardScaler(), RankSVM(C=0.5))
    folded = fold_scaling(pipeline)
    assert type(folded) is RankSVM
    assert folded.C == 0.5
    assert_same_up_to_a_constant(folded.predict(X), pipeline.predict(X))


def test_folding_does_not_touch_the_pipeline():
    pipeline = fit_pipeline(StandardScaler(), RoBiRank())
    before = pipeline[-1].coef_.copy()
    fold_scaling(pipeline).coef_[:] = 0
    np.testing.assert_array_equal(pipeline[-1].coef_, before)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: fit_pipeline(MinMaxScaler(clip=True), RoBiRank()), ValueError, "clipping is not"),
        (
            lambda: fit_pipeline(QuantileTransformer(n_quantiles=9), RoBiRank()),
            ValueError,
            "cannot fold QuantileTransformer",
        ),
        (
            lambda: make_pipeline(StandardScaler(), LogisticRegression()).fit(X, DATA.y > 0),
            TypeError,
            "another linear ranker; got LogisticRegression",
        ),
        (lambda: make_pipeline(StandardScaler(), RoBiRank()), NotFittedError, "not fitted"),
        (
            lambda: (StandardScaler(), fit_pipeline(RoBiRank())[-1]),
            NotFittedError,
            "StandardScaler instance is not fitted",
        ),
        (
            lambda: (StandardScaler().fit(X[:, :2]), fit_pipeline(RoBiRank())[-1]),
            ValueError,
            "fitted with 2 features, the step after it with 5",
        ),
        (RoBiRank, TypeError, "Pipeline or a pair"),
        (lambda: "scaler", TypeError, "Pipeline or a pair"),
        (list, TypeError, "Pipeline or a pair"),
    ],
)
def test_what_cannot_be_folded(make, error, message):
    with pytest.raises(error, match=message):
        fold_scaling(make())


# Export


@pytest.mark.parametrize("format", ["solr", "elasticsearch"])
@pytest.mark.parametrize(
    "model",
    [
        fit_pipeline(RoBiRank(alpha=0.1))[-1],
        RoBiRankCV(alphas=[1.0, 0.1], cv=2).fit(X, DATA.y, qid=DATA.qid),
        fit_pipeline(StandardScaler(), RoBiRank()),
        make_pipeline(MinMaxScaler(), LogisticRegression()).fit(X, DATA.y > 0),
    ],
    ids=["RoBiRank", "RoBiRankCV", "Pipeline", "LogisticRegression"],
)
def test_scores_from_the_json_rank_as_the_model(model, format, tmp_path):
    path = tmp_path / "model.json"
    document = export_linear(model, format, feature_names=NAMES, path=path)
    assert json.loads(path.read_text("utf-8")) == document
    scores = score_from_json(path.read_text("utf-8"), pd.DataFrame(X, columns=NAMES))
    own = getattr(model, "decision_function", model.predict)(X)
    assert_same_up_to_a_constant(scores, own)
    assert rankings(scores) == rankings(own)


def test_solr_document():
    model = RoBiRank().fit(X[:, :2], DATA.y, qid=DATA.qid)
    model.coef_ = np.array([0.5, -2.0])
    assert export_linear(model, name="m", feature_names=["a", "b"], feature_store="shop") == {
        "class": "org.apache.solr.ltr.model.LinearModel",
        "name": "m",
        "store": "shop",
        "features": [{"name": "a"}, {"name": "b"}],
        "params": {"weights": {"a": 0.5, "b": -2.0}},
    }
    assert "store" not in export_linear(model)


def test_elasticsearch_document():
    model = RoBiRank().fit(X[:, :2], DATA.y, qid=DATA.qid)
    model.coef_ = np.array([0.5, -2.0])
    assert export_linear(model, "elasticsearch", name="m") == {
        "model": {
            "name": "m",
            "model": {"type": "model/linear", "definition": {"f1": 0.5, "f2": -2.0}},
        }
    }


def test_names_come_from_the_fit_else_from_the_file_else_are_numbered(tmp_path):
    frame = pd.DataFrame(X, columns=NAMES)
    pipeline = fit_pipeline(StandardScaler(), RoBiRank(), features=frame)
    assert list(weights_of(export_linear(pipeline))) == NAMES
    model = fit_pipeline(RoBiRank())[-1]
    assert list(weights_of(export_linear(model))) == ["f1", "f2", "f3", "f4", "f5"]
    save_model(model, tmp_path / "m", feature_names=NAMES)
    assert list(weights_of(export_linear(load_model(tmp_path / "m")))) == NAMES
    other = list("vwxyz")
    assert list(weights_of(export_linear(pipeline, feature_names=other))) == other


@given(st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=8))
def test_every_weight_survives_json(weights):
    model = RoBiRank()
    model.coef_, model.n_features_in_ = np.array(weights), len(weights)
    for format in ("solr", "elasticsearch"):
        document = json.loads(json.dumps(export_linear(model, format)))
        assert list(weights_of(document).values()) == weights


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "lucene"}, "format must be one of .*got 'lucene'"),
        ({"name": ""}, "name must be a non-empty string"),
        ({"feature_names": ["a"]}, "each of the 5 features; got 1 names"),
        ({"feature_names": "abcde"}, "each of the 5 features; got 1 names"),
        ({"feature_names": ["a", "b", "c", "d", "a"]}, "'a' occurs more than once"),
        ({"feature_names": ["a", "b", "c", "d", ""]}, "not empty; got ''"),
        ({"feature_names": ["a", "b", "c", "d", None]}, "not empty; got None"),
        ({"format": "elasticsearch", "feature_store": "s"}, "feature_store='s' is for format='s"),
    ],
)
def test_wrong_arguments(options, message, tmp_path):
    model = fit_pipeline(RoBiRank())[-1]
    with pytest.raises(ValueError, match=message):
        export_linear(model, path=tmp_path / "m.json", **options)
    assert list(tmp_path.iterdir()) == []


def test_weights_that_an_engine_cannot_hold():
    model = fit_pipeline(RoBiRank())[-1]
    for value in (1e39, np.nan):
        model.coef_[0] = value
        with pytest.raises(ValueError, match="every weight must be within single precision"):
            export_linear(model)


def test_several_rows_of_weights():
    model = LogisticRegression().fit(DATA.X, np.arange(len(X)) % 3)
    with pytest.raises(ValueError, match=r"one row of weights.*shape \(3, 5\)"):
        export_linear(model)


def test_unfitted():
    with pytest.raises(NotFittedError):
        export_linear(RoBiRank())


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.json"
    path.write_text("old")
    monkeypatch.setattr("robirank.storage.files.os.fsync", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export_linear(fit_pipeline(RoBiRank())[-1], path=path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_ranker_that_is_not_linear_has_no_weights():
    model = MART(3).fit(DATA.X, DATA.y, qid=DATA.qid)
    for either in (model, make_pipeline(StandardScaler(), model)):
        with pytest.raises(ValueError, match="a MART has no weights to export: its scores are not"):
            export_linear(either)
