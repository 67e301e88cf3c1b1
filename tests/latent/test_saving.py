"""Factors on disk: they come back as they were, without a second copy on the way."""

import io
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from safetensors import safe_open
from safetensors.numpy import save

from latent.tiny import Tiny, tiny
from robirank import load_extra, load_model, save_model
from robirank.data import ids
from robirank.storage.tensor_file import ModelFileError

pytestmark = pytest.mark.filterwarnings("ignore:.*has no checksum")  # tampered files


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    return tiny(rng.standard_normal((5, 3)), rng.standard_normal((7, 3)), random_state=4)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "model.safetensors"


def test_both_ways_of_saving_and_loading(model, path):
    model.n_iter_ = 12
    for write in (lambda: model.save(path, extra={"a": 1}), lambda: save_model(model, path)):
        write()
        for read in (load_model, Tiny.load):
            loaded = read(path)
            assert type(loaded) is Tiny
            assert loaded.get_params() == model.get_params()
            assert_array_equal(loaded.user_factors, model.user_factors)
            assert_array_equal(loaded.item_factors, model.item_factors)
            assert loaded.item_factors.dtype == np.float32
            assert loaded.item_factors.flags.writeable
            assert loaded.item_factors.flags.c_contiguous
            assert loaded.n_iter_ == 12
            assert not hasattr(loaded, "n_features_in_")
    model.save(path, extra={"a": 1})
    assert load_extra(path) == {"a": 1}


def test_the_bytes_are_those_of_the_safetensors_library(model, path):
    model.save(path, extra={"text": 'ü "\n\x07 \x7f'})
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert path.read_bytes() == save(arrays, metadata=metadata)


def test_other_types_and_orders_of_memory(path):
    model = tiny(np.ones((2, 2)), np.ones((3, 2)))
    model.user_factors = np.array([[1, 2], [3, 4]], dtype=">f8", order="F")
    model.save(path)
    assert Tiny.load(path).user_factors.tolist() == [[1, 2], [3, 4]]


def test_no_second_copy(path):
    model = tiny(np.zeros((200_000, 16)), np.zeros((10, 16)))
    size = model.user_factors.nbytes
    tracemalloc.start()
    try:
        model.save(path)
        assert tracemalloc.get_traced_memory()[1] < size / 4
        tracemalloc.reset_peak()
        Tiny.load(path)
        assert tracemalloc.get_traced_memory()[1] < 1.25 * size
    finally:
        tracemalloc.stop()


def test_outside_ids_travel_along(model, path):
    model.user_ids_ = ids.Ids(["anna", "bob", "çelik", "", "dan"])
    model.item_ids_ = ids.Ids([10, 20, 30, 40, 50, 60, 2**40])
    model.save(path)
    loaded = Tiny.load(path)
    assert list(loaded.user_ids_) == list(model.user_ids_)
    assert list(loaded.item_ids_) == list(model.item_ids_)
    model.user_ids_ = None
    model.save(path)
    assert Tiny.load(path).user_ids_ is None
    model.user_ids_ = ids.Ids(["too", "few"])
    with pytest.raises(ValueError, match="user_ids_ must have 5 users; it has 2"):
        model.save(path)


def test_ids_that_are_damaged(model, path):
    model.item_ids_ = ids.Ids(list("abcdefg"))
    model.save(path)
    for tensors, message in (
        ({"item_ids_.offsets": np.arange(7)}, "item_ids_"),
        ({"item_ids_.offsets": None}, "item_ids_"),
        (ids.Ids([1, 2]).to_tensors("item_ids_"), "item_ids_ must have 7 items; it has 2"),
    ):
        model.save(path)
        tamper(path, **tensors)
        with pytest.raises(ModelFileError, match=message):
            load_model(path)


def tamper(path, header=None, **tensors) -> None:
    """Write the file again without a checksum, parts of its header or its arrays changed."""
    with safe_open(path, framework="numpy") as file:
        own = json.loads(file.metadata()["robirank"]) | (header or {})
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    del own["crc32"]
    arrays = {name: array for name, array in (arrays | tensors).items() if array is not None}
    path.write_bytes(save(arrays, metadata={"robirank": json.dumps(own)}))


def single(*shape, value=0.0):
    return np.full(shape, value, dtype=np.float32)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"user_factors": None}, "it has no user_factors"),
        ({"item_factors": None}, "it has no item_factors"),
        ({"user_factors": single(5, 2)}, r"must have shape \((users|items), \d\); it has"),
        ({"user_factors": single(5)}, "must have shape"),
        ({"user_factors": np.zeros((5, 3))}, "user_factors must have type F32; it has F64"),
        ({"user_factors": single(5, 3, value=np.nan)}, "user_factors holds NaN or infinity"),
        ({"item_factors": single(7, 3, value=np.inf)}, "item_factors holds NaN or infinity"),
        ({"coef_": np.zeros(3)}, "it has 'coef_', which is no part"),
        ({"n_features_in_": np.zeros(3)}, "it has 'n_features_in_', which is no part"),
    ],
)
def test_a_tampered_file_is_refused_with_the_reason(model, path, tensors, message):
    model.save(path)
    tamper(path, **tensors)
    with pytest.raises(ModelFileError, match=message):
        load_model(path)


def test_every_truncation_is_refused(model, path):
    model.save(path)
    content = path.read_bytes()
    for length in [*range(16), *range(16, len(content), 37), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            load_model(path)


def test_a_file_of_another_class(model, path):
    model.save(path)
    tamper(path, header={"class": "RoBiRank", "params": {}})
    with pytest.raises(ModelFileError, match=r"holds a RoBiRank, not a Tiny; use RoBiRank\.load"):
        Tiny.load(path)
    with pytest.raises(ModelFileError, match="its header must say n_features_in_"):
        load_model(path)


def test_what_cannot_be_saved(model, path):
    with pytest.raises(ValueError, match="feature_names must be left out: a Tiny knows no"):
        model.save(path, feature_names=["a"])
    model.item_factors[0, 0] = np.nan
    with pytest.raises(ValueError, match="item_factors holds NaN or infinity"):
        model.save(path)
    model.item_factors = np.zeros((7, 2), np.float32)
    with pytest.raises(ValueError, match=r"item_factors must have shape \(items, 3\)"):
        model.save(path)
    assert not path.exists()


def test_open_files(model):
    file = io.BytesIO(b"before")
    file.seek(6)
    model.save(file)
    for read in (load_model, Tiny.load):
        file.seek(6)
        loaded = read(file)
        assert_array_equal(loaded.user_factors, model.user_factors)
        assert loaded.get_params() == model.get_params()
    damaged = io.BytesIO(file.getvalue()[6:-1])
    with pytest.raises(ModelFileError, match="damaged"):
        load_model(damaged)


def test_open_files_on_disk(model, path):
    with path.open("wb") as file:
        model.save(file)
    with path.open("rb") as file:
        assert_array_equal(Tiny.load(file).item_factors, model.item_factors)
    with path.open() as file, pytest.raises(TypeError, match="open in binary mode"):
        Tiny.load(file)
    with pytest.raises(TypeError, match="path must be a path or a file"):
        model.save(3)


def test_a_model_that_is_not_fitted_can_be_saved(path):
    model = Tiny(factors=3, random_state=7)
    model.save(path, extra={"for": "later"})
    for loaded in (load_model(path), Tiny.load(path)):
        assert loaded.get_params() == model.get_params()
        assert not hasattr(loaded, "item_factors")
    assert load_extra(path) == {"for": "later"}
    tamper(path, user_factors=single(5, 3))
    with pytest.raises(ModelFileError, match="not fitted, and it has an array 'user_fac"):
        load_model(path)
