"""λ by a rule, and the noise of a table."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from robirank import LatentRoBiRank, Popularity, evaluate
from robirank.latent.solvers.problem import RowLengths, RowWeights
from robirank.latent.tune.settle import default_regularization, noise_level


@pytest.mark.parametrize(("n_users", "n_items", "mean"), [(400, 300, 20), (2000, 200, 8)])
def test_noise_level_is_that_of_a_table_whose_items_were_shuffled(n_users, n_items, mean):
    rng = np.random.default_rng(0)
    counts = np.maximum(1, rng.poisson(mean, n_users))
    items = rng.choice(n_items, counts.sum(), p=rng.dirichlet(np.full(n_items, 3.0)))
    table = np.zeros((n_users, n_items))
    np.add.at(table, (np.repeat(np.arange(n_users), counts), items), 1.0)
    rows, columns = table.sum(1), table.sum(0)
    sides = RowLengths.of_counts(rows.astype(int)), RowLengths.of_counts(columns.astype(int))
    for exponents in ((0.5, 0.85), (1.0, 1.0)):
        a, b = (
            RowWeights.scaled(e, side).of(n.astype(int))
            for e, side, n in zip(exponents, sides, (rows, columns), strict=True)
        )
        weighted = table / np.sqrt(a)[:, None] / np.sqrt(np.maximum(b, 1e-9))
        values = np.linalg.svd(weighted, compute_uv=False) / (2 * np.log(2))
        assert_allclose(noise_level(*sides, exponents), values[1:4].mean(), rtol=0.08)


def test_default_is_the_noise_where_records_say_little():
    side = RowLengths([20], [50])
    one = default_regularization(side, side)
    assert one == pytest.approx(1.3 * noise_level(side, side) * 20**-0.2)
    assert default_regularization(side, side, factors=256) > one
    assert default_regularization(side, side, rho="identity") > one
    assert default_regularization(side, side, rho="type2") < one


def test_a_handful_of_records_does_not_forbid_every_taste():
    few = RowLengths([2], [5])
    assert noise_level(few, few) > 0.7
    assert default_regularization(few, few) == 0.55


def test_a_table_without_records_has_no_noise():
    assert noise_level(RowLengths([0], [3]), RowLengths([], [])) == 0.0


def test_a_record_of_each_user_is_popularity_and_nothing_else():
    rng = np.random.default_rng(0)
    n, m = 3000, 300
    share = np.arange(1, m + 1) ** -0.8
    drawn = rng.choice(m, (2, n), p=rng.permutation(share / share.sum()))
    train, test = (
        sp.csr_matrix((np.ones(n, np.float32), (np.arange(n), items)), (n, m)) for items in drawn
    )
    popular = Popularity().fit(train)
    model = LatentRoBiRank(random_state=0, iterations=16).fit(train, False)
    found, best = (
        evaluate(one, train=train, test=test, k=20)["recall@20"] for one in (model, popular)
    )
    assert found > 0.9 * best
