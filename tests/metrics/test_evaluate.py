"""Several metrics by name."""

import pytest

from metrics.plain import random_data
from robirank.metrics import (
    CONVENTIONS,
    average_precision,
    dcg,
    err,
    evaluate_ranking,
    mean_ndcg,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_evaluate_ranking_agrees_with_the_functions(convention):
    data = random_data(levels=4)
    rule = {"convention": convention}
    by_function = {
        "ndcg@10": ndcg(*data, k=10, **rule),
        "ndcg": ndcg(*data, **rule),
        "NDCG@1": ndcg(*data, k=1, **rule),
        "mean_ndcg": mean_ndcg(*data, **rule),
        "p@5": precision(*data, k=5, **rule),
        "precision@5": precision(*data, k=5, **rule),
        "recall@20": recall(*data, k=20, **rule),
        "map": average_precision(*data, **rule),
        "map@3": average_precision(*data, k=3, **rule),
        "mrr": reciprocal_rank(*data, **rule),
        "mrr@2": reciprocal_rank(*data, k=2, **rule),
        "err@20": err(*data, k=20, **rule),
        "dcg@3": dcg(*data, k=3, **rule),
    }
    values = evaluate_ranking(*data, metrics=list(by_function), convention=convention)
    assert list(values) == list(by_function)
    assert values == pytest.approx(by_function, rel=1e-13)
    per_query = evaluate_ranking(*data, metrics="mrr", convention=convention, per_query=True)
    assert per_query["mrr"].tolist() == reciprocal_rank(*data, per_query=True, **rule).tolist()


def test_evaluate_ranking_by_default():
    values = evaluate_ranking([1, 0], [2, 1])
    assert values == {"ndcg@1": 1, "ndcg@5": 1, "ndcg@10": 1, "map": 1, "mrr": 1}


@pytest.mark.parametrize("name", ["auc", "ndcg@0", "ndcg@", "ndcg@-1", "@5", "mean_ndcg@5", 5])
def test_evaluate_ranking_names_what_it_knows(name):
    with pytest.raises(ValueError, match=r"metrics contains .*known are dcg, ndcg, mean_ndcg"):
        evaluate_ranking([1, 0], [2, 1], metrics=["ndcg", name])
