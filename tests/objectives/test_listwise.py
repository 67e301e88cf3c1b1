"""The native listwise kernel against the plain reference and against finite differences."""

import os
import pickle
import signal
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from robirank import _core, listwise_loss, losses, make_ranking
from robirank._queries import group_queries
from robirank.objectives.listwise import Lists

RHOS = ("log", "identity", "type2")
METHODS = ("direct", "grid")
TOLERANCE = {"direct": 1e-12, "grid": 1e-4}


def lists_of(weights, **settings):
    """One list whose relevant items carry exactly the given weights."""
    weights = np.asarray(weights, dtype=np.float64)
    relevant = np.flatnonzero(weights > 0)
    starts = np.array([0, len(relevant)])
    queries = group_queries(None, len(weights))
    return Lists(queries, starts, relevant.astype(np.int32), weights[relevant], **settings)


def random_list(rng, items, spread, share=0.2):
    scores = spread * rng.standard_normal(items)
    weights = np.where(rng.random(items) < share, rng.random(items), 0.0)
    weights[rng.integers(items)] = 1.0
    return scores, weights


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("items", [2, 7, 63, 600, 5000])
@pytest.mark.parametrize("spread", [0.01, 1.0, 20.0])
def test_kernel_agrees_with_reference(instruction_set, rho, method, items, spread):
    scores, weights = random_list(np.random.default_rng(items), items, spread, share=20 / items)
    reference = losses.list_loss(scores, weights, rho)
    lists = lists_of(weights, rho=rho, method=method)
    got = lists.evaluate(scores, hessian="exact")
    bound = lists.evaluate(scores, hessian="majorant")
    tolerance = TOLERANCE[method]
    assert_allclose(got.loss, reference.loss, rtol=tolerance)
    assert_allclose(got.t, reference.t[weights > 0], rtol=tolerance, atol=1e-12)
    for ours, exact in (
        (got.gradient, reference.gradient),
        (got.hessian, reference.hessian),
        (bound.hessian, reference.majorant),
    ):
        assert np.linalg.norm(ours - exact) <= tolerance * np.linalg.norm(exact) + 1e-13


@given(
    scores=st.lists(st.floats(-40, 40, width=32), min_size=1, max_size=60),
    seed=st.integers(0, 2**32 - 1),
    rho=st.sampled_from(RHOS),
    method=st.sampled_from(METHODS),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_any_list_agrees_with_reference(scores, seed, rho, method, dtype):
    scores = np.array(scores, dtype=dtype)
    rng = np.random.default_rng(seed)
    weights = rng.random(len(scores)) * (rng.random(len(scores)) < rng.random())
    reference = losses.list_loss(scores, weights, rho)
    got = lists_of(weights, rho=rho, method=method).evaluate(scores)
    assert_allclose(got.loss, reference.loss, rtol=TOLERANCE[method], atol=1e-12)
    scale = np.abs(reference.gradient).max(initial=0)
    precision = 1e-6 if dtype is np.float32 else 0
    assert_allclose(
        got.gradient,
        reference.gradient,
        rtol=0,
        atol=(TOLERANCE[method] + precision) * scale + 1e-12,
    )


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("method", METHODS)
def test_derivatives_against_finite_differences(rho, method):
    scores, weights = random_list(np.random.default_rng(3), 40, 2.0)
    got = lists_of(weights, rho=rho, method=method).evaluate(scores, hessian="exact")
    lists = lists_of(weights, rho=rho, method="direct")
    step = 1e-3
    for j in range(len(scores)):
        up, down = scores.copy(), scores.copy()
        up[j] += step
        down[j] -= step
        # The reference is differenced: the grid's own rounding would drown in the difference.
        rise = losses.list_loss(up, weights, rho).loss - losses.list_loss(down, weights, rho).loss
        assert_allclose(got.gradient[j], rise / (2 * step), rtol=1e-3, atol=1e-5)
        turn = lists.evaluate(up).gradient[j]
        turn -= lists.evaluate(down).gradient[j]
        assert_allclose(got.hessian[j], turn / (2 * step), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_items_far_from_all_relevant_ones_have_closed_forms(instruction_set, method, dtype):
    scores = np.linspace(-50, 50, 1001).astype(dtype)  # 180 are more than 32 above, as many below
    weights = np.zeros(1001)
    weights[[490, 500]] = 1.0
    reference = losses.list_loss(scores, weights, "identity")
    got = lists_of(weights, rho="identity", method=method).evaluate(scores)
    assert_allclose(got.loss, reference.loss, rtol=1e-6)
    assert_allclose(got.gradient, reference.gradient, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_scores_are_finite_and_right(instruction_set, method, dtype):
    scores = np.array([1e6, -1e6, 0.0, 1e6, 3.0], dtype=dtype)
    weights = np.array([1.0, 2.0, 0.5, 0.0, 0.0])
    for rho in RHOS:
        reference = losses.list_loss(scores, weights, rho)
        got = lists_of(weights, rho=rho, method=method).evaluate(scores, hessian="exact")
        assert_allclose(got.loss, reference.loss, rtol=1e-12)
        assert_allclose(got.gradient, reference.gradient, rtol=1e-6, atol=1e-12)
        assert_allclose(got.hessian, reference.hessian, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_outlying_irrelevant_items_stay_outside_the_grid(instruction_set, method):
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.standard_normal(500), [-1e5, -60.0, -45.5, 45.0, 70.0, 1e5]])
    weights = np.zeros(506)
    weights[:20] = 1.0
    for rho in RHOS:
        reference = losses.list_loss(scores, weights, rho)
        got = lists_of(weights, rho=rho, method=method).evaluate(scores, hessian="exact")
        assert_allclose(got.loss, reference.loss, rtol=TOLERANCE[method])
        # Far items have tiny gradients of their own; they too are right to many digits.
        assert_allclose(got.gradient[500:], reference.gradient[500:], rtol=1e-4, atol=1e-300)
        assert_allclose(got.hessian[500:503], reference.hessian[500:503], rtol=1e-4, atol=1e-300)
        assert_allclose(got.gradient, reference.gradient, rtol=1e-3, atol=1e-4)


def test_well_separated_item_keeps_its_digits_on_the_grid():
    # t is about 1e-4: taking the item itself out of the sum must leave nothing behind.
    scores = np.concatenate([[21.3], np.random.default_rng(0).uniform(-1, 1, 200)])
    weights = np.zeros(201)
    weights[0] = 1.0
    reference = losses.list_loss(scores, weights)
    got = lists_of(weights, method="grid").evaluate(scores)
    assert_allclose(got.t, reference.t[:1], rtol=1e-4)
    assert_allclose(got.gradient, reference.gradient, rtol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_degenerate_lists(method):
    one = listwise_loss([3.0], [2], method=method, hessian="exact")
    assert (one.loss, one.gradient[0], one.hessian[0]) == (0.0, 0.0, 0.0)
    nothing = listwise_loss([3.0, 1.0], [0, 0], method=method, hessian="exact")
    assert nothing.loss == 0.0
    assert_array_equal(nothing.gradient, [0.0, 0.0])
    # All relevant, all equal: every t is n - 1, every gradient cancels.
    n = 50
    equal = listwise_loss(np.full(n, 7.0), np.ones(n), metric="dcg", method=method)
    assert_allclose(equal.loss, n * np.log2(n), rtol=TOLERANCE[method])
    assert_allclose(equal.gradient, 0.0, atol=TOLERANCE[method])
    assert_allclose(equal.t, n - 1, rtol=TOLERANCE[method])


@pytest.mark.parametrize("relevant", [3, 1_000_000])
def test_a_million_items(relevant):
    rng = np.random.default_rng(0)
    scores = rng.standard_normal(1_000_000).astype(np.float32)
    y = np.zeros(len(scores))
    y[:relevant] = 1
    got = listwise_loss(scores, y, metric="dcg", hessian="majorant")
    assert np.isfinite(got.gradient).all()
    assert (got.hessian >= 0).all()
    # Two relevant items by hand, in double precision.
    for place in (0, 2):
        t = losses.sigma0(float(scores[place]) - scores.astype(np.float64)).sum() - 1
        assert_allclose(got.t[place], t, rtol=1e-4)


def test_auto_picks_a_method_that_agrees():
    rng = np.random.default_rng(1)
    for items, share in ((50, 0.5), (100_000, 0.001)):
        scores, weights = random_list(rng, items, 3.0, share)
        auto = lists_of(weights, method="auto").evaluate(scores)
        direct = lists_of(weights, method="direct").evaluate(scores)
        assert_allclose(auto.loss, direct.loss, rtol=1e-4)
        # Short lists must be summed exactly, long ones must not be.
        assert (auto.loss == direct.loss) == (items == 50)


def batch(rng, n_queries=300):
    sizes = rng.integers(1, 60, n_queries)
    qid = np.repeat(np.arange(n_queries), sizes)
    return rng.standard_normal(len(qid)), rng.integers(0, 4, len(qid)), qid


def test_batch_is_the_sum_of_its_lists_and_rows_may_come_in_any_order():
    rng = np.random.default_rng(2)
    scores, y, qid = batch(rng)
    got = listwise_loss(scores, y, qid, metric="dcg", hessian="majorant")
    total = 0.0
    gradient = np.zeros_like(scores)
    used = len({q for q, label in zip(qid, y, strict=True) if label > 0})
    for q in np.unique(qid):
        rows = qid == q
        one = losses.list_loss(scores[rows], (2.0 ** y[rows] - 1) / used)
        total += one.loss
        gradient[rows] = one.gradient
    assert_allclose(got.loss, total, rtol=1e-12)
    assert_allclose(got.gradient, gradient, atol=1e-14)

    shuffle = rng.permutation(len(qid))
    names = np.array([f"query {q}" for q in qid])
    mixed = listwise_loss(scores[shuffle], y[shuffle], names[shuffle], metric="dcg")
    assert_allclose(mixed.loss, got.loss, rtol=1e-12)
    assert_allclose(mixed.gradient, got.gradient[shuffle], atol=1e-14)


def test_same_bits_for_any_number_of_threads():
    rng = np.random.default_rng(4)
    scores, y, qid = batch(rng, 2000)
    X = rng.standard_normal((len(y), 13)).astype(np.float32)
    lists = Lists.build(y, group_queries(qid, len(y)))
    w = rng.standard_normal(13)
    one = listwise_loss(scores, y, qid, num_threads=1)
    loss, gradient = replace(lists, num_threads=1).of_linear(X, w)
    for threads in (2, 3, 7):
        many = listwise_loss(scores, y, qid, num_threads=threads)
        assert many.loss == one.loss
        assert_array_equal(many.gradient, one.gradient)
        loss_too, gradient_too = replace(lists, num_threads=threads).of_linear(X, w)
        assert loss_too == loss
        assert_array_equal(gradient_too, gradient)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 3, 16, 37])
@pytest.mark.parametrize("shuffled", [False, True])
def test_linear_pass_is_the_chain_rule(instruction_set, dtype, columns, shuffled):
    rng = np.random.default_rng(5)
    _, y, qid = batch(rng)
    if shuffled:
        qid = rng.permutation(qid)
    X = rng.standard_normal((len(y), columns)).astype(dtype)
    w = rng.standard_normal(columns)
    for rho in RHOS:
        lists = Lists.build(y, group_queries(qid, len(y)), rho=rho)
        plain = lists.evaluate(X.astype(np.float64) @ w)
        loss, gradient = lists.of_linear(X, w)
        assert_allclose(loss, plain.loss, rtol=1e-12)
        assert_allclose(gradient, X.astype(np.float64).T @ plain.gradient, atol=1e-12)


def test_metric_weights():
    y = np.array([2.0, 0.0, 1.0])
    ideal = 3.0 + 1.0 / np.log2(3)
    dcg = Lists.build(y, group_queries(None, 3), metric="dcg")
    ndcg = Lists.build(y, group_queries(None, 3), metric="ndcg")
    assert_allclose(dcg.weight, [3.0, 1.0])
    assert_allclose(ndcg.weight, np.array([3.0, 1.0]) / ideal)


def test_weights_of_samples_and_queries():
    scores, y, qid = batch(np.random.default_rng(6), 20)
    plain = listwise_loss(scores, y, qid)
    double = listwise_loss(scores, y, qid, sample_weight=np.full(len(y), 2.0))
    assert_allclose(double.loss, 2 * plain.loss)
    # Scaling all queries alike changes nothing; leaving one out is weighting it 0.
    same = listwise_loss(scores, y, qid, query_weight=dict.fromkeys(range(20), 3.0))
    assert_allclose(same.loss, plain.loss)
    without = listwise_loss(scores[qid > 0], y[qid > 0], qid[qid > 0])
    zero = listwise_loss(scores, y, qid, query_weight=(qid > 0).astype(float))
    assert_allclose(zero.loss, without.loss)
    assert_array_equal(zero.gradient[qid == 0], 0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rho": "hinge"}, "rho must be one of"),
        ({"method": "fft"}, "method must be one of"),
        ({"metric": "map"}, "metric must be one of"),
        ({"gain": "log"}, "gain must be one of .* or a callable"),
        ({"hessian": "full"}, "hessian must be one of"),
        ({"num_threads": 1.5}, r"num_threads must be 0 \(all cores\) or more"),
        ({"sample_weight": [1.0]}, "sample_weight must have one value"),
        ({"sample_weight": [1.0, -1.0]}, "non-negative"),
        ({"query_weight": {7: 1.0}}, "query_weight has no weight for 1 queries, such as 0"),
        ({"query_weight": [1.0, 2.0]}, "same for all rows"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        listwise_loss([0.0, 1.0], [1, 0], [0, 0], **arguments)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("method", METHODS)
def test_scores_that_are_not_finite_are_refused(instruction_set, bad, method):
    scores = np.zeros(100)
    scores[37] = bad
    with pytest.raises(ValueError, match="finite"):
        listwise_loss(scores, np.ones(100), method=method)


@pytest.mark.parametrize(
    ("label", "gain", "message"),
    [
        (-1.0, "exp", r"y must not be negative with gain='exp'; y\[1\] is -1"),
        (-1.0, "linear", r"gain must not be negative.* for the label y\[1\] = -1"),
        (np.nan, "exp", r"gain must be finite; it is nan for the label y\[1\] = nan"),
        (np.nan, "linear", r"gain must be finite; it is nan for the label y\[1\] = nan"),
        (5000.0, "exp", r"gain must be finite; it is inf for the label y\[1\] = 5000"),
    ],
)
def test_labels_without_a_gain_are_refused(label, gain, message):
    with pytest.raises(ValueError, match=message):
        listwise_loss([0.0, 1.0], [1.0, label], gain=gain)


def test_a_gain_of_ones_own():
    roots = listwise_loss([0.0, 1.0], [0.0, 4.0], gain=np.sqrt, metric="dcg")
    assert roots.loss == listwise_loss([0.0, 1.0], [0.0, 2.0], gain="linear", metric="dcg").loss


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_forked_child_does_not_wait_for_its_parents_threads():
    scores, y, qid = batch(np.random.default_rng(0), 3000)
    expected = listwise_loss(scores, y, qid, num_threads=2).loss
    child = os.fork()
    if child == 0:
        os._exit(0 if listwise_loss(scores, y, qid).loss == expected else 1)
    deadline = time.monotonic() + 60
    done, status = 0, -1
    while not done and time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if not done:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert done
    assert status == 0


# Gradients for boosters


def test_booster_gradients_are_those_of_the_sum_over_queries():
    data = make_ranking(n_queries=12, n_docs=(2, 30), empty=0.2, random_state=0)
    scores = np.random.default_rng(0).standard_normal(len(data)) * 4
    lists = Lists.build(data.y, data.queries)
    n = np.unique(data.qid[data.y > 0]).size
    gradients = lists.booster_gradients()
    first = gradients(scores)[0]
    copied = first.copy()
    expected = listwise_loss(scores, data.y, data.qid, hessian="majorant")
    gradient, curvature = gradients(scores)
    assert gradient is first  # written in place
    assert_allclose(gradient, copied)
    assert_allclose(gradient, n * expected.gradient, rtol=1e-4, atol=1e-5)
    assert_allclose(curvature, n * expected.hessian, rtol=1e-3, atol=1e-5)


def test_booster_gradients_want_rows_query_by_query():
    lists = Lists.build(np.array([1.0, 0.0, 0.0]), group_queries(["a", "b", "a"], 3))
    with pytest.raises(ValueError, match="side by side"):
        lists.booster_gradients()
    with pytest.raises(ValueError, match="scores"):
        lists.in_order().booster_gradients()(np.zeros(2))


@pytest.mark.parametrize("name", ["gradient_out", "hessian_out"])
def test_native_arrays_to_write_to_must_fit(name):
    lists = Lists.build(np.array([1.0, 0.0]), group_queries(None, 2))
    out = {"gradient_out": np.empty(2, np.float32), "hessian_out": np.empty(2, np.float32)}
    how = {"rho": "log", "hessian": "majorant", "num_threads": 1}
    with pytest.raises(ValueError, match=name):
        _core.listwise_into(
            np.zeros(2), lists._batch, **out | {name: np.empty(3, np.float32)}, **how
        )


@pytest.mark.parametrize("scores", [[1j, 0.0], ["a", "b"]])
def test_scores_that_are_no_numbers(scores):
    with pytest.raises(ValueError, match="scores must be numbers; got"):
        listwise_loss(scores, [1, 0])


def test_the_batch_is_made_once_and_stays_behind_when_lists_are_pickled():
    lists = Lists.build(np.array([1.0, 0.0, 2.0]), group_queries([0, 0, 1], 3))
    before = lists(np.arange(3.0))
    assert lists._batch is lists._batch
    after = pickle.loads(pickle.dumps(lists))(np.arange(3.0))
    assert after[0] == before[0]
    assert_array_equal(after[1], before[1])
