"""Model files have a checksum: no flipped bit changes what is loaded."""

import warnings
import zlib

import numpy as np
import pytest

import robirank as rr
from robirank.storage.checkpoint_file import CheckpointFile
from robirank.storage.tensor_file import ModelFileError, open_model, write_model

ARRAYS = {"coef_": np.arange(5.0), "places": np.arange(7, dtype=np.int32)}


def flips(content, times, seed):
    """The content with one bit flipped, each time another: in the header as often as behind it."""
    rng = np.random.default_rng(seed)
    header = 8 + int.from_bytes(content[:8], "little")
    for place in [*rng.integers(header, size=times), *rng.integers(len(content), size=times)]:
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(rng.integers(8))
        yield bytes(flipped)


def test_the_checksum_is_that_of_the_file_with_zeros_in_its_place(tmp_path):
    write_model(tmp_path / "m", {"class": "any"}, ARRAYS)
    content = (tmp_path / "m").read_bytes()
    before, digits = rb'{"__metadata__":{"robirank":"{\"crc32\": \"', content[51:59]
    assert content[8:51] == before
    assert int(digits, 16) == zlib.crc32(content[:51] + b"00000000" + content[59:])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with open_model(tmp_path / "m") as file:
            assert "crc32" not in file.header
            assert (file.read("coef_") == ARRAYS["coef_"]).all()


def test_the_same_file_goes_to_a_path_and_to_an_open_file(tmp_path):
    write_model(tmp_path / "a", {}, ARRAYS)
    with (tmp_path / "b").open("wb") as file:
        write_model(file, {}, ARRAYS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_no_flipped_bit_changes_a_model(tmp_path):
    data = rr.make_interactions(30, 20, 200, random_state=0)
    model = rr.WARP(4, iterations=1, random_state=0).fit(data, show_progress=False)
    path = tmp_path / "model"
    model.save(path)
    refused = 0
    for content in flips(path.read_bytes(), 100, seed=1):
        path.write_bytes(content)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the name of the checksum may be hit
                loaded = rr.load_model(path)
        except ModelFileError:
            refused += 1
            continue
        assert loaded.get_params() == model.get_params()
        assert (loaded.user_factors == model.user_factors).all()
        assert (loaded.item_factors == model.item_factors).all()
    assert refused >= 195


def test_no_flipped_bit_changes_a_checkpoint(tmp_path):
    path, arrays = tmp_path / "fit", {"state.U": np.ones((40, 3), np.float32)}
    checkpoint = CheckpointFile(path, "mine")
    progress = {"epochs": 4, "history": [{"epoch": 1, "loss": 0.5}]}
    checkpoint.write(progress, arrays)
    refused = 0
    for content in flips(path.read_bytes(), 100, seed=2):
        path.write_bytes(content)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = checkpoint.read(arrays, {})
        except ModelFileError:
            refused += 1
            continue
        assert found[0] == progress
        assert (found[1]["state.U"] == 1).all()
    assert refused >= 190


def test_a_damaged_file_says_so(tmp_path):
    write_model(tmp_path / "m", {"class": "any"}, ARRAYS)
    content = bytearray((tmp_path / "m").read_bytes())
    content[-1] ^= 1
    (tmp_path / "m").write_bytes(content)
    with (
        pytest.raises(ModelFileError, match=r"cannot load .*m: it is damaged: its checksum is"),
        open_model(tmp_path / "m"),
    ):
        pass
