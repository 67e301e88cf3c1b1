from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from robirank.data import folds as folds_module
from robirank.data.folds import Fold, load_dataset
from robirank.data.letor import LetorFormatError
from robirank.data.letor_writer import save_letor
from robirank.data.ranking import RankingData


def write(folder: Path, names=("train.txt", "vali.txt", "test.txt"), first_label=0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for label, name in enumerate(names, first_label):
        save_letor(folder / name, RankingData([[label, 1.0], [0.5, 2.0]], [label, 0], [7, 7]))
    return folder


def parts(fold: Fold):
    return [part for part in (fold.train, fold.vali, fold.test) if part is not None]


def test_folds_in_the_order_of_their_numbers(tmp_path):
    for number in (10, 2, 1):
        write(tmp_path / f"Fold{number}", first_label=number)
    (tmp_path / "README.txt").write_text("about")
    (tmp_path / "Folder").mkdir()
    folds = load_dataset(tmp_path)
    assert len(folds) == 3
    assert folds.names == ("Fold1", "Fold2", "Fold10")
    assert repr(folds) == "Folds(Fold1, Fold2, Fold10)"
    assert [fold.name for fold in folds] == ["Fold1", "Fold2", "Fold10"]
    assert [fold.train.y[0] for fold in folds] == [1, 2, 10]
    assert [part.y[0] for part in parts(folds[1])] == [2, 3, 4]
    assert folds[-1].name == "Fold10"
    assert [fold.name for fold in folds[1:]] == ["Fold2", "Fold10"]
    with pytest.raises(IndexError):
        folds[3]


def test_one_split_is_a_data_set_of_one_fold(tmp_path, monkeypatch):
    write(tmp_path / "web", ("train.txt.gz", "test.txt.gz"))
    (fold,) = load_dataset(str(tmp_path / "web"))
    assert fold.name == "web"
    assert fold.vali is None
    assert fold.train.X.tolist() == [[0, 1], [0.5, 2]]
    monkeypatch.chdir(tmp_path / "web")
    assert load_dataset(".").names == ("web",)


@pytest.mark.parametrize("vali", ["vali.txt", "valid.txt.gz", "validation.txt"])
def test_names_of_the_validation_part(tmp_path, vali):
    write(tmp_path, ("train.txt", vali, "test.txt"))
    assert load_dataset(tmp_path)[0].vali.y[0] == 1


@pytest.mark.parametrize("name", ["fold1", "Fold_1", "fold-1", "FOLD1"])
def test_names_of_the_folders(tmp_path, name):
    write(tmp_path / name)
    assert load_dataset(tmp_path).names == (name,)


def test_a_fold_is_read_when_it_is_asked_for_and_only_then(tmp_path, monkeypatch):
    for number in (1, 2):
        write(tmp_path / f"Fold{number}")
    read = []

    def spy(path, options):
        read.append(f"{path.parent.name}/{path.stem}")
        return real(path, options)

    real = folds_module.read_letor
    monkeypatch.setattr(folds_module, "read_letor", spy)
    folds = load_dataset(tmp_path)
    assert read == []
    assert folds[0] is folds[0]
    assert folds[-2] is folds[0]
    assert read == ["Fold1/train", "Fold1/vali", "Fold1/test"]
    assert folds[1].name == "Fold2"
    assert read[3:] == ["Fold2/train", "Fold2/vali", "Fold2/test"]


@pytest.mark.parametrize("sparse", [False, True])
def test_parts_are_widened_to_the_widest(tmp_path, sparse):
    (tmp_path / "train.txt").write_text("1 qid:1 1:1 3:3\n")
    (tmp_path / "vali.txt").write_text("1 qid:1 5:5\n")
    (tmp_path / "test.txt").write_text("1 qid:1 2:2\n")
    fold = load_dataset(tmp_path, sparse=sparse)[0]
    cells = [part.X.toarray() if sparse else part.X for part in parts(fold)]
    assert all(sp.issparse(part.X) == sparse for part in parts(fold))
    np.testing.assert_array_equal(
        np.vstack(cells), [[1, 0, 3, 0, 0], [0, 0, 0, 0, 5], [0, 2, 0, 0, 0]]
    )
    assert {part.X.dtype for part in parts(fold)} == {np.dtype(np.float32)}
    assert load_dataset(tmp_path, n_features=7)[0].test.n_features == 7
    with pytest.raises(LetorFormatError, match=r"vali\.txt:1: .*beyond n_features=4"):
        load_dataset(tmp_path, n_features=4)[0]


def test_options_reach_the_files(tmp_path):
    write(tmp_path)
    fold = load_dataset(tmp_path, dtype=np.float64, normalize=True, num_threads=1)[0]
    assert fold.test.X.dtype == np.float64
    assert fold.test.X.tolist() == [[1, 0], [0, 1]]
    (tmp_path / "test.txt").write_text("bad\n1 qid:1 0:1\n")
    with pytest.warns(UserWarning, match=r"test\.txt: left out 1 of 2 lines"):
        fold = load_dataset(tmp_path, on_error="skip", zero_based=True)[0]
    assert fold.test.n_skipped == 1


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"the folder .*nowhere does not exist"):
        load_dataset(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"no folds in .*; looked for folders Fold1, Fold2"):
        load_dataset(tmp_path)
    write(tmp_path / "Fold1")
    with pytest.raises(NotADirectoryError, match=r"train\.txt is a file; read it with load_letor"):
        load_dataset(tmp_path / "Fold1" / "train.txt")
    write(tmp_path / "Fold2", ("train.txt", "vali.txt"))
    missing = r"fold .*Fold2 has no test file; looked for test\.txt or test\.txt\.gz"
    with pytest.raises(FileNotFoundError, match=missing):
        load_dataset(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"has no train file"):
        load_dataset(write(tmp_path / "flat", ("test.txt",)))


def test_options_are_checked_before_anything_is_read(tmp_path):
    write(tmp_path)
    with pytest.raises(ValueError, match="on_error must be"):
        load_dataset(tmp_path, on_error="warn")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "n_queries", "n_rows", "n_features"),
    [("OHSUMED", 106, 16_140, 45), ("MQ2008", 784, 15_211, 46)],
)
def test_real_folds(real_data, name, n_queries, n_rows, n_features):
    folds = load_dataset(real_data / "letor" / name)
    assert folds.names == ("Fold1", "Fold2", "Fold3", "Fold4", "Fold5")
    tested: set[int] = set()
    for fold in folds:
        assert sum(part.n_rows for part in parts(fold)) == n_rows
        assert sum(part.n_queries for part in parts(fold)) == n_queries
        assert {part.n_features for part in parts(fold)} == {n_features}
        assert set(np.concatenate([part.y for part in parts(fold)])) == {0, 1, 2}
        tested |= set(fold.test.qid.tolist())
    assert len(tested) == n_queries


@pytest.mark.data
def test_the_real_sample_without_validation(real_data):
    (fold,) = load_dataset(real_data / "letor" / "MSLR-sample", normalize=True)
    assert fold.vali is None
    assert fold.train.X.shape == fold.test.X.shape == (5000, 136)
    assert fold.train.X.min() == 0
    assert fold.train.X.max() == 1
