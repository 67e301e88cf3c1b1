"""Indexes for approximate search."""

import sys

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from sklearn.exceptions import NotFittedError

import robirank as rr
from latent.tiny import Tiny, tiny
from robirank.data.ids import Ids


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    return tiny(rng.standard_normal((20, 8)), rng.standard_normal((500, 8)))


def exact(model, n):
    empty = csr_matrix((20, 500))
    return model.recommend(np.arange(20), empty, N=n)


def test_usearch_finds_what_recommend_finds(model, tmp_path):
    usearch = pytest.importorskip("usearch.index")
    rr.export_index(model, tmp_path / "items.usearch")
    index = usearch.Index.restore(str(tmp_path / "items.usearch"))
    assert len(index) == 500
    ids, scores = exact(model, 10)
    found = index.search(model.user_factors, 10, exact=True)
    assert (found.keys == ids).all()
    np.testing.assert_allclose(1 - found.distances, scores, rtol=1e-4, atol=1e-4)
    near = index.search(model.user_factors, 10)
    shared = [len(set(a) & set(b)) for a, b in zip(near.keys.tolist(), ids.tolist(), strict=True)]
    assert np.mean(shared) > 8


def test_users_can_be_exported_too(model, tmp_path):
    pytest.importorskip("usearch.index")
    assert len(rr.export_index(model, tmp_path / "users.usearch", what="users")) == 20


def test_faiss_finds_what_recommend_finds(model, tmp_path):
    faiss = pytest.importorskip("faiss")
    rr.export_index(model, tmp_path / "items.faiss")
    scores, ids = faiss.read_index(str(tmp_path / "items.faiss")).search(model.user_factors, 10)
    best, top = exact(model, 10)
    shared = [len(set(a) & set(b)) for a, b in zip(ids.tolist(), best.tolist(), strict=True)]
    assert np.mean(shared) > 8
    np.testing.assert_allclose(scores[:, 0], top[:, 0], rtol=1e-5)


@pytest.mark.parametrize("library", ["usearch", "faiss"])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_keys_are_translated_to_outside_ids(model, tmp_path, library, suffix):
    pytest.importorskip(library)
    names = [f'item "{n}", new' for n in range(500)]
    model.item_ids_ = Ids(names)
    table = tmp_path / f"ids.{suffix}"
    index = rr.export_index(model, tmp_path / f"items.{library}", ids=table)
    read = {"parquet": pl.read_parquet, "csv": pl.read_csv}[suffix](table)
    assert read.rows() == list(enumerate(names))
    if library == "usearch":
        key = index.search(model.user_factors[3], 1, exact=True).keys[0]
    else:
        key = index.search(model.user_factors[[3]], 1)[1][0, 0]
    best = model.by_id.recommend(3, N=1, filter_already_liked_items=False)[0][0]
    assert read["id"][int(key)] == best


def test_ids_of_users_and_integers(model, tmp_path):
    pytest.importorskip("usearch.index")
    model.user_ids_ = Ids(range(100, 120))
    rr.export_index(model, tmp_path / "u.usearch", what="users", ids=tmp_path / "u.parquet")
    assert pl.read_parquet(tmp_path / "u.parquet")["id"].to_list() == list(range(100, 120))
    rr.export_index(model, tmp_path / "i.usearch", ids=tmp_path / "i.parquet")  # positions
    assert pl.read_parquet(tmp_path / "i.parquet")["id"].to_list() == list(range(500))


def test_ids_that_no_table_can_hold(model, tmp_path):
    with pytest.raises(ValueError, match=r"ids must be the path of a \.parquet or \.csv.*ids\.txt"):
        rr.export_index(model, tmp_path / "x.usearch", ids=tmp_path / "ids.txt")
    model.item_ids_ = Ids([(n, n) for n in range(500)])
    with pytest.raises(ValueError, match=r"integers or text.*the first is \(0, 0\)"):
        rr.export_index(model, tmp_path / "x.usearch", ids=tmp_path / "ids.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("library", "module"), [("usearch", "usearch.index"), ("faiss", "faiss")])
def test_a_missing_library_names_the_extra(model, tmp_path, monkeypatch, library, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"needs {library}.*pip install 'robirank\[ann\]'"):
        rr.export_index(model, tmp_path / "x", library=library)


def test_bad_arguments(model, tmp_path):
    with pytest.raises(ValueError, match="library must be one of usearch, faiss; got 'annoy'"):
        rr.export_index(model, tmp_path / "x", library="annoy")
    with pytest.raises(ValueError, match="what must be 'items' or 'users'; got 'songs'"):
        rr.export_index(model, tmp_path / "x", what="songs")
    with pytest.raises(ValueError, match=r"must end in one of '\.usearch', '\.faiss'.*got '\.idx'"):
        rr.export_index(model, tmp_path / "x.idx")
    with pytest.raises(
        ValueError, match=r"'usearch' does not go with a path that ends in '\.faiss'"
    ):
        rr.export_index(model, tmp_path / "x.faiss", library="usearch")
    with pytest.raises(NotFittedError, match="call fit first"):
        rr.export_index(Tiny(), tmp_path / "x", library="faiss")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def fitted():
    data = rr.make_interactions(1000, 8000, 40_000, factors=8, random_state=0)
    model = rr.LatentRoBiRank(factors=16, solver="sgd", iterations=16, random_state=0)
    return data.matrix, model.fit(data, show_progress=False)


@pytest.mark.parametrize("library", ["usearch", "faiss"])
def test_the_documented_call_finds_nearly_all(fitted, tmp_path, library):
    """As in the guide: ten candidates and one more for each item that the user has."""
    pytest.importorskip(library)
    matrix, model = fitted
    index = rr.export_index(model, tmp_path / f"items.{library}")
    users = np.arange(0, 1000, 5)
    best, _ = model.recommend(users, matrix[users], N=10)
    shared = 0
    for user, expected in zip(users, best, strict=True):
        liked = matrix[user].indices
        if library == "usearch":
            near = index.search(model.user_factors[user], 10 + len(liked)).keys
        else:
            near = index.search(model.user_factors[[user]], 10 + len(liked))[1][0]
        shared += len(set(near[~np.isin(near, liked)][:10]) & set(expected))
    assert shared / (10 * len(users)) >= 0.95
