"""A script for the implicit package runs with our models when its import is changed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix

from latent.tiny import Tiny

pytest.importorskip("implicit")

PEER = "from implicit.cpu.bpr import BayesianPersonalizedRanking as Model"
PEER_ALS = "from implicit.cpu.als import AlternatingLeastSquares as Model"  # which warns of COO

#: The line that takes the place of the peer's.
OURS = {
    "Tiny": "from latent.tiny import Tiny as Model",
    "LatentRoBiRank": "from robirank import LatentRoBiRank as Model",
    "WARP": "from robirank import WARP as Model",
}

SCRIPT = """
import numpy as np
{line}

model = Model(factors=8, iterations=3, random_state=0)
model.fit(user_items, show_progress=False)
with open(path, "wb") as file:
    model.save(file)
with open(path, "rb") as file:
    model = Model.load(file)
new = Model(factors=8, iterations=3, random_state=0)
new.save(path)
new = Model.load(path)

some = np.array([3, 1, 4])
answers = {{
    "one": model.recommend(2, user_items[2]),
    "one, few": model.recommend(2, user_items[2], N=3),
    "many": model.recommend(some, user_items[some], N=5),
    "all": model.recommend(np.arange(30), user_items, N=7),
    "liked too": model.recommend(some, user_items[some], N=5, filter_already_liked_items=False),
    "no user_items": model.recommend(some, None, N=5, filter_already_liked_items=False),
    "filtered": model.recommend(some, user_items[some], N=5, filter_items=[0, 1, 2, 3, 4, 5, 6]),
    "items": model.recommend(some, user_items[some], N=5, items=np.arange(5, 40)),
    "one, items": model.recommend(2, user_items[2], N=50, items=[3, 9, 5]),
    "similar item": model.similar_items(7),
    "similar items": model.similar_items([7, 8], N=4, filter_items=[7, 20]),
    "similar among items": model.similar_items([7, 8], N=4, items=np.arange(20)),
    "similar user": model.similar_users(7, N=12),
    "similar users": model.similar_users([7, 8], N=4, filter_users=[7]),
    "similar among users": model.similar_users([7, 8], N=4, users=np.arange(20)),
}}
"""

ERRORS = """
model.recommend(99, user_items[0])
model.recommend([1, 2], user_items[0])
model.recommend(0, user_items[0].tocoo())
model.recommend(0, user_items[0], items=[60])
model.recommend(0, user_items[0], filter_items=[60])
model.recommend(0, user_items[0], items=[1], filter_items=[2])
model.similar_items(60)
model.similar_users(99)
model.similar_items(0, items=[1], filter_items=[2])
model.similar_users(0, users=[1], filter_users=[2])
"""


def run(line: str, path: str) -> dict:
    played = np.random.default_rng(0).random((30, 60)) < 0.05
    played[2, [3, 5, 9]] = False  # so that all of the items asked for are left
    names = {"user_items": csr_matrix(played.astype(np.float32)), "path": path}
    exec(SCRIPT.format(line=line), names)
    return names


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    return run(PEER, str(tmp_path_factory.mktemp("peer") / "model.npz"))


@pytest.mark.parametrize("name", OURS)
def test_the_same_script_gives_answers_of_the_same_form(name, theirs, tmp_path):
    ours = run(OURS[name], str(tmp_path / "model"))
    assert ours["answers"].keys() == theirs["answers"].keys()
    for question, (ids, scores) in ours["answers"].items():
        their_ids, their_scores = theirs["answers"][question]
        assert (ids.shape, scores.shape) == (their_ids.shape, their_scores.shape), question
        assert (ids.dtype, scores.dtype) == (np.int32, np.float32), question
        assert (np.diff(scores, axis=-1) <= 0).all(), question


@pytest.mark.parametrize("line", [PEER_ALS, OURS["LatentRoBiRank"], OURS["WARP"]])
def test_a_matrix_that_is_not_csr_warns(line):
    names = {"user_items": csr_matrix(np.eye(8, dtype=np.float32)).tocoo()}
    exec(line, names)
    with pytest.warns(Warning, match="CSR"):
        names["Model"](factors=2, iterations=1, random_state=0).fit(
            names["user_items"], show_progress=False
        )


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("line", ERRORS.split("\n")[1:-1])
def test_the_same_mistake_is_the_same_kind_of_error(name, line, theirs, tmp_path):
    ours = run(OURS[name], str(tmp_path / "model"))
    kinds = []
    for names in (theirs, ours):
        with pytest.raises((IndexError, ValueError)) as error:
            exec(line, names)
        kinds.append(error.type)
    assert issubclass(kinds[1], kinds[0])  # ours say more


def test_the_same_factors_give_the_same_answers(theirs, monkeypatch, tmp_path):
    peer = theirs["model"]
    monkeypatch.setattr(Tiny, "given", (peer.user_factors, peer.item_factors))
    ours = run(OURS["Tiny"], str(tmp_path / "model"))
    for question, (ids, scores) in ours["answers"].items():
        their_ids, their_scores = theirs["answers"][question]
        assert_allclose(scores, their_scores, rtol=1e-5, atol=1e-6, err_msg=question)
        assert (ids == their_ids).all(), question
