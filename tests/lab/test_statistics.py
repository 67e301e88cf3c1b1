"""Paired tests: exact values on small samples, and error rates on data without a difference."""

from itertools import product

import numpy as np
import pytest

from robirank_lab.statistics import bootstrap_interval, compare, holm, paired_t, sign_flip_p


def test_sign_flips_approach_the_exact_p_value():
    d = np.array([0.3, -0.1, 0.2, 0.5, 0.05, -0.02, 0.4])
    means = [abs(np.dot(s, d)) for s in product([-1, 1], repeat=len(d))]
    exact = np.mean(np.array(means) >= abs(d.sum()) - 1e-12)
    assert sign_flip_p(d, n_resamples=200_000) == pytest.approx(exact, abs=3e-3)


def test_false_alarms_come_at_their_rate():
    rng = np.random.default_rng(0)
    p = [sign_flip_p(rng.standard_normal(40), n_resamples=400) for _ in range(400)]
    assert 0.02 < np.mean(np.array(p) < 0.05) < 0.09


def test_intervals_cover_the_mean_at_their_rate():
    rng = np.random.default_rng(1)
    found = [bootstrap_interval(rng.normal(0.3, 1, 60), n_resamples=400) for _ in range(300)]
    assert 0.90 < np.mean([low <= 0.3 <= high for low, high in found]) < 0.98


def test_one_query_has_no_width():
    assert bootstrap_interval([0.25]) == (0.25, 0.25)
    assert sign_flip_p([0.25]) == 1.0


def test_holm_by_hand():
    # Sorted .005 .01 .03 .04 times 4 3 2 1; the third, .06, holds the fourth up.
    assert holm([0.04, 0.01, 0.005, 0.03]) == pytest.approx([0.06, 0.03, 0.02, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_comparison_has_the_sign_of_the_method():
    rng = np.random.default_rng(2)
    base = rng.random(60)
    values = {"base": base, "better": base + 0.1, "same": base + 0.01 * rng.standard_normal(60)}
    better, same = compare(values, "base", metric="ndcg@10")
    assert (better.method, same.method) == ("better", "same")
    assert better.difference == pytest.approx(0.1)
    assert better.low > 0
    assert better.p_adjusted < 0.01
    assert same.low < 0 < same.high
    assert same.p_adjusted > 0.05


def test_nothing_to_compare_is_an_error():
    with pytest.raises(ValueError, match="one a query"):
        sign_flip_p([])
    with pytest.raises(ValueError, match="finite"):
        bootstrap_interval([0.1, np.nan])


def test_student_by_hand():
    """Mean 2, standard deviation 1, three values: t = 2 √3, and t(0.975; 2) = 4.303."""
    found = paired_t([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.high - found.mean == pytest.approx(4.302653 / 3**0.5, rel=1e-6)
    assert found.mean - found.low == pytest.approx(found.high - found.mean)
    assert found.p == pytest.approx(0.0742, abs=1e-4)


def test_student_without_spread():
    assert paired_t([0.0, 0.0]) == (0.0, 0.0, 0.0, 1.0)
    assert paired_t([0.5, 0.5]) == (0.5, 0.5, 0.5, 0.0)
    alone = paired_t([0.5])
    assert (alone.mean, alone.p) == (0.5, 1.0)
    assert np.isnan([alone.low, alone.high]).all()
