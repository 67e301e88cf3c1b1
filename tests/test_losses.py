"""The paper's losses: values worked by hand, derivatives by differences, bounds on random lists."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robirank import losses

LOG2_3 = math.log2(3)

numbers = st.floats(-30, 30)
positive = st.floats(0, 1e6)
rhos = pytest.mark.parametrize("rho", ["log", "identity", "type2"])


@st.composite
def lists(draw, max_items=12, ties=True):
    """One list: scores and grades 0 to 4."""
    n = draw(st.integers(1, max_items))
    scores = draw(st.lists(st.floats(-8, 8), min_size=n, max_size=n, unique=not ties))
    grades = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    return np.array(scores), 2.0 ** np.array(grades) - 1.0


def random_list(seed, n=9):
    rng = np.random.default_rng(seed)
    return rng.normal(scale=2.0, size=n), 2.0 ** rng.integers(0, 5, n) - 1.0


def central(f, t, h=1e-5):
    return (f(t + h) - f(t - h)) / (2 * h)


@pytest.mark.parametrize(
    ("f", "t", "value"),
    [
        (losses.sigma0, 0.0, 1.0),  # log2(1 + 1)
        (losses.sigma0, -1.0, LOG2_3),  # log2(1 + 2)
        (losses.sigma0, 1.0, LOG2_3 - 1),  # log2(1 + 1/2)
        (losses.sigma0, -2000.0, 2000.0),
        (losses.sigma0, 2000.0, 0.0),
        (losses.sigma0_prime, 0.0, -1 / 2),
        (losses.sigma0_prime, 1.0, -1 / 3),
        (losses.sigma0_prime, -2.0, -4 / 5),
        (losses.sigma0_prime, -1e6, -1.0),
        (losses.sigma0_prime, 1e6, 0.0),
        (losses.rho1, 0.0, 0.0),
        (losses.rho1, 7.0, 3.0),
        (losses.rho1_prime, 0.0, 1 / math.log(2)),
        (losses.rho2, 0.0, 0.0),
        (losses.rho2, 2.0, 1 / 2),
        (losses.rho2, 6.0, 2 / 3),
        (losses.rho2_prime, 0.0, 1 / (2 * math.log(2))),
        (losses.sigma1, 0.0, 1.0),  # log2(1 + 1)
        (losses.sigma1, -3e6, math.log2(3e6 + 1)),
        (losses.sigma2, 0.0, 1 - 1 / LOG2_3),  # 1 − 1/log2(1 + 2)
        (losses.sigma2, 1e6, 0.0),
        (losses.xi, 3.0, 1 / 4),
    ],
)
def test_values_worked_by_hand(f, t, value):
    assert float(f(t)) == pytest.approx(value, rel=1e-12, abs=1e-15)


def test_small_arguments_keep_their_digits():
    # ρ1(t) ≈ t/ln 2 and ρ2(t) ≈ t/(2 ln 2); a plain log2(1 + t) would give 0 here.
    assert float(losses.rho1(1e-18)) == pytest.approx(1e-18 / math.log(2), rel=1e-12)
    assert float(losses.rho2(1e-18)) == pytest.approx(1e-18 / (2 * math.log(2)), rel=1e-12)


@pytest.mark.parametrize("name", ["sigma0", "sigma1", "sigma2"])
@given(t=numbers)
def test_slopes_of_losses_match_differences(name, t):
    slope = float(getattr(losses, f"{name}_prime")(t))
    assert slope == pytest.approx(float(central(getattr(losses, name), t)), rel=1e-5, abs=1e-8)
    assert -1 / math.log(2) <= slope <= 0


@rhos
@given(t=st.floats(0.01, 1e3))
def test_derivatives_of_rho_match_differences(rho, t):
    transform = losses.RHOS[rho]
    h = 1e-4 * t
    assert float(transform.prime(t)) == pytest.approx(
        float(central(transform.value, t, h)), rel=1e-6, abs=1e-10
    )
    assert float(transform.second(t)) == pytest.approx(
        float(central(transform.prime, t, h)), rel=1e-6, abs=1e-10
    )


@given(t=numbers)
def test_logistic_and_type1_bound_the_zero_one_loss(t):
    mistake = float(t < 0)
    assert float(losses.sigma0(t)) >= mistake
    assert float(losses.sigma1(t)) >= mistake
    assert float(losses.sigma2(t)) / float(losses.sigma2(0.0)) >= mistake - 1e-15


def test_type2_gives_up_and_type1_almost_does():
    far = [-1e3, -1e6, -1e9]
    assert np.all(losses.sigma2(far) < 1)
    np.testing.assert_allclose(losses.sigma1(far), np.log2(1 + np.abs(far)), rtol=1e-12)
    assert np.all(np.abs(losses.sigma1_prime(far)) < np.array([2e-3, 2e-6, 2e-9]))
    np.testing.assert_allclose(losses.sigma0_prime(far), -1.0)


@given(t=positive)
def test_rho1_is_above_rho2(t):
    assert float(losses.rho1(t)) >= float(losses.rho2(t))


@given(t=positive, xi=st.floats(1e-7, 1e3))
def test_xi_bound_holds_everywhere(t, xi):
    bound = float(losses.xi_bound(t, xi))
    assert bound >= float(losses.rho1(t)) - 1e-9 * (1 + abs(bound))


@given(t=positive)
def test_xi_bound_is_tight_at_the_best_xi_and_not_beside_it(t):
    best = float(losses.xi(t))
    assert float(losses.xi_bound(t, best)) == pytest.approx(float(losses.rho1(t)), abs=1e-9)
    for other in (best * 2, best / 2):
        assert float(losses.xi_bound(t, other)) > float(losses.rho1(t)) + 0.1


def test_rank_counts_strictly_greater_scores():
    assert losses.rank([5.0, 1.0, 3.0, 3.0]).tolist() == [0, 3, 1, 1]
    assert losses.rank([2.0, 2.0, 2.0]).tolist() == [0, 0, 0]
    assert losses.rank([]).tolist() == []


@given(lists())
def test_rank_matches_its_definition(items):
    scores, _ = items
    assert losses.rank(scores).tolist() == [int(sum(o > s for o in scores)) for s in scores]


@given(lists())
def test_chain_of_bounds(items):
    """The paper, below equation 11: L̄1 ≥ L̄2 ≥ L2, and above all the convex L̄."""
    scores, weights = items
    identity = losses.list_loss(scores, weights, "identity").loss
    type1 = losses.list_loss(scores, weights, "log").loss
    type2 = losses.list_loss(scores, weights, "type2").loss
    discrete = losses.rank_loss(scores, weights, "type2")
    slack = 1e-9 * (1 + identity)
    assert type1 >= type2 - slack
    assert type2 >= discrete - slack
    assert identity >= losses.rank_loss(scores, weights, "identity") - slack


@given(lists(ties=False))
def test_rank_loss_is_what_dcg_misses(items):
    scores, gains = items
    by_score = gains[np.argsort(-scores)]
    dcg = sum(gain / math.log2(place + 2) for place, gain in enumerate(by_score))
    assert gains.sum() - losses.rank_loss(scores, gains) == pytest.approx(dcg, rel=1e-12, abs=1e-12)


def dumb_list_loss(scores, weights, rho):
    total = 0.0
    for y in range(len(scores)):
        t = 0.0
        for other in range(len(scores)):
            if other != y:
                t += math.log2(1 + 2 ** (scores[other] - scores[y]))
        value = {"log": math.log2(1 + t), "identity": t, "type2": 1 - 1 / math.log2(2 + t)}[rho]
        total += weights[y] * value
    return total


@rhos
@given(items=lists())
def test_list_loss_matches_a_double_loop(rho, items):
    scores, weights = items
    expected = dumb_list_loss(scores, weights, rho)
    assert losses.list_loss(scores, weights, rho).loss == pytest.approx(expected, rel=1e-10)


def test_list_loss_worked_by_hand():
    # t = σ0(1 − 0) + σ0(1 − 1) = log2(3/2) + 1 = log2(3), so ρ1(t) = log2(1 + log2 3).
    result = losses.list_loss([1.0, 0.0, 1.0], [3.0, 0.0, 0.0])
    assert result.t.tolist() == pytest.approx([LOG2_3, 0.0, 0.0])
    assert result.loss == pytest.approx(3 * math.log2(1 + LOG2_3))
    # ρ1′(t) = 1/(ln 2 (1 + log2 3)); −σ0′ is 1/3 against the middle item, 1/2 against the last.
    slope = 3 / (math.log(2) * (1 + LOG2_3))
    assert result.gradient.tolist() == pytest.approx([-slope * 5 / 6, slope / 3, slope / 2])


@rhos
@pytest.mark.parametrize("seed", range(5))
def test_gradient_matches_differences(rho, seed):
    scores, weights = random_list(seed)
    eye = np.eye(len(scores))
    expected = [
        central(lambda h, e=e: losses.list_loss(scores + h * e, weights, rho).loss, 0.0)
        for e in eye
    ]
    gradient = losses.list_loss(scores, weights, rho).gradient
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-8)


@rhos
@pytest.mark.parametrize("seed", range(5))
def test_hessian_matches_differences_of_the_gradient(rho, seed):
    scores, weights = random_list(seed)
    expected = [
        central(lambda h, e=e: losses.list_loss(scores + h * e, weights, rho).gradient, 0.0)[j]
        for j, e in enumerate(np.eye(len(scores)))
    ]
    hessian = losses.list_loss(scores, weights, rho).hessian
    np.testing.assert_allclose(hessian, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_majorant_is_the_hessian_of_the_bound_with_fixed_xi(seed):
    scores, weights = random_list(seed)
    fixed = losses.list_loss(scores, weights)
    best = losses.xi(fixed.t)

    def bound(s):
        t = losses.list_loss(s, weights).t
        return float(np.dot(weights, losses.xi_bound(t, best)))

    h = 1e-3
    expected = [
        (bound(scores + h * e) - 2 * bound(scores) + bound(scores - h * e)) / h**2
        for e in np.eye(len(scores))
    ]
    assert bound(scores) == pytest.approx(fixed.loss)
    np.testing.assert_allclose(fixed.majorant, expected, rtol=1e-5, atol=1e-7)


@rhos
@given(items=lists())
def test_majorant_is_never_negative_nor_below_the_hessian(rho, items):
    result = losses.list_loss(*items, rho)
    assert (result.majorant >= 0).all()
    assert (result.majorant >= result.hessian - 1e-12).all()


def test_hessian_can_be_negative():
    # An item far below many others: ρ's concavity wins, which is why boosters need the majorant.
    result = losses.list_loss([-5.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0])
    assert result.hessian[0] < 0 < result.majorant[0]


@rhos
@given(items=lists(), shift=st.floats(-50, 50))
def test_only_differences_of_scores_count(rho, items, shift):
    scores, weights = items
    here, there = (losses.list_loss(s, weights, rho) for s in (scores, scores + shift))
    assert there.loss == pytest.approx(here.loss, rel=1e-9)
    np.testing.assert_allclose(there.gradient, here.gradient, rtol=1e-8, atol=1e-9)
    assert abs(here.gradient.sum()) <= 1e-12 * (1 + np.abs(here.gradient).sum())


@rhos
@given(items=lists(), seed=st.integers(0, 99))
def test_order_of_items_does_not_count(rho, items, seed):
    scores, weights = items
    order = np.random.default_rng(seed).permutation(len(scores))
    here = losses.list_loss(scores, weights, rho)
    there = losses.list_loss(scores[order], weights[order], rho)
    assert there.loss == pytest.approx(here.loss, rel=1e-12)
    np.testing.assert_allclose(there.gradient, here.gradient[order], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(there.hessian, here.hessian[order], rtol=1e-10, atol=1e-12)


@rhos
def test_one_item_and_no_relevant_item_have_no_loss(rho):
    for scores, weights in [([3.0], [7.0]), ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0]), ([], [])]:
        result = losses.list_loss(scores, weights, rho)
        assert result.loss == 0
        for derivative in (result.gradient, result.hessian, result.majorant):
            assert derivative.tolist() == [0.0] * len(scores)


@rhos
def test_equal_scores(rho):
    # Each of n − 1 others costs σ0(0) = 1, so t = n − 1 for all; by symmetry nobody moves.
    result = losses.list_loss(np.full(8, 2.5), np.ones(8), rho)
    expected = {"log": 3.0, "identity": 7.0, "type2": 1 - 1 / math.log2(9)}[rho]
    assert result.loss == pytest.approx(8 * expected)
    np.testing.assert_allclose(result.t, 7.0)
    np.testing.assert_allclose(result.gradient, 0.0, atol=1e-15)


def test_extreme_scores_are_finite_and_right():
    # The relevant item is 2·10⁶ below the other: t = 2·10⁶, slope ρ1′(t).
    lost = losses.list_loss([-1e6, 1e6], [1.0, 0.0])
    assert lost.loss == pytest.approx(math.log2(2e6 + 1), rel=1e-14)
    slope = 1 / (math.log(2) * (2e6 + 1))
    assert lost.gradient.tolist() == pytest.approx([-slope, slope], rel=1e-12)
    assert lost.majorant.tolist() == [0.0, 0.0]
    won = losses.list_loss([1e6, -1e6], [1.0, 0.0])
    assert won.loss == 0
    assert won.gradient.tolist() == [0.0, 0.0]


def test_lists_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match=r"got shapes \(3,\) and \(2,\)"):
        losses.list_loss([1.0, 2.0, 3.0], [1.0, 0.0])
    with pytest.raises(ValueError, match="one-dimensional"):
        losses.list_loss([[1.0, 2.0]], [[1.0, 0.0]])
    with pytest.raises(ValueError, match=r"weights must be ≥ 0; the smallest is -1\.0"):
        losses.list_loss([1.0, 2.0], [-1.0, 1.0])
    with pytest.raises(ValueError, match="weights must be ≥ 0"):
        losses.rank_loss([1.0, 2.0], [math.nan, 1.0])
    with pytest.raises(ValueError, match=r"rho must be one of .*'log'.*; got 'rho1'"):
        losses.list_loss([1.0, 2.0], [0.0, 1.0], "rho1")


@given(st.lists(st.floats(-60, 60), min_size=1, max_size=40), st.floats(0.1, 20))
def test_the_pull_of_one_document_is_bounded(others, weight):
    """The identity loss's is not: a hopeless document pulls by as much as it has rivals."""
    scores = np.array([0.0, *others])
    weights = np.array([weight, *np.zeros(len(others))])
    t = losses.sigma0(-np.array(others)).sum()
    pull = {rho: -losses.list_loss(scores, weights, rho).gradient[0] for rho in losses.RHOS}
    assert pull["log"] <= weight * t / (1 + t) * (1 + 1e-9)
    assert pull["type2"] <= weight * t / ((2 + t) * np.log2(2 + t) ** 2) * (1 + 1e-9)
    assert pull["identity"] <= weight * len(others) * (1 + 1e-9)
    for_one = weight / (losses.LN2 * (1 + max(0.0, others[0])))
    one = losses.rho1_prime(t) * weight * -losses.sigma0_prime(-others[0])
    assert one <= for_one * (1 + 1e-9)


def test_a_hopeless_document_pulls_the_identity_loss_alone():
    scores, weights = np.append(np.zeros(100), -1000.0), np.append(np.zeros(100), 1.0)
    pull = {rho: -losses.list_loss(scores, weights, rho).gradient[-1] for rho in losses.RHOS}
    assert pull["identity"] == pytest.approx(100)
    assert pull["log"] == pytest.approx(1 / (losses.LN2 * 1000), rel=1e-3)
    assert pull["type2"] < 1e-5
