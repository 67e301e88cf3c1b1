"""What users dislike: never an answer, a stronger loser, kept in files."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_matrix

import robirank as rr
from robirank.latent.factors.dislikes import MARGIN
from robirank.losses import RHOS, sigma0

QUIET = {"show_progress": False}


def model_of(**params):
    return rr.LatentRoBiRank(
        **{"factors": 6, "iterations": 12, "regularization": 0.05, "random_state": 0, **params}
    )


@pytest.fixture(scope="module")
def tables():
    """Records, and others of the same users that they took against."""
    every = rr.make_interactions(120, 40, 2400, random_state=1)
    return rr.split_ratio(every, 0.3, random_state=0)


@pytest.fixture(scope="module")
def model(tables):
    likes, dislikes = tables
    return model_of().fit(likes, **QUIET, dislikes=dislikes)


def test_disliked_items_are_never_an_answer_and_rank_lower(model, tables):
    likes, dislikes = tables
    ids, _ = model.recommend(np.arange(120), likes.matrix, N=40)
    for filtered in (True, False):
        ids, scores = model.recommend(
            np.arange(120), likes.matrix, N=40, filter_already_liked_items=filtered
        )
        for user in range(120):
            answers = ids[user][scores[user] > -1e30]
            assert not np.isin(answers, dislikes.matrix[user].indices).any()
            assert len(answers) == 40 - dislikes.lengths[user] - filtered * likes.lengths[user]
    plain = model_of().fit(likes, **QUIET)
    users, items = dislikes.user_codes(), dislikes.indices
    scores = [
        np.einsum("ij,ij->i", m.user_factors[users], m.item_factors[items]).mean()
        for m in (model, plain)
    ]
    assert scores[0] < scores[1] - 0.1


def test_a_folded_in_row_minimises_the_loss_with_margins(model, tables):
    liked, disliked = [1, 5, 9], [2, 7]
    V = model.item_factors.astype(np.float64)
    penalty = model._user_penalty(np.array([3]))[0]

    def loss(u):
        scores = V @ u
        raised = scores.copy()
        raised[disliked] += MARGIN
        t = [sigma0(scores[y] - np.delete(raised, y)).sum() for y in liked]
        return RHOS["log"].value(np.array(t)).sum() + penalty / 2 * u @ u

    answers, _ = model.recommend_for(liked, disliked=disliked, N=40)
    assert not np.isin(disliked, answers).any()
    why = model.explain_for(liked, 0)
    assert why.distance < 0.01
    rows = model._folded_in(_basket(model, liked, disliked)).rows
    best = loss(rows[0].astype(np.float64))
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert loss(rows[0] + 0.02 * rng.normal(size=V.shape[1])) > best
    without = model._folded_in(_basket(model, liked, [])).rows
    assert (V[disliked] @ rows[0]).mean() < (V[disliked] @ without[0]).mean()


def _basket(model, liked, disliked):
    names = model._names()
    table = names.baskets([liked], "error")
    from dataclasses import replace

    return replace(table, disliked=names.baskets([disliked], "error"))


def test_reasons_know_of_dislikes(model, tables):
    likes, _ = tables
    trained = model_of(iterations=200).fit(likes, **QUIET, dislikes=tables[1])
    why = trained.explain(3, likes, 4)
    assert why.distance < 0.1
    assert why.effects.sum() + why.rest == pytest.approx(why.score, rel=1e-5)


def test_a_file_and_a_smaller_catalogue_keep_them(model, tables, tmp_path):
    likes, dislikes = tables
    model.save(tmp_path / "model")
    loaded = rr.load_model(tmp_path / "model")
    ask = (np.arange(120), likes.matrix)
    assert_array_equal(loaded.recommend(*ask)[0], model.recommend(*ask)[0])
    smaller = rr.load_model(tmp_path / "model").remove_items([0])
    user = int(np.flatnonzero(dislikes.lengths)[0])
    kept = dislikes.matrix[user].indices
    answers, _ = smaller.recommend(user, filter_already_liked_items=False, N=39)
    assert not np.isin(kept[kept > 0] - 1, answers).any()


def test_what_is_taken_later_is_liked(tables):
    likes, dislikes = tables
    model = model_of().fit(likes, **QUIET, dislikes=dislikes)
    user = int(np.flatnonzero(dislikes.lengths)[0])
    item = int(dislikes.matrix[user].indices[0])
    grown = likes.matrix.tolil()
    grown[user, item] = 1
    model.partial_fit(csr_matrix(grown), iterations=2)
    assert item not in model.user_dislikes_.table.rows(np.array([user])).items
    assert model.user_dislikes_.table.n_interactions == len(dislikes) - 1


def test_without_dislikes_nothing_changes(tables):
    likes, _ = tables
    none = csr_matrix(likes.shape)
    with_none = model_of().fit(likes, **QUIET, dislikes=none)
    assert_array_equal(with_none.item_factors, model_of().fit(likes, **QUIET).item_factors)


def test_bad_dislikes_are_named(tables):
    likes, dislikes = tables
    with pytest.raises(rr.ArgumentError, match=r"^dislikes must have the shape of user_items"):
        model_of().fit(likes, **QUIET, dislikes=csr_matrix((3, 3)))
    with pytest.raises(
        rr.ArgumentError, match=r"^dislikes must hold nothing that user_items holds"
    ):
        model_of().fit(likes, **QUIET, dislikes=likes)
    with pytest.raises(
        rr.ArgumentError, match=r"^dislikes can be learned from by solvers \['exact'"
    ):
        model_of(solver="sgd").fit(likes, **QUIET, dislikes=dislikes)
    for table in (dislikes, dislikes.matrix):
        with pytest.raises(rr.ArgumentError, match=r"^dislikes must be left out on a cluster"):
            model_of(engine="ray").fit(likes, **QUIET, dislikes=table)
    with pytest.raises(TypeError, match=r"^dislikes must be a sparse"):
        model_of().fit(likes, **QUIET, dislikes=[(1, 2)])
    model = model_of().fit(likes, **QUIET)
    with pytest.raises(rr.ArgumentError, match=r"^disliked must have a list for each"):
        model.recommend_for([[1], [2]], disliked=[3])
