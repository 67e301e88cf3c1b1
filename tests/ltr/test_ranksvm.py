"""RankSVM: the fast pair sum against the plain one, and the optimum against a generic solver."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from robirank import make_ranking
from robirank._queries import group_queries
from robirank.ltr.ranksvm import PairSum, RankSVM


def plain_pair_sum(scores, y, qid):
    """Every pair, one after the other."""
    loss, count = 0.0, 0
    gradient = np.zeros(len(scores))
    for i in range(len(y)):
        for j in range(len(y)):
            if qid[i] == qid[j] and y[i] > y[j]:
                count += 1
                d = max(0.0, 1.0 - scores[i] + scores[j])
                loss += d**2
                gradient[i] -= 2 * d
                gradient[j] += 2 * d
    return loss, gradient, count


@given(
    rows=st.lists(
        st.tuples(
            # Multiples of 1/4 hit the margin and ties exactly.
            st.integers(-12, 12).map(lambda i: i / 4) | st.floats(-100, 100),
            st.integers(0, 4),
            st.integers(0, 2),
        ),
        min_size=1,
        max_size=25,
    )
)
def test_fast_sum_is_the_sum_over_pairs(rows):
    scores, y, qid = (np.array(column) for column in zip(*rows, strict=True))
    loss, gradient, count = plain_pair_sum(scores, y, qid)
    pairs = PairSum(y.astype(float), group_queries(qid, len(y)), num_threads=1)
    assert pairs.count == count
    fast, slope = pairs(scores.astype(float))
    assert_allclose(fast * max(count, 1), loss, rtol=1e-9, atol=1e-9)
    assert_allclose(slope * max(count, 1), gradient, rtol=1e-9, atol=1e-8)


def test_large_scores_keep_their_digits():
    rng = np.random.default_rng(0)
    scores, y = rng.standard_normal(60), rng.integers(0, 3, 60)
    near, far = (
        PairSum(y.astype(float), group_queries(None, 60))(scores + shift)[1] for shift in (0.0, 1e6)
    )
    assert_allclose(far, near, atol=1e-8)


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=15, n_docs=8, n_features=4, noise=0.5, random_state=0)


def test_optimum_is_that_of_a_generic_solver(data):
    C = 0.02
    data = data.take(data.qid <= np.unique(data.qid)[5])  # the definition is slow

    def objective(w):
        return 0.5 * w @ w + C * plain_pair_sum(data.X @ w, data.y, data.qid)[0]

    model = RankSVM(C, tol=1e-9).fit(data.X, data.y, qid=data.qid)
    generic = minimize(objective, np.zeros(4), tol=1e-9)
    assert_allclose(model.coef_, generic.x, rtol=1e-3, atol=1e-5)


def test_optimum_is_a_linear_svm_on_differences(data):
    differences = [
        data.X[i] - data.X[j]
        for i in range(len(data))
        for j in range(len(data))
        if data.qid[i] == data.qid[j] and data.y[i] > data.y[j]
    ]
    both = np.vstack([differences, np.negative(differences)])
    signs = np.repeat([1, -1], len(differences))
    C = 0.02
    svm = LinearSVC(C=C / 2, fit_intercept=False, tol=1e-8, max_iter=100_000).fit(both, signs)
    model = RankSVM(C, tol=1e-9).fit(data.X, data.y, qid=data.qid)
    assert_allclose(model.coef_, svm.coef_[0], rtol=1e-3, atol=1e-5)


def test_separable_queries_are_ranked_perfectly():
    data = make_ranking(n_queries=20, n_docs=10, n_features=3, noise=0.0, random_state=1)
    model = RankSVM(C=1e4, max_iter=5000, tol=1e-8).fit(data.X, data.y, qid=data.qid)
    scores = model.predict(data.X)
    for q in np.unique(data.qid):
        rows = data.qid == q
        better = data.y[rows][:, None] > data.y[rows][None, :]
        assert (scores[rows][:, None] > scores[rows][None, :])[better].all()


def test_threads_do_not_change_a_bit():
    data = make_ranking(n_queries=300, n_docs=(1, 30), n_features=3, random_state=0)
    scores = data.X[:, 0].astype(float)
    queries = group_queries(data.qid, len(data))
    one, many = (PairSum(data.y, queries, num_threads=n)(scores) for n in (1, 5))
    assert one[0] == many[0]
    assert_array_equal(one[1], many[1])


def test_labels_that_are_all_alike_leave_nothing_to_learn():
    model = RankSVM().fit(np.eye(3), [1, 1, 1])
    assert_array_equal(model.coef_, 0.0)


@pytest.mark.parametrize(
    ("params", "message"),
    [({"C": 0.0}, "C must be a positive number"), ({"max_iter": 1.5}, "max_iter must be")],
)
def test_bad_parameters_are_named(data, params, message):
    with pytest.raises(ValueError, match=message):
        RankSVM(**params).fit(data.X, data.y, qid=data.qid)
