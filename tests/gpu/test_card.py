"""The kernels on a card; skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import robirank as rr
from robirank.data.sparse_rows import SparseRows
from robirank.data.user_items import as_user_items
from robirank.latent.factors import topk_on_card
from robirank.latent.factors.questions import items_of_users
from robirank.latent.factors.topk import top_rows
from robirank.latent.gpu import fused, kernels, plain
from robirank.latent.gpu.batch import (
    AdamState,
    AdamStep,
    Batch,
    BatchInteractions,
    Curvature,
    Gradients,
    UserStep,
)
from robirank.latent.solvers import exact_on_card
from robirank.latent.solvers.design_on_card import CardDesign

STEP = AdamStep(0.3, 0.9, 0.99, 0.05, 1.7)

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no card")


def block(n, m, d, share, size, wide=False):
    rng = np.random.default_rng(0)
    chosen = rng.random((n, m)) < share
    chosen[np.arange(n), rng.integers(0, m, n)] = True
    interactions = as_user_items(sp.csr_matrix(chosen * rng.integers(1, 9, (n, m))), "log")
    U, V = (torch.tensor(size * rng.standard_normal((k, d))).float().cuda() for k in (n, m))
    if wide:
        U[::3] *= 1000
    return U, V, BatchInteractions.of_users(interactions, np.arange(n), U.device)


def by_kernels(U, V, interactions, rho="log", rows=None):
    """Losses and both gradients, of one model or of several; items are stepped with ``rows``."""
    steps = fused.gradients if U.ndim == 2 else fused.gradients_of_all
    found = steps(U, V, interactions, rho)
    return found.losses, found.users, found.of_items(U if rows is None else rows)


def directly(U, V, interactions, rho="log", rows=None):
    """The same of one model, a pair of items at a time in double precision."""
    U, V, exact = U.double(), V.double(), interactions.weights.double()
    rows = U if rows is None else rows.double()
    by_pairs = interactions._replace(weights=exact)
    losses, by_score = plain.direct_score_gradients(U @ V.T, by_pairs, rho)
    return losses, by_score @ V, by_score.T @ rows


@pytest.mark.parametrize("rho", ["log", "identity", "type2"])
@pytest.mark.parametrize(
    ("n", "m", "d", "share", "size", "wide"),
    [
        (1, 65, 4, 0.0, 1.0, False),
        (5, 300, 8, 1.0, 1.0, False),  # all positive
        (7, 300, 8, 0.1, 0.0, False),  # equal scores
        (9, 300, 8, 0.1, 1.0, True),  # some users spread far
        (65, 3000, 40, 0.02, 0.4, False),
        (130, 9000, 128, 0.005, 0.3, False),
        (33, 9000, 256, 0.005, 0.2, False),
    ],
)
def test_losses_and_gradients(rho, n, m, d, share, size, wide):
    U, V, interactions = block(n, m, d, share, size, wide)
    rows = 0.5 * U.flip(1)
    found, again = (by_kernels(U, V, interactions, rho, rows) for _ in range(2))
    expected = directly(U, V, interactions, rho, rows)
    for one, other, same in zip(found, expected, again, strict=True):
        assert torch.equal(one, same)
        assert (one - other).norm() <= 1e-3 * other.norm() + 1e-4 * float(expected[0].norm())


def test_scores_that_spread_far_are_counted_in_wide_bins():
    """Those of every third user spread over 136 to 211, those of the others over less than 40."""
    U, V, interactions = block(9, 300, 8, 0.1, 1.0)
    U[::3] *= 9
    found, expected = by_kernels(U, V, interactions), directly(U, V, interactions)
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() <= 1e-2 * other.norm()


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("n", "m", "d"), [(65, 3000, 40), (33, 2000, 128), (9, 700, 8)])
def test_several_models_at_once(n, m, d, wide):
    U, V, interactions = block(n, m, d, 0.02, 0.4, wide)
    models = [(U, V), (2 * U, V), (U.flip(0), 0.5 * V.flip(1))]
    Us, Vs = (torch.stack(factors) for factors in zip(*models, strict=True))
    rows = 0.5 * Us.flip(2)
    found = by_kernels(Us, Vs, interactions, rows=rows)
    for number, (u, v) in enumerate(models):
        alone = by_kernels(u, v, interactions, rows=rows[number])
        for one, other in zip(found, alone, strict=True):
            assert torch.equal(one[number], other)


@pytest.fixture(params=["together", "apart"])
def products(request, monkeypatch):
    """With four warps that multiply together, where the card can, and without."""
    if request.param == "apart":
        monkeypatch.setattr(kernels, "_TOGETHER_CAPABILITY", (0, 0))
    kernels.kernels_for.cache_clear()
    yield
    kernels.kernels_for.cache_clear()


@pytest.fixture
def one_range(monkeypatch):
    """As in steps of very many users, whose tiles fill the card."""

    def ranges(self, users, items):
        return -(-users // self.layout.rows), 1, -(-items // 256) * 256

    monkeypatch.setattr(kernels.Kernels, "ranges", ranges)


@pytest.mark.usefixtures("products", "one_range")
@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize(("m", "share"), [(20_001, 0.002), (200_001, 0.0002)])
def test_long_ranges_of_items(m, share, d):
    U, V, interactions = block(70, m, d, share, 2.4 / d**0.5)
    found = by_kernels(U, V, interactions)
    for one, other in zip(found, directly(U, V, interactions), strict=True):
        assert (one - other).norm() <= 5e-4 * other.norm()


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("d", [50, 64, 100, 128, 192, 256])
@pytest.mark.parametrize(("n", "m"), [(1, 65), (64, 512), (65, 513), (200, 9001), (513, 1500)])
def test_products_of_many_factors(n, m, d):
    U, V, interactions = block(n, m, d, 0.02, 0.3)
    models = [(U, V), (0.5 * U, V.flip(0))]
    Us, Vs = (torch.stack(factors) for factors in zip(*models, strict=True))
    for rows in (None, Us.flip(2)):
        found, again = (by_kernels(Us, Vs, interactions, rows=rows) for _ in range(2))
        for number, (u, v) in enumerate(models):
            right = None if rows is None else rows[number]
            expected = directly(u, v, interactions, rows=right)
            for one, other, same in zip(found, expected, again, strict=True):
                assert torch.equal(one[number], same[number])
                assert (one[number] - other).norm() <= 1e-3 * other.norm()


@pytest.mark.usefixtures("products", "one_range")
@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize(("n", "m"), [(3, 70), (130, 5001), (70, 20_001)])
def test_the_best_of_many_factors(n, m, d):
    rng = np.random.default_rng(0)
    queries, factors = (rng.integers(-2, 3, (k, d)).astype(np.float32) for k in (n, m))
    arguments = queries, np.arange(n, dtype=np.int32), factors, 20
    for here, there in zip(top_rows(*arguments), topk_on_card.top_rows(*arguments), strict=True):
        np.testing.assert_array_equal(here, there)


def test_a_model_that_has_diverged_leaves_others_alone():
    U, V, interactions = block(65, 3000, 40, 0.02, 0.4)
    bad = V.clone()
    bad[7, 3] = torch.nan
    found = by_kernels(torch.stack([U, U]), torch.stack([V, bad]), interactions)
    for one, other in zip(found, by_kernels(U, V, interactions), strict=True):
        assert torch.equal(one[0], other)
        assert one[1].isnan().all()


@pytest.mark.parametrize("rho", ["log", "identity", "type2"])
@pytest.mark.parametrize("travels", [False, True])
@pytest.mark.parametrize(("n", "d", "seen"), [(1, 4, 1.0), (70, 40, 0.5), (65, 256, 0.0)])
def test_a_step_of_users(n, d, seen, travels, rho):
    """Of two models with curvatures of their own, beside plain PyTorch."""
    rng = np.random.default_rng(0)
    everyone, scale = n + 9, {"log": 1.0, "identity": 50.0, "type2": 0.9}[rho]

    def numbers(*shape):
        return torch.tensor(rng.random(shape)).float().cuda()

    U, _, interactions = block(n, 300, d, 0.05, 0.3)
    places = torch.tensor(np.sort(rng.choice(everyone, n, replace=False))).cuda()
    batch = Batch(places.cpu().numpy(), places, interactions)
    rows, losses = torch.stack([U, 2 * U]), scale * numbers(2, len(interactions.items))
    found = Gradients(losses, numbers(2, n, d), lambda rows: rows)
    bases = torch.linalg.qr(numbers(2, d, d)).Q.contiguous()
    curvature = Curvature(numbers(2, d), bases, bases.mT.contiguous())
    weights, centres = 9 * numbers(everyone), None if travels else numbers(everyone, d)
    weights[places] += interactions.starts.diff()  # a loss under type2 is less than its weight
    step = UserStep(weights, 0.1 + numbers(2, everyone), centres, curvature, 2.0, seen)
    results = []
    for steps in (fused.step_users, exact_on_card.step_users):
        moved = torch.full((2, n if travels else everyone, d), 7.0).cuda()
        seen_rows = steps(rows, found, batch, rho, step, moved, None if travels else places)
        results.append((seen_rows, moved))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-4, atol=2e-4)
    if not travels:  # the rows of others stay
        others = np.setdiff1d(np.arange(everyone), batch.users)
        assert (results[0][1][:, others] == 7.0).all()


@pytest.mark.parametrize("n", [300, 90_000])
@pytest.mark.parametrize("width", [1, 16, 72, 264])
def test_a_sparse_product(width, n):
    """With a column that all rows have, as features do, which is a long row of the transpose."""
    rng = np.random.default_rng(0)
    F = sp.random(n, 90, 0.1, random_state=0, format="csr", dtype=np.float32)
    F = sp.hstack([F, np.ones((n, 1), np.float32)], format="csr")
    F = sp.vstack([F, sp.csr_matrix((1, 91), dtype=np.float32)], format="csr")  # a row of zeros
    design = CardDesign(SparseRows(F), 16)
    shapes = (91, width), (n + 1, width), n + 1
    W, rows, weights = (rng.random(shape).astype(np.float32) for shape in shapes)
    for product, numbers, expected in (
        (design.times, W, F @ W),
        (design.transposed_times, rows, F.T @ rows),
        (design.squares, weights, F.multiply(F).T @ weights),
    ):
        found, again = (product(design.as_array(numbers)) for _ in range(2))
        assert torch.equal(found, again)
        np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("factors", [16, 96, 128])
def test_rows_of_users_may_travel(factors, monkeypatch):
    """Where U does not fit the card, a fit is the same."""
    data = rr.make_interactions(300, 400, 9_000, random_state=0)
    settings = {"factors": factors, "iterations": 3, "regularization": 0.2, "random_state": 0}
    fits = []
    for share in (0.5, 0.0):
        monkeypatch.setattr(exact_on_card, "_USER_SHARE", share)
        fits.append(rr.LatentRoBiRank(device="cuda", **settings).fit(data, show_progress=False))
    np.testing.assert_array_equal(fits[0].user_factors, fits[1].user_factors)
    np.testing.assert_array_equal(fits[0].item_factors, fits[1].item_factors)


def test_a_step_of_adam():
    rng = np.random.default_rng(0)
    V, gradient, first, second = (
        torch.tensor(rng.random((2, 301, 40))).float().cuda() for _ in range(4)
    )
    penalty = torch.tensor(rng.random((2, 301))).float().cuda()
    results = []
    for steps in (plain, fused):
        own, *averages = V.clone(), first.clone(), second.clone()
        steps.adam(own, gradient.clone(), AdamState(*averages, penalty), STEP)
        results.append((own, *averages))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_a_fit_has_the_same_bits_twice_and_the_metrics_of_the_processor():
    data = rr.make_interactions(900, 700, 30_000, random_state=0)
    train, test = rr.split_ratio(data, random_state=0)
    settings = {"factors": 16, "regularization": 0.2, "random_state": 0}
    one, again, here = (
        rr.LatentRoBiRank(device=device, **settings).fit(train, show_progress=False)
        for device in ("cuda", "cuda", "cpu")
    )
    np.testing.assert_array_equal(one.user_factors, again.user_factors)
    np.testing.assert_array_equal(one.item_factors, again.item_factors)
    found, expected = (
        rr.evaluate(model.set_params(device="cpu"), train=train, test=test, k=20)
        for model in (one, here)
    )
    for name in ("ndcg@20", "recall@20"):
        assert found[name] == pytest.approx(expected[name], rel=0.02)
    assert one.objective(train) == pytest.approx(here.objective(train), rel=2e-3)


@pytest.mark.parametrize("n_best", [1, 50, 400])
@pytest.mark.parametrize("with_liked", [False, True])
def test_the_best_rows(n_best, with_liked):
    rng = np.random.default_rng(0)
    queries = rng.integers(-2, 3, (70, 8)).astype(np.float32)
    queries[:3] = 0
    factors = rng.integers(-2, 3, (300, 8)).astype(np.float32)
    table = sp.random(70, 300, 0.1, random_state=0, format="csr")
    liked = items_of_users(table, 70, 300) if with_liked else None
    arguments = queries, np.arange(70, dtype=np.int32), factors, n_best
    here, there = (
        search(*arguments, excluded=liked) for search in (top_rows, topk_on_card.top_rows)
    )
    np.testing.assert_array_equal(here[0], there[0])
    np.testing.assert_array_equal(here[1], there[1])


def test_factors_that_are_not_numbers_break_nothing():
    factors = np.full((500, 8), np.nan, np.float32)
    ids, _ = topk_on_card.top_rows(factors[:4], np.arange(4, dtype=np.int32), factors, 10)
    assert ids.shape == (4, 10)
    assert float(torch.ones(3, device="cuda").sum()) == 3


@pytest.mark.parametrize("seed", range(6))
def test_rules_agree_with_the_processor(seed):
    """Products of whole numbers are exact, so that both have the same scores, with many ties."""
    rng = np.random.default_rng(seed)
    n, m = 50, 4000
    U, V = (rng.integers(-3, 4, (k, 16)).astype(np.float32) for k in (n, m))
    table = {"id": np.arange(m), "brand": rng.integers(0, 40, m), "price": rng.integers(0, 5, m)}
    liked = sp.csr_matrix(rng.random((n, m)) < 0.05)
    for arguments in (
        {"deny": {"price": 0}, "at_most": {"brand": 1}},
        {"allow": sp.csr_matrix(rng.random((n, m)) < 0.1), "ties": "price"},
        {"at_most": {"brand": 2, "price": 1}, "ties": "price"},  # lists are short
        {"at_least": {"price:3": 4}, "pin": {2: 17}, "deny": sp.csr_matrix((n, m))},
    ):
        rules = rr.Rules(table, **arguments)
        answers = [
            rr.FactorModel.of(U, V, device=device).recommend(range(n), liked, 10, rules=rules)
            for device in ("cpu", "cuda")
        ]
        np.testing.assert_array_equal(answers[0][0], answers[1][0])
        np.testing.assert_array_equal(answers[0][1], answers[1][1])


@pytest.mark.parametrize("options", [{"variety": 0.3}, {"popularity": 0.7}])
def test_varied_and_damped_answers(options):
    """Rows of 65 numbers, and a choice on the host among what the card finds."""
    rng = np.random.default_rng(3)
    U, V = (rng.standard_normal((n, 64)).astype(np.float32) for n in (70, 5000))
    counts = rng.integers(0, 99, 5000).astype(np.int32)
    on_host = rr.FactorModel.of(U, V, item_counts=counts)
    on_card = rr.FactorModel.of(U, V, item_counts=counts, device="cuda")
    expected = on_host.recommend(np.arange(70), None, 10, False, **options)
    for model in (on_card, on_card.prepare()):
        ids, scores = model.recommend(np.arange(70), None, 10, False, **options)
        assert (ids == expected[0]).mean() > 0.99
        np.testing.assert_allclose(scores, expected[1], rtol=1e-3, atol=1e-3)
