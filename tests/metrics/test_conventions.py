"""The named conventions, and the programs that they agree with."""

import numpy as np
import pytest
from sklearn.metrics import dcg_score, ndcg_score

from metrics.plain import random_data
from robirank import metrics
from robirank.metrics import (
    CONVENTIONS,
    Convention,
    average_precision,
    dcg,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)


def test_named_conventions():
    assert dict(CONVENTIONS) == {
        "standard": Convention("exp", "log2", "average", "zero"),
        "letor": Convention("exp", "letor", "first", "zero"),
        "trec": Convention("linear", "log2", "last", "zero"),
        "lightgbm": Convention("exp", "log2", "first", "one"),
    }


def test_arguments_override_the_convention():
    own = Convention(gain="linear", discount="letor", ties="worst", empty="skip")
    data = random_data(levels=3)
    by_argument = ndcg(*data, k=5, gain="linear", discount="letor", ties="worst", empty="skip")
    assert ndcg(*data, k=5, convention=own) == by_argument
    assert ndcg(*data, k=5, convention=own) != ndcg(*data, k=5)
    assert ndcg(*data, k=5, convention=own, ties="best") > by_argument


def test_conventions_are_read_only():
    with pytest.raises(TypeError):
        metrics.CONVENTIONS["standard"] = Convention()  # type: ignore[index]


@pytest.mark.parametrize("levels", [None, 5])
@pytest.mark.parametrize("k", [None, 1, 5, 50])
def test_scikit_learn(levels, k):
    y, scores, qid = random_data(levels=levels)
    keep = np.isin(qid, np.flatnonzero(np.bincount(qid) > 1))  # it refuses lists of one row
    y, scores, qid = y[keep], scores[keep], qid[keep]
    lists = [(y[qid == q][None], scores[qid == q][None]) for q in np.unique(qid)]
    for mine, theirs in [(dcg, dcg_score), (ndcg, ndcg_score)]:
        linear = [theirs(a, s, k=k) for a, s in lists]
        exp = [theirs(2.0**a - 1, s, k=k) for a, s in lists]
        np.testing.assert_allclose(mine(y, scores, qid, k=k, gain="linear", per_query=True), linear)
        np.testing.assert_allclose(mine(y, scores, qid, k=k, per_query=True), exp)


@pytest.mark.parametrize("levels", [None, 4])
def test_trec_eval(levels):
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="compares with trec_eval")
    y, scores, qid = random_data(seed=11, levels=levels)
    scores = scores.astype(np.float32)  # trec_eval's own precision
    rng = np.random.default_rng(12)
    ids = np.concatenate([rng.choice(200, n, replace=False) for n in np.bincount(qid)]).astype(str)
    qrels, run = {}, {}
    for q, doc, label, score in zip(qid, ids, y, scores, strict=True):
        qrels.setdefault(str(q), {})[doc] = int(label)
        run.setdefault(str(q), {})[doc] = float(score)
    names = {"ndcg", "ndcg_cut.1,5,10", "P.1,5,10", "recall.1,5,10", "map", "recip_rank"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, names | {"map_cut.5"}).evaluate(run)
    assert len(theirs) == len(np.unique(qid))
    assert any(not sum(q.values()) for q in qrels.values())

    def compare(values, name):
        expected = [theirs[str(q)][name] for q in np.unique(qid)]
        np.testing.assert_allclose(values, expected, rtol=1e-9, err_msg=name)

    options = {"convention": "trec", "ids": ids, "per_query": True}
    compare(ndcg(y, scores, qid, **options), "ndcg")
    compare(average_precision(y, scores, qid, **options), "map")
    compare(average_precision(y, scores, qid, k=5, **options), "map_cut_5")
    compare(reciprocal_rank(y, scores, qid, **options), "recip_rank")
    for k in (1, 5, 10):
        compare(ndcg(y, scores, qid, k=k, **options), f"ndcg_cut_{k}")
        compare(precision(y, scores, qid, k=k, **options), f"P_{k}")
        compare(recall(y, scores, qid, k=k, **options), f"recall_{k}")


def test_lightgbm():
    lightgbm = pytest.importorskip("lightgbm", reason="compares with LightGBM's own NDCG")
    y, _, qid = random_data(seed=21, n_queries=60)
    X = np.random.default_rng(22).integers(0, 4, (len(y), 2)).astype(float) + y[:, None] * 0.3
    train = lightgbm.Dataset(X, y, group=np.bincount(qid), free_raw_data=False)
    ks, reported = [1, 3, 10, 40], {}
    model = lightgbm.train(
        {
            "objective": "lambdarank",
            "metric": "ndcg",
            "eval_at": ks,
            "num_leaves": 4,
            "min_data_in_leaf": 5,
            "num_threads": 1,
            "verbose": -1,
        },
        train,
        num_boost_round=2,
        valid_sets=[train],
        valid_names=["rows"],
        callbacks=[lightgbm.record_evaluation(reported)],
    )
    scores = model.predict(X)
    assert len(np.unique(scores)) < 20, "the point is to have ties"
    theirs = [reported["rows"][f"ndcg@{k}"][-1] for k in ks]
    np.testing.assert_allclose(ndcg(y, scores, qid, k=ks, convention="lightgbm"), theirs, rtol=1e-9)
    for other in ({"ties": "average"}, {"empty": "zero"}, {"gain": "linear"}):
        different = ndcg(y, scores, qid, k=ks, convention="lightgbm", **other)
        assert not np.allclose(different, theirs, rtol=1e-4)
