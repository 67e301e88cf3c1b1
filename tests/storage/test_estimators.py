"""A saved model comes back as it was; a bad file is refused, and never run."""

import errno
import json
import os
import pickle
import struct
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from robirank import (
    MART,
    AdaRank,
    RankBoost,
    RoBiRank,
    RoBiRankCV,
    RobustClassifier,
    load_model,
    save_model,
)
from robirank.data.generators import make_ranking
from robirank.ltr.ranksvm import RankSVM
from robirank.registry import find, register
from robirank.storage import files
from robirank.storage.estimators import load_extra
from robirank.storage.tensor_file import ModelFileError

pytestmark = pytest.mark.filterwarnings("ignore:.*has no checksum")  # tampered files

DATA = make_ranking(n_queries=12, n_docs=10, n_features=4, random_state=0)


def fitted(**params) -> RoBiRank:
    return RoBiRank(**params).fit(DATA.X, DATA.y, qid=DATA.qid)


@pytest.fixture(scope="module")
def model() -> RoBiRank:
    return fitted(alpha=0.01)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


@pytest.fixture
def saved(model: RoBiRank, path: Path) -> Path:
    save_model(model, path, extra={"note": "x"})
    return path


# Round trips


def test_a_ranker_comes_back_bit_for_bit(model, saved):
    loaded = load_model(saved)
    assert type(loaded) is RoBiRank
    assert loaded.get_params() == model.get_params()
    assert np.array_equal(loaded.coef_, model.coef_)
    assert loaded.coef_.flags.writeable
    assert loaded.n_features_in_ == 4
    assert loaded.n_iter_ == model.n_iter_
    assert loaded.loss_curve_ == model.loss_curve_
    assert np.array_equal(loaded.predict(DATA.X), model.predict(DATA.X))
    assert not hasattr(loaded, "feature_names_in_")


def test_a_loaded_model_can_go_on_learning(saved):
    again = load_model(saved).set_params(warm_start=True, alpha=0.02)
    again.fit(DATA.X, DATA.y, qid=DATA.qid)
    fresh = fitted(alpha=0.02)
    np.testing.assert_allclose(again.coef_, fresh.coef_, atol=1e-3)


def test_cross_validated_ranker(path):
    model = RoBiRankCV(alphas=(1.0, 0.01), cv=3, random_state=0).fit(DATA.X, DATA.y, qid=DATA.qid)
    save_model(model, path)
    loaded = load_model(path)
    assert type(loaded) is RoBiRankCV
    assert (loaded.alpha_, loaded.best_score_) == (model.alpha_, model.best_score_)
    assert np.array_equal(loaded.alphas_, model.alphas_)
    assert np.array_equal(loaded.scores_, model.scores_)
    assert loaded.scores_.shape == (2, 3)
    assert np.array_equal(loaded.predict(DATA.X), model.predict(DATA.X))


def test_ranksvm(path):
    model = RankSVM(C=0.1).fit(DATA.X, DATA.y, qid=DATA.qid)
    save_model(model, path)
    loaded = load_model(path)
    assert type(loaded) is RankSVM
    assert loaded.get_params() == model.get_params()
    assert np.array_equal(loaded.predict(DATA.X), model.predict(DATA.X))


@pytest.mark.parametrize(
    "labels",
    [["no", "yes"], [0, 1], [-1.0, 2.0], [False, True], np.array(["a", "bc"], dtype=object)],
    ids=["str", "int", "float", "bool", "object"],
)
def test_classifier_keeps_its_classes(labels, path):
    y = np.asarray(labels)[(DATA.y > 0).astype(int)]
    model = RobustClassifier("type2", fit_intercept=False).fit(DATA.X, y)
    save_model(model, path)
    loaded = load_model(path)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.predict(DATA.X).tolist() == model.predict(DATA.X).tolist()
    assert np.array_equal(loaded.intercept_, model.intercept_)
    assert loaded.loss == "type2"


PARAMS = st.fixed_dictionaries(
    {
        "alpha": st.floats(0, 1e300),
        "rho": st.sampled_from(["log", "identity", "type2"]),
        "metric": st.sampled_from(["ndcg", "dcg"]),
        "gain": st.sampled_from(["exp", "linear"]),
        "init": st.sampled_from(["zeros", "random"])
        | st.lists(st.floats(-1e9, 1e9), min_size=4, max_size=4),
        "max_iter": st.integers(1, 10**12),
        "tol": st.floats(1e-300, 1e300),
        "warm_start": st.booleans(),
        "random_state": st.none() | st.integers(0, 2**32 - 1),
        "num_threads": st.integers(0, 64),
        "verbose": st.booleans(),
    }
)


@given(PARAMS, st.none() | st.lists(st.text(), min_size=4, max_size=4, unique=True))
def test_any_parameters_and_names_come_back(tmp_path_factory, params, names):
    model = RoBiRank(**params)
    model.coef_, model.n_features_in_ = np.arange(4.0), 4
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    save_model(model, path, feature_names=names)
    loaded = load_model(path)
    assert loaded.get_params() == params
    assert {k: type(v) for k, v in loaded.get_params().items()} == {
        k: type(v) for k, v in params.items()
    }
    assert list(getattr(loaded, "feature_names_", [])) == (names or [])


def test_numpy_numbers_tuples_and_arrays_as_parameters(path):
    model = fitted(alpha=np.float32(0.5), max_iter=np.int64(7), init=np.arange(4, dtype=np.float32))
    save_model(model, path)
    loaded = load_model(path)
    assert (loaded.alpha, loaded.max_iter) == (0.5, 7)
    assert loaded.init.tolist() == [0, 1, 2, 3]
    loaded.fit(DATA.X, DATA.y, qid=DATA.qid)

    cv = RoBiRankCV(alphas=np.array([1.0, 0.1]), cv=2).fit(DATA.X, DATA.y, qid=DATA.qid)
    save_model(cv, path)
    assert load_model(path).alphas.tolist() == [1.0, 0.1]


def square(labels):
    return labels**2


@pytest.mark.parametrize(
    ("name", "value", "kind", "default"),
    [
        ("gain", square, "function", "exp"),
        ("init", fitted(), "RoBiRank", "zeros"),
        ("random_state", np.random.RandomState(0), "RandomState", None),
        ("tol", float("inf"), "float", 1e-5),
    ],
)
def test_objects_become_the_default_with_a_warning(name, value, kind, default, path):
    model = fitted().set_params(**{name: value})
    save_model(model, path)
    with pytest.warns(UserWarning, match=f"parameter {name} was a {kind}") as interaction:
        loaded = load_model(path)
    assert interaction[0].filename == __file__
    assert getattr(loaded, name) == default
    assert np.array_equal(loaded.coef_, model.coef_)


def test_plain_parameters_load_without_a_warning(saved):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_model(saved)


def test_names_of_a_frame_come_back_as_scikit_learn_keeps_them(path):
    frame = pd.DataFrame(DATA.X, columns=["bm25", "age", "länge", "pagerank"])
    model = RoBiRank().fit(frame, DATA.y, qid=DATA.qid)
    save_model(model, path)
    loaded = load_model(path)
    assert loaded.feature_names_in_.tolist() == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[frame.columns[::-1]])


def test_given_names_come_back_and_do_not_disturb_arrays(model, path):
    save_model(model, path, feature_names=["a", "b", "c", "d"])
    loaded = load_model(path)
    assert loaded.feature_names_.tolist() == ["a", "b", "c", "d"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded.predict(DATA.X)
    save_model(loaded, path)
    assert load_model(path).feature_names_.tolist() == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b"], r"4 strings that differ, one a feature; got \['a', 'b'\]"),
        (["a", "b", "c", "a"], "strings that differ"),
        ([1, 2, 3, 4], "strings that differ"),
        ("abcd", "4 strings that differ, one a feature; got 'abcd'"),
    ],
)
def test_wrong_names_are_refused(names, message, model, path):
    with pytest.raises(ValueError, match=message):
        save_model(model, path, feature_names=names)
    assert not path.exists()


def test_names_that_contradict_the_fit_are_refused(path):
    frame = pd.DataFrame(DATA.X, columns=list("abcd"))
    model = RoBiRank().fit(frame, DATA.y, qid=DATA.qid)
    with pytest.raises(ValueError, match="differ from the names"):
        save_model(model, path, feature_names=list("wxyz"))


def test_extra_comes_back(saved, model, tmp_path):
    assert load_extra(saved) == {"note": "x"}
    save_model(model, tmp_path / "plain")
    assert load_extra(tmp_path / "plain") == {}
    with pytest.raises(ValueError, match="extra must hold only what JSON can hold"):
        save_model(model, tmp_path / "bad", extra={"f": print})


def test_same_model_same_bytes(model, tmp_path):
    for name in "ab":
        save_model(model, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_what_is_written_is_plain_safetensors(saved):
    with safe_open(saved, framework="numpy") as file:
        header = json.loads(file.metadata()["robirank"])
        assert set(file.keys()) == {"coef_", "loss_curve_"}
    assert (header["format"], header["format_version"]) == ("robirank-model", 2)
    assert header["class"] == "RoBiRank"


# What cannot be saved


def test_unfitted(path):
    with pytest.raises(NotFittedError):
        save_model(RoBiRank(), path)


def test_pipeline_names_the_way_out(path):
    pipeline = make_pipeline(StandardScaler(), RoBiRank()).fit(DATA.X, DATA.y)
    with pytest.raises(TypeError, match="fold_scaling"):
        save_model(pipeline, path)


def test_other_classes_and_subclasses(path):
    class Mine(RoBiRank):
        pass

    for other in (StandardScaler(), Mine()):
        with pytest.raises(TypeError, match="must be one of AdaRank"):
            save_model(other, path)


@pytest.mark.parametrize(
    ("coef", "message"),
    [([1.0, np.nan, 0.0, 0.0], "NaN or infinity"), ([1.0, 2.0], r"shape \(4\); it has \(2\)")],
)
def test_broken_weights_are_not_saved(coef, message, path):
    model = fitted()
    model.coef_ = np.array(coef)
    with pytest.raises(ValueError, match=message):
        save_model(model, path)


# Whole or not at all


class DiskFullError(Exception):
    pass


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(saved, monkeypatch, failing):
    before = saved.read_bytes()

    def fail(*_):
        raise DiskFullError

    if failing == "fsync":
        monkeypatch.setattr(files.os, "fsync", fail)
    else:
        monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(DiskFullError):
        save_model(fitted(alpha=5.0), saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_a_new_model_takes_the_place_of_the_old(saved):
    saved.chmod(0o640)
    save_model(fitted(alpha=5.0), saved)
    assert load_model(saved).alpha == 5.0
    assert saved.stat().st_mode & 0o777 == 0o640
    assert list(saved.parent.iterdir()) == [saved]


def test_a_link_is_followed(model, saved):
    link = saved.with_name("latest")
    link.symlink_to(saved.name)
    save_model(fitted(alpha=5.0), link)
    assert link.is_symlink()
    assert load_model(saved).alpha == 5.0


@pytest.mark.skipif(sys.platform == "win32", reason="devices are files on POSIX")
def test_a_device_is_written_to_not_replaced(model):
    save_model(model, "/dev/null")
    assert not Path("/dev/null").is_file()


def test_nowhere_to_write(model, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        save_model(model, tmp_path / "no" / "model")
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        save_model(model, tmp_path)


def test_a_forbidden_folder_is_an_error_that_names_the_file(model, path, monkeypatch):
    def forbidden(self, *_):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", forbidden)
    with pytest.raises(PermissionError, match="Permission denied") as error:
        save_model(model, path)
    assert error.value.filename == str(path)


# Hostile and damaged files


def raw(header: bytes, body: bytes = b"", length: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header + body


class Bomb:
    def __reduce__(self):
        return (os.system, ("touch bomb-went-off",))


NOT_MODELS = {
    "empty": b"",
    "three bytes": b"abc",
    "text": b"0 qid:1 1:0.5 2:0.3\n" * 20,
    "pickle": pickle.dumps(Bomb()),
    "pickle after a length": raw(pickle.dumps(Bomb())),
    "huge header length": raw(b"{}", length=2**63),
    "header longer than the file": raw(b"{}", length=50_000_000),
    "bad JSON": raw(b"{nope   "),
    "nested JSON": raw(b'{"a":' * 100_000),
    "overflowing shape": raw(
        b'{"a":{"dtype":"F64","shape":[2305843009213693952,8],"data_offsets":[0,0]}}'
    ),
    "overlapping arrays": raw(
        b'{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},'
        b'"b":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}',
        bytes(8),
    ),
    "safetensors of another kind": save({"weight": np.zeros(3)}),
}


@pytest.mark.parametrize("content", NOT_MODELS.values(), ids=NOT_MODELS.keys())
def test_what_is_not_a_model_is_refused_and_not_run(content, path, monkeypatch):
    monkeypatch.chdir(path.parent)
    path.write_bytes(content)
    for load in (load_model, load_extra, RoBiRank.load):
        with pytest.raises(ModelFileError) as error:
            load(path)
        assert str(error.value).startswith(f"cannot load {path}: ")
    assert list(path.parent.iterdir()) == [path]


def test_every_truncation_is_refused(saved):
    content = saved.read_bytes()
    for length in [*range(0, 16), *range(16, len(content), 97), len(content) - 1]:
        saved.write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            load_model(saved)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no model file .*nothing-here"):
        load_model(tmp_path / "nothing-here")
    with pytest.raises(ModelFileError, match="it is not a file"):
        load_model(tmp_path)


def tampered(path: Path, tensors=None, text=None, **changes) -> Path:
    """Write the file again without a checksum, parts of its header or its arrays changed."""
    with safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["robirank"])
        del header["crc32"]
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    header |= changes
    arrays = {k: v for k, v in (arrays | (tensors or {})).items() if v is not None}
    path.write_bytes(save(arrays, metadata={"robirank": text or json.dumps(header)}))
    return path


GOOD_PARAMS = RoBiRank().get_params()
HOSTILE = {
    "another format": ({"format": "other"}, "format='robirank-model'"),
    "newer version": ({"format_version": 3, "robirank": "9.9"}, "Upgrade robirank"),
    "version 0": ({"format_version": 0}, "must be a positive integer"),
    "version as text": ({"format_version": "1"}, "must be a positive integer"),
    "true is no version": ({"format_version": True}, "must be a positive integer"),
    "unknown class": (
        {"class": "os.system"},
        "'os.system', which is not registered: import the module that defines it before loading",
    ),
    "a module as class": ({"class": "subprocess:Popen"}, "known are AdaRank"),
    "class is a list": ({"class": ["RoBiRank"]}, r"Expected `str`, got `array` - at `\$.class`"),
    "no class": ({"class": None}, r"Expected `str`, got `null` - at `\$.class`"),
    "unknown parameter": ({"params": {"evil": 1}}, "parameter 'evil'"),
    "dunder parameter": ({"params": {"__class__": "x"}}, "parameter '__class__'"),
    "self as parameter": ({"params": {"self": 1}}, "parameter 'self'"),
    "nested parameter": ({"params": {"alpha": {"a": 1}}}, "parameter alpha must be"),
    "deep list parameter": ({"params": {"alpha": [[1]]}}, "parameter alpha must be"),
    "params is a list": ({"params": []}, r"Expected `object`, got `array` - at `\$.params`"),
    "unsaved unknown": ({"unsaved": {"evil": "function"}}, "parameter 'evil'"),
    "no unsaved": ({"unsaved": None}, r"Expected `object`, got `null` - at `\$.unsaved`"),
    "features 0": ({"n_features_in_": 0}, r"Expected `int` >= 1 - at `\$.n_features_in_`"),
    "features as text": ({"n_features_in_": "4"}, r"got `str` - at `\$.n_features_in_`"),
    "features missing": ({"n_features_in_": None}, "its header must say n_features_in_"),
    "features differ": ({"n_features_in_": 5}, r"coef_ must have shape \(5\); it has \(4\)"),
    "unknown number": ({"numbers": {"evil_": 1}}, "it has 'evil_', which is no part of that class"),
    "negative iterations": ({"numbers": {"n_iter_": -1}}, "n_iter_ must be"),
    "fractional iterations": ({"numbers": {"n_iter_": 1.5}}, "n_iter_ must be"),
    "labels of a ranker": (
        {"labels": {"classes_": {"dtype": "bool", "values": []}}},
        "it has 'classes_', which is no part",
    ),
    "names too few": ({"feature_names": ["a"]}, "feature_names must be 4 strings"),
    "names not strings": ({"feature_names": [1, 2, 3, 4]}, r"at `\$.feature_names\[0\]`"),
    "names a string": ({"feature_names": "abcd"}, r"got `str` - at `\$.feature_names`"),
    "extra array": ({"tensors": {"evil": np.zeros(2)}}, "it has 'evil', which is no part"),
    "method as array": ({"tensors": {"predict": np.zeros(2)}}, "it has 'predict', which"),
    "no weights": ({"tensors": {"coef_": None}}, "it has no coef_"),
    "weights too long": ({"tensors": {"coef_": np.zeros(9)}}, r"shape \(4\); it has \(9\)"),
    "weights a matrix": ({"tensors": {"coef_": np.zeros((2, 2))}}, r"shape \(4\); it has \(2, 2\)"),
    "weights a scalar": ({"tensors": {"coef_": np.zeros(())}}, r"shape \(4\); it has \(\)"),
    "weights NaN": ({"tensors": {"coef_": np.full(4, np.nan)}}, "coef_ holds NaN or infinity"),
    "weights integer": ({"tensors": {"coef_": np.zeros(4, int)}}, "type F64; it has I64"),
    "weights single": ({"tensors": {"coef_": np.zeros(4, "f4")}}, "type F64; it has F32"),
    "curve infinite": ({"tensors": {"loss_curve_": np.full(2, np.inf)}}, "loss_curve_ holds NaN"),
    "array parameter unknown": ({"tensors": {"params.evil": np.zeros(2)}}, "parameter 'evil'"),
    "array parameter NaN": ({"tensors": {"params.init": np.full(4, np.nan)}}, "params.init holds"),
    "array parameter type": ({"tensors": {"params.init": np.zeros(4, "i8")}}, "init must be"),
    "header not an object": ({"text": "[]"}, "format='robirank-model'"),
    "header not JSON": ({"text": "{"}, "not valid JSON"),
    "header with NaN": ({"text": '{"format": NaN}'}, "not valid JSON"),
    "header nested": ({"text": "[" * 200_000}, "not valid JSON"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_tampered_file_is_refused_with_the_reason(changes, message, saved):
    tampered(saved, **changes)
    with pytest.raises(ModelFileError, match=message) as error:
        load_model(saved)
    assert str(error.value).startswith(f"cannot load {saved}: ")


def test_an_infinite_parameter_in_disguise_is_refused(saved):
    header = json.loads(_header_text(saved)) | {"params": {"alpha": 0.25}}
    del header["crc32"]
    text = json.dumps(header)
    tampered(saved, text=text.replace("0.25", "1e999"))
    with pytest.raises(ModelFileError, match="1e999 is not a finite number"):
        load_model(saved)


def _header_text(path: Path) -> str:
    with safe_open(path, framework="numpy") as file:
        return file.metadata()["robirank"]


def test_the_tampering_itself_is_harmless(saved, model):
    """Rewriting without changes loads, so the refusals above are due to the changes."""
    with pytest.warns(UserWarning, match="has no checksum, as files of an older robirank") as told:
        assert np.array_equal(load_model(tampered(saved)).coef_, model.coef_)
    assert [warning.filename for warning in told] == [__file__]


def test_parameters_of_an_older_version_default(saved):
    params = {k: v for k, v in GOOD_PARAMS.items() if k != "tol"}
    assert load_model(tampered(saved, params=params)).tol == RoBiRank().tol


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({}, "it has no classes_"),
        ({"classes_": {"dtype": "int64", "values": [0, 1, 2]}}, "must hold 2"),
        ({"classes_": {"dtype": "int64", "values": [1, 1]}}, "differ, in rising order"),
        ({"classes_": {"dtype": "int64", "values": [1, 0]}}, "differ, in rising order"),
        ({"classes_": {"dtype": "int64", "values": ["a", "b"]}}, "does not fit its type"),
        ({"classes_": {"dtype": "int8", "values": [0, 10**6]}}, "does not fit its type"),
        ({"classes_": {"dtype": "object", "values": ["a", 1]}}, "does not fit its type"),
        ({"classes_": {"dtype": "<U1000000000", "values": ["a", "b"]}}, "Invalid enum value"),
        ({"classes_": {"dtype": ["int64"], "values": [0, 1]}}, "got `array` - at"),
        ({"classes_": {"dtype": "int64", "values": [[0], [1]]}}, "got `array` - at"),
        ({"classes_": [0, 1]}, r"Expected `object`, got `array` - at `\$.labels"),
    ],
)
def test_tampered_classes_are_refused(labels, message, path):
    save_model(RobustClassifier().fit(DATA.X, DATA.y > 0), path)
    tampered(path, labels=labels)
    with pytest.raises(ModelFileError, match=message):
        load_model(path)


def test_lengths_that_must_agree(path):
    cv = RoBiRankCV(alphas=[1.0, 0.1], cv=2).fit(DATA.X, DATA.y, qid=DATA.qid)
    save_model(cv, path)
    tampered(path, tensors={"scores_": np.zeros((3, 2))})
    with pytest.raises(ModelFileError, match=r"must have shape"):
        load_model(path)


INDICES = {
    "a weak ranker before the first feature": (RankBoost(5), "features_", 0, -1, "features 0 to 3"),
    "a weak ranker behind the last feature": (RankBoost(5), "features_", 0, 99, "features 0 to 3"),
    "a round before the first feature": (AdaRank(5), "features_", 0, -1, "features 0 to 3"),
    "a round behind the last feature": (AdaRank(5), "features_", -1, 4, "features 0 to 3"),
    "a split behind the last feature": (MART(3), "split_feature_", 0, 99, "features 0 to 3"),
    "a split before the first feature": (MART(3), "split_feature_", 0, -2, "or −1 for a leaf"),
    "an inner node made a leaf": (MART(3), "split_feature_", 0, -1, "must be its own child"),
    "a circle": (MART(3), "left_child_", 0, 0, "behind their parent"),
    "a child in another tree": (MART(3), "left_child_", 0, 25, "behind their parent"),
    "a tree that begins too late": (MART(3), "tree_offsets_", 0, 1, "tree_offsets"),
    "a tree that ends too late": (MART(3), "tree_offsets_", -1, 10**6, "tree_offsets"),
}


@pytest.mark.parametrize(
    ("model", "name", "place", "value", "message"), INDICES.values(), ids=INDICES.keys()
)
def test_indices_that_lead_nowhere_are_refused(model, name, place, value, message, path):
    """They would change scores in silence, or fail when the model predicts."""
    model = clone(model).fit(DATA.X, DATA.y, qid=DATA.qid)
    save_model(model, path)
    bad = getattr(model, name).copy()
    bad[place] = value
    tampered(path, tensors={name: bad})
    with pytest.raises(ModelFileError, match=message):
        load_model(path)
    setattr(model, name, bad)
    with pytest.raises(ValueError, match=message):
        save_model(model, path)


def test_counts_are_not_negative(path):
    save_model(MART(3).fit(DATA.X, DATA.y, qid=DATA.qid), path)
    tampered(path, numbers={"n_iter_": 3, "best_iter_": -3})
    with pytest.raises(ModelFileError, match="best_iter_ must be a finite int; it is -3"):
        load_model(path)


# The registry


def test_a_class_is_registered_with_what_it_stores_and_under_one_name():
    with pytest.raises(TypeError, match="Bare must declare fitted_parts"):
        register(type("Bare", (), {}))
    with pytest.raises(ValueError, match=r"RoBiRank in robirank\.ltr\.robirank already"):
        register(type("RoBiRank", (RoBiRank,), {}))
    assert find("RoBiRank") is RoBiRank
    assert find("Bare") is None


def test_looking_all_estimators_up_imports_no_extra():
    code = """
import sys
from robirank.registry import estimators
assert {"RoBiRank", "LambdaMART", "RobustClassifier", "WARP"} <= set(estimators())
print([m for m in ("lightgbm", "ray", "torch", "matplotlib", "fsspec") if m in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


# Methods


def test_load_of_another_class_is_refused(path):
    save_model(RobustClassifier().fit(DATA.X, DATA.y > 0), path)
    with pytest.raises(ModelFileError, match="holds a RobustClassifier, not a RoBiRank"):
        RoBiRank.load(path)


def test_save_and_load_as_methods(model, path):
    model.save(path, feature_names=list("abcd"))
    assert np.array_equal(RoBiRank.load(path).coef_, model.coef_)


def test_a_full_disk_is_an_error_that_names_the_file(model, path, monkeypatch):
    with pytest.raises(OSError, match="No space left on device") as error:
        save_model(model, "/dev/full")
    assert error.value.filename == "/dev/full"

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as error:
        save_model(model, path)
    assert error.value.filename == str(path)
    assert not path.exists()
