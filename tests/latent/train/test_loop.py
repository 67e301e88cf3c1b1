"""The training loop: what is told, when it ends, what is kept, what survives a kill."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from latent.tiny import as_factors, rows_of
from robirank import LatentRoBiRank, ModelFileError, evaluate, make_interactions, split_ratio
from robirank.engine.interface import Sizes
from robirank.latent.solvers.exact import ExactSolver
from robirank.latent.solvers.problem import Penalty, Problem, RowWeights
from robirank.latent.train.local import LocalFit
from robirank.latent.train.loop import DivergenceError, Loop
from robirank.latent.train.request import FitOptions
from robirank.storage.checkpoint_file import CheckpointFile
from robirank.storage.tensor_file import open_model, write_model

ALWAYS = 1e-9  # minutes between two checkpoints


@pytest.fixture(scope="module")
def split():
    return split_ratio(make_interactions(200, 100, 3000, random_state=0), random_state=0)


@pytest.fixture(scope="module")
def data(split):
    return split[0]


def model(**changes):
    settings = {"factors": 8, "iterations": 6, "random_state": 0, "num_threads": 1}
    return LatentRoBiRank(**settings | changes)


def fit(data, *, changes=None, **options):
    return model(**changes or {}).fit(data, **{"show_progress": False} | options)


def same(a, b):
    """The same bits, and the same types in the history."""
    assert_array_equal(a.user_factors, b.user_factors)
    assert_array_equal(a.item_factors, b.item_factors)
    without_time = [
        [{k: v for k, v in e.items() if k != "seconds"} for e in m.history_] for m in (a, b)
    ]
    assert repr(without_time[0]) == repr(without_time[1])
    assert (a.n_iter_, a.best_iter_) == (b.n_iter_, b.best_iter_)


class Steps:
    """A solver that only says what it was told to; U holds the epoch's number."""

    def __init__(self, losses, *, seconds=0.0, factors=None, start=None):
        self._losses, self._seconds, self._start = losses, seconds, start
        self.done = 0
        self.U, self.V = factors or (np.ones((2, 1), np.float32), np.ones((3, 1), np.float32))

    def epoch(self, number, epochs, should_stop):
        time.sleep(self._seconds)
        self.done = number + 1
        self.U = self.U * 0 + np.float32(self.done) if np.isfinite(self.U).all() else self.U
        loss = self._losses[number]
        return {"loss": loss} | ({} if self._start is None else {"start": self._start})

    def factors(self):
        return as_factors(self.U, self.V)

    def state(self):
        return {"U": self.U, "V": self.V}

    def restore(self, state):
        self.U, self.V = state["U"], state["V"]


class Scripted(LocalFit):
    """A fit without tables, whose validation gives these values."""

    def __init__(self, steps, values=()):
        self._solver = self._steps = steps
        self._checkpoint = self._best = None
        self.whole_epochs, self._values = False, values

    def validate(self, metric):
        return self._values[self._steps.done - 1]


def loop(steps, values=(), idle_loss=0.0, **options):
    """A run of the loop; a mean weight stands for the loss of a model that knows nothing."""
    n = len(steps._losses)
    one = RowWeights(1.0, 1.0)
    problem = Problem(
        solver="exact",
        factors=1,
        epochs=n,
        seed=0,
        rho="identity",
        sizes=Sizes(2, 2, 2, 5),
        penalty=Penalty(0.5, one, one),
        learning_rate=0.7,
        mean_weight=idle_loss,
    )
    given = FitOptions(show_progress=False, validation="some" if values else None, **options)
    return Loop(problem, steps, Scripted(steps, values), given, "test")


# What is told.


def test_callback_has_the_signature_of_implicit(data):
    told = []
    fitted = fit(data, callback=lambda *arguments: told.append(arguments))
    assert [epoch for epoch, _, _ in told] == [0, 1, 2, 3, 4, 5]
    assert [loss for *_, loss in told] == [entry["loss"] for entry in fitted.history_]
    # Seconds are those of the epoch, as implicit's ALS gives them; the history adds them up.
    total = np.cumsum([seconds for _, seconds, _ in told])
    assert total == pytest.approx([entry["seconds"] for entry in fitted.history_])


def test_callbacks_get_a_report(split):
    train, valid = split
    reports = []
    fitted = fit(train, validation=valid, metric="recall@5", callbacks=[reports.append])
    assert [(r.epoch, r.epochs) for r in reports] == [(n, 6) for n in range(1, 7)]
    assert [r.validation for r in reports] == [e["recall@5"] for e in fitted.history_]
    assert [r.seconds for r in reports] == [e["seconds"] for e in fitted.history_]
    assert reports[-1].user_factors.shape == (200, 8)
    assert reports[-1].item_factors.shape == (100, 8)
    assert "user_factors" not in repr(reports[0])


@pytest.mark.parametrize("where", ["callback", "callbacks"])
def test_true_ends_the_training_and_other_values_do_not(data, where):
    def tell(answer, at):
        if where == "callback":
            return {"callback": lambda epoch, *_: answer if epoch + 1 == at else None}
        return {"callbacks": [lambda report: answer if report.epoch == at else None]}

    assert fit(data, **tell(True, 2)).n_iter_ == 2
    assert fit(data, **tell(np.True_, 2)).n_iter_ == 2  # as Optuna's pruners say it
    assert fit(data, **tell(1, 2)).n_iter_ == 6


def test_progress_fits_into_80_columns_and_needs_no_terminal(split, capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    train, valid = split
    fit(train, show_progress=True, validation=valid)
    out, shown = capfd.readouterr()
    assert out == ""
    for part in (
        "LatentRoBiRank (exact, λ = 0.",
        "6/6",
        "left",
        "loss",
        "ndcg@20",
        "best",
        "interactions/s",
    ):
        assert part in shown
    assert "…" not in shown
    fit(train, show_progress=False)
    assert capfd.readouterr() == ("", "")


def test_error_in_a_callback_comes_out_and_leaves_the_model_alone(data):
    m = fit(data)
    before = m.user_factors
    with pytest.raises(KeyError, match="mine"):
        m.fit(data, show_progress=False, callback=lambda *_: {}["mine"])
    assert m.user_factors is before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "ndcg@20"}, "metric needs a validation set to watch"),
        ({"metric": "ndcg"}, r"metric must be one of precision@k.*got 'ndcg'"),
        ({"metric": "auc@20"}, "got 'auc@20'"),
        ({"metric": "ndcg@0"}, "got 'ndcg@0'"),
        ({"metric": "ndcg@-3"}, "got 'ndcg@-3'"),
        ({"metric": 20}, "got 20"),
        ({"patience": 3}, "patience needs a validation set"),
        ({"patience": 0}, "patience must be a positive integer; got 0"),
        ({"time_limit": 0}, "time_limit must be a positive number; got 0"),
        ({"time_limit": "1h"}, "time_limit must be a positive number; got '1h'"),
        ({"callback": 3}, "callback must be a function; got 3"),
        ({"callbacks": print}, "callbacks must be a list of functions; got <built-in"),
        ({"callbacks": ["print"]}, "callbacks must be a function; got 'print'"),
        ({"resume": True}, "resume needs a checkpoint"),
        ({"checkpoint": "a", "checkpoint_minutes": 0}, "checkpoint_minutes must be a positive"),
        ({"checkpoint_minutes": 5}, "checkpoint_minutes needs a file to write to"),
    ],
)
def test_bad_options_are_refused_before_training(data, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    started = []
    monkeypatch.setattr(Loop, "run", lambda self: started.append(1))
    with pytest.raises(ValueError, match=message):
        fit(data, **options)
    assert not started


def test_validation_that_does_not_fit_is_refused_before_training(split, monkeypatch):
    train, valid = split
    monkeypatch.setattr(Loop, "run", lambda self: pytest.fail("it was trained"))
    with pytest.raises(ValueError, match=r"validation must have the shape .*200, 100.*199, 100"):
        fit(train, validation=valid.matrix[:199])
    with pytest.raises(ValueError, match="validation must hold at least one interaction"):
        fit(train, validation=valid.matrix * 0)
    with pytest.raises(TypeError, match="validation must be a sparse users × items matrix"):
        fit(train, validation=valid.matrix.toarray())
    other = type(valid)(
        valid.users, type(valid.items)(range(100, 200)), valid.indptr, valid.indices
    )
    with pytest.raises(ValueError, match=r"items of user_items.*validation\.align"):
        fit(train, validation=other)


def test_stored_zeros_are_not_held_out(split):
    train, valid = split
    zeros = valid.matrix.copy()
    zeros.data[::2] = 0
    stripped = zeros.copy()
    stripped.eliminate_zeros()
    same(fit(train, validation=zeros), fit(train, validation=stripped))


# When it ends, and what is kept.


def scripted(values, **changes):
    run = loop(Steps([1.0] * len(values)), values, **changes)
    factors = run.run().factors
    return run.progress, rows_of(factors)


def test_patience_counts_epochs_without_a_better_value():
    progress, (U, _) = scripted([0.1, 0.3, 0.2, 0.3, 0.9], patience=2)
    assert (progress.best_epoch, progress.best_value, len(progress.history)) == (2, 0.3, 4)
    assert progress.stopped == "no better"
    assert U[0, 0] == 2


def test_without_patience_all_epochs_are_done_and_the_best_is_kept():
    progress, (U, _) = scripted([0.1, 0.3, 0.2, 0.2, 0.25])
    assert (progress.best_epoch, len(progress.history), progress.stopped) == (2, 5, "")
    assert U[0, 0] == 2


def test_validation_about_16_times_and_after_the_last_epoch():
    progress, _ = scripted([0.1] * 50)
    assert [e["epoch"] for e in progress.history if "ndcg@20" in e] == [*range(3, 50, 3), 50]


def test_kept_model_has_the_best_value(split):
    train, valid = split
    fitted = fit(
        train,
        changes={"iterations": 20, "learning_rate": 0.3},
        validation=valid,
        metric="ndcg@5",
        patience=4,
    )
    curve = [entry["ndcg@5"] for entry in fitted.history_]
    assert len(curve) == fitted.n_iter_
    assert fitted.best_iter_ == 1 + int(np.argmax(curve))
    assert evaluate(fitted, train=train, test=valid, k=5)["ndcg@5"] == max(curve)
    # Matrices do as well as Interactions.
    again = fit(
        train.matrix,
        changes={"iterations": 20, "learning_rate": 0.3},
        validation=valid.matrix,
        metric="ndcg@5",
        patience=4,
    )
    assert_array_equal(again.user_factors, fitted.user_factors)


def test_time_limit_shortens_the_plan():
    run = loop(Steps([1.0] * 100, seconds=0.02), time_limit=0.1)
    run.run()
    assert 2 <= len(run.progress.history) <= 5
    assert run.progress.epochs == run.progress.epoch  # so that the rate fell to its end
    assert run.progress.history[-1]["seconds"] <= 0.15


def test_at_least_one_epoch_within_any_limit_and_the_last_is_validated():
    run = loop(Steps([1.0] * 100, seconds=0.01), [0.5] * 100, time_limit=1e-6)
    run.run()
    assert [e["ndcg@20"] for e in run.progress.history] == [0.5]


def test_time_limit_through_the_model(data):
    fitted = fit(data, changes={"iterations": 10**6}, time_limit=0.3)
    assert 1 <= fitted.n_iter_ < 10**5
    assert fitted.history_[-1]["seconds"] < 1.5


@pytest.mark.parametrize("solver", ["exact", "sgd"])
def test_a_time_limit_holds_within_an_epoch(solver):
    table = make_interactions(20_000, 4000, 400_000, random_state=0)
    model = LatentRoBiRank(64, solver=solver, regularization=0.2, parts=64, random_state=0)
    limited, whole = [], []
    for _ in range(3):  # other programs can hold up one of them
        begin = time.perf_counter()
        with pytest.warns(UserWarning, match=r"time_limit=0\.05 was over in the first epoch"):
            model.set_params(iterations=64).fit(table, show_progress=False, time_limit=0.05)
        limited.append(time.perf_counter() - begin)
        assert model.n_iter_ == 1
        begin = time.perf_counter()
        model.set_params(iterations=1).fit(table, show_progress=False)
        whole.append(time.perf_counter() - begin)
    assert min(limited) < min(whole)


# Divergence.


@pytest.mark.parametrize(
    ("losses", "idle", "start", "what"),
    [
        ([1.0, np.nan], 1.0, None, "epoch 2: the loss became nan"),
        ([np.inf], 1.0, None, "epoch 1: the loss became inf"),
        ([1.0, 0.9, 1.6], 1.0, None, "epoch 3: the loss grew from 1 to 1.6"),
        ([1.6], 1.0, 1.01, "epoch 1: the loss grew from 1.01 to 1.6"),
        ([1.0, 1.6], 0.0, None, "epoch 2: the loss grew from 1 to 1.6"),
    ],
)
def test_divergence_says_what_happened_and_what_to_do(losses, idle, start, what):
    advice = r"Lower learning_rate \(it is 0.7; .* raise regularization \(it is 0.5\)"
    with pytest.raises(DivergenceError, match=rf"{what}\. {advice}"):
        loop(Steps(losses, start=start), idle_loss=idle).run()


@pytest.mark.parametrize(
    ("losses", "idle", "start"),
    [
        ([1.4, 1.0], 1.0, None),  # not yet
        ([0.1, 0.9], 1.0, None),  # still better than to know nothing
        ([2.9, 1.0], 1.0, 2.0),  # it began there
        ([0.0, 0.0], 0.0, 0.0),  # a catalogue of one item
    ],
)
def test_what_is_no_divergence(losses, idle, start):
    run = loop(Steps(losses, start=start), idle_loss=idle)
    run.run()
    assert [entry["loss"] for entry in run.progress.history] == losses


def test_factors_that_are_not_finite_are_never_handed_out():
    factors = np.array([[np.inf]], np.float32), np.ones((1, 1), np.float32)
    with pytest.raises(DivergenceError, match="epoch 1: factors are not finite"):
        loop(Steps([1.0], factors=factors)).run()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("rho", ["log", "identity"])
@pytest.mark.parametrize("rate", [1e6, 1e30, 1e300])
def test_absurd_rates_diverge_and_leave_the_model_untouched(data, rho, rate):
    m = fit(data, changes={"rho": rho})
    before = (m.user_factors, m.item_factors, m.history_)
    m.set_params(learning_rate=rate)
    with pytest.raises(
        DivergenceError, match=rf"Lower learning_rate \(it is {rate:g}".replace("+", r"\+")
    ):
        m.fit(data, show_progress=False)
    with pytest.raises(DivergenceError):
        m.partial_fit(data)
    assert all(
        now is then
        for now, then in zip((m.user_factors, m.item_factors, m.history_), before, strict=True)
    )


def test_overflow_in_the_very_last_step(data):
    # Seven users are one step an epoch: its loss is that of the start, whatever the step does.
    with pytest.raises(DivergenceError, match="factors are not finite"):
        fit(data.matrix[:7], changes={"iterations": 1, "learning_rate": 1e39})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "changes",
    [
        {"regularization": 1e-30},
        {"regularization": 1e30},
        {"rho": "type2", "learning_rate": 1e6},
        {"rho": "type2", "learning_rate": 1e20, "regularization": 1e-30},
        {"learning_rate": 1e-30},
    ],
    ids=repr,
)
def test_extreme_settings_give_finite_factors(data, changes):
    fitted = fit(data, changes=changes)
    assert np.isfinite(fitted.user_factors).all()
    assert np.isfinite(fitted.item_factors).all()


# Checkpoints.


class KilledError(Exception):
    pass


def kill_after(n):
    def tell(epoch, *_):
        if epoch + 1 == n:
            raise KilledError

    return tell


@pytest.mark.parametrize("with_validation", [False, True])
def test_resumed_fit_has_the_same_bits(split, with_validation, tmp_path):
    train, valid = split
    options = {"validation": valid, "metric": "ndcg@5"} if with_validation else {}
    through = fit(train, **options)
    options |= {"checkpoint": tmp_path / "fit", "checkpoint_minutes": ALWAYS}
    with pytest.raises(KilledError):
        fit(train, callback=kill_after(4), **options)
    seen = []
    resumed = fit(
        train,
        changes={"num_threads": 2},
        resume=True,
        callback=lambda *a: seen.append(a[0]),
        **options,
    )
    assert seen == [3, 4, 5]  # the fourth was told of, but not yet saved
    same(resumed, through)


def test_a_complete_fit_is_not_trained_further(split, tmp_path):
    train, valid = split
    options = {
        "validation": valid,
        "metric": "ndcg@5",
        "patience": 1,
        "checkpoint": tmp_path / "fit",
    }
    settings = {"iterations": 40, "learning_rate": 0.5}
    first = fit(train, changes=settings, **options)
    assert first.n_iter_ < 40  # patience ended it
    seen = []
    same(
        fit(train, changes=settings, resume=True, callback=lambda *a: seen.append(a), **options),
        first,
    )
    assert not seen


def test_a_fit_that_a_callback_ended_goes_on(data, tmp_path):
    fit(data, callback=lambda *_: True, checkpoint=tmp_path / "fit")
    same(fit(data, checkpoint=tmp_path / "fit", resume=True), fit(data))


def test_a_random_state_object_can_be_resumed(data, tmp_path):
    settings = [{"random_state": np.random.RandomState(5)} for _ in range(3)]
    through = fit(data, changes=settings[0])
    with pytest.raises(KilledError):
        fit(
            data,
            changes=settings[1],
            checkpoint=tmp_path / "fit",
            checkpoint_minutes=ALWAYS,
            callback=kill_after(3),
        )
    same(fit(data, changes=settings[2], checkpoint=tmp_path / "fit", resume=True), through)


def test_partial_fits_do_not_take_up_each_others_checkpoints(split, tmp_path):
    train, _ = split
    options = {"checkpoint": tmp_path / "fit", "resume": True}
    m = fit(train, **options)
    first = m.user_factors.copy()
    with pytest.raises(ModelFileError, match="belongs to another fit"):
        m.partial_fit(train, 6, **options)
    m.partial_fit(train, 2, checkpoint=tmp_path / "more")
    second = m.user_factors.copy()
    assert (second != first).any()
    with pytest.raises(ModelFileError, match="belongs to another fit"):  # another start
        m.partial_fit(train, 2, checkpoint=tmp_path / "more", resume=True)
    again = fit(train).partial_fit(train, 2, checkpoint=tmp_path / "more", resume=True)
    assert_array_equal(again.user_factors, second)


def test_numpy_numbers_as_parameters(data, tmp_path):
    changes = {name: np.int64(value) for name, value in (("factors", 8), ("iterations", 6))}
    same(fit(data, changes=changes, checkpoint=tmp_path / "fit"), fit(data))
    same(fit(data, changes=changes, checkpoint=tmp_path / "fit", resume=True), fit(data))


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": 99},
        {"epoch": -5},
        {"epochs": 0},
        {"best_epoch": 3, "best_value": 0.5},
        {"best_epoch": 3},
        {"stopped": "foo"},
        {"seconds": -1.0},
        {"history": []},
    ],
    ids=repr,
)
def test_progress_that_cannot_be(data, change, tmp_path):
    fit(data, checkpoint=tmp_path / "fit")
    with open_model(tmp_path / "fit") as file:
        header = file.header | {"progress": file.header["progress"] | change}
        arrays = {name: file.read(name) for name in file.tensors}
    write_model(tmp_path / "fit", header, arrays)
    with pytest.raises(ModelFileError, match="the checkpoint cannot be used"):
        fit(data, checkpoint=tmp_path / "fit", resume=True)


def test_without_resume_the_fit_begins_anew(data, tmp_path):
    fit(data, checkpoint=tmp_path / "fit")
    seen = []
    fit(data, checkpoint=tmp_path / "fit", callback=lambda *a: seen.append(a))
    assert len(seen) == 6


def test_resume_without_a_file_is_a_fit(data, tmp_path):
    same(fit(data, checkpoint=tmp_path / "fit", resume=True), fit(data))
    assert (tmp_path / "fit").exists()


@pytest.mark.parametrize(
    "other",
    ["seed", "factors", "rate", "data", "weights", "validation", "metric", "no validation"],
)
def test_checkpoint_of_another_fit_is_refused(split, other, tmp_path):
    train, valid = split
    matrix = train.matrix.copy()
    options = {"validation": valid.matrix.copy(), "checkpoint": tmp_path / "fit"}
    changes = {"weighting": "count"}
    fit(matrix, changes=changes, **options)
    if other == "seed":
        changes["random_state"] = 1
    elif other == "factors":
        changes["factors"] = 9
    elif other == "rate":
        changes["learning_rate"] = 0.01
    elif other == "data":
        matrix = matrix.tolil()
        matrix[0, 0] = 1 - matrix[0, 0]
    elif other == "weights":
        matrix.data[0] += 1
    elif other == "validation":
        options["validation"] = options["validation"][::-1].tocsr()
    elif other == "metric":
        options["metric"] = "recall@20"
    else:
        del options["validation"]
    with pytest.raises(ModelFileError, match="belongs to another fit: settings, data or version"):
        fit(matrix, changes=changes, resume=True, **options)


def test_damaged_checkpoint_is_refused(data, tmp_path):
    path = tmp_path / "fit"
    fit(data, checkpoint=path)
    whole = path.read_bytes()
    for damaged in (b"", whole[:100], whole[:-1], b"\0" * len(whole), b"not a file"):
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match="cannot load"):
            fit(data, checkpoint=path, resume=True)
    fit(data).save(path)
    with pytest.raises(ModelFileError, match="it is a model, not a checkpoint"):
        fit(data, checkpoint=path, resume=True)


def test_a_file_that_is_no_checkpoint_is_not_overwritten(data, tmp_path, monkeypatch):
    path = tmp_path / "fit"
    fit(data, checkpoint=path)
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    for own in (bytes(damaged), b""):  # nothing is lost
        path.write_bytes(own)
        same(fit(data, checkpoint=path), fit(data))
    fit(data).save(path)
    monkeypatch.setattr(Loop, "run", lambda self: pytest.fail("it was trained"))
    for content in (path.read_bytes(), b"user,item\n", bytes(damaged[:-1])):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=r"checkpoint .*fit must not overwrite a file"):
            fit(data, checkpoint=path)
        assert path.read_bytes() == content


def test_what_a_killed_fit_left_is_removed_at_the_start(data, tmp_path, monkeypatch):
    left = tmp_path / ".fit.0a1b2c3d.tmp"
    left.write_bytes(b"half of a checkpoint")
    seen = []
    monkeypatch.setattr(Loop, "run", lambda self: seen.append(left.exists()) or stop())

    def stop():
        raise KilledError

    with pytest.raises(KilledError):
        fit(data, checkpoint=tmp_path / "fit")
    assert seen == [False]


def test_checkpoint_with_arrays_missing_or_of_another_shape(tmp_path):
    checkpoint = CheckpointFile(tmp_path / "fit", "mine")
    checkpoint.write({"epochs": 1}, {"state.U": np.zeros((2, 3))})
    assert checkpoint.read({"state.U": np.ones((2, 3))}, {})[0] == {"epochs": 1}
    with pytest.raises(
        ModelFileError, match=r"state.U must be F64 of shape \(3, 2\); it is F64 of"
    ):
        checkpoint.read({"state.U": np.ones((3, 2))}, {})
    with pytest.raises(ModelFileError, match=r"state\.V must be .* it is missing"):
        checkpoint.read({"state.V": np.ones(1)}, {})
    with pytest.raises(ModelFileError, match=r"has an array 'state\.U', which does not belong"):
        checkpoint.read({}, {})


def test_places_that_cannot_be_written_are_refused_before_training(data, tmp_path, monkeypatch):
    monkeypatch.setattr(Loop, "run", lambda self: pytest.fail("it was trained"))
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere"):
        fit(data, checkpoint=tmp_path / "nowhere" / "fit")
    with pytest.raises(IsADirectoryError, match="must be a file; it is a folder"):
        fit(data, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="checkpoint needs a random_state"):
        fit(data, changes={"random_state": None}, checkpoint=tmp_path / "fit")


def test_checkpoints_come_every_few_minutes(tmp_path, monkeypatch):
    clock = iter(range(0, 100_000, 45))  # seconds: one look at the clock, 45 more
    monkeypatch.setattr("robirank.storage.checkpoint_file.time.monotonic", lambda: next(clock))
    checkpoint = CheckpointFile(tmp_path / "fit", "", minutes=1)
    assert [checkpoint.is_due() for _ in range(3)] == [False, True, True]
    checkpoint.write({}, {})
    assert [checkpoint.is_due() for _ in range(2)] == [False, True]


# Ctrl-C.


def press_after(n, times=1):
    def tell(report):
        if report.epoch == n:
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)

    return [tell]


def test_ctrl_c_leaves_a_usable_model(data):
    before = signal.getsignal(signal.SIGINT)
    with pytest.warns(UserWarning, match="interrupted in epoch 2 of 6.*can be used") as caught:
        fitted = fit(data, callbacks=press_after(2))
    assert caught[0].filename == __file__
    assert fitted.n_iter_ == 2
    assert_array_equal(fitted.user_factors, fit(data, callback=lambda e, *_: e == 1).user_factors)
    assert signal.getsignal(signal.SIGINT) is before


def test_second_ctrl_c_gives_up(data):
    m = model()
    with pytest.raises(KeyboardInterrupt):
        m.fit(data, show_progress=False, callbacks=press_after(2, times=2))
    assert not hasattr(m, "user_factors")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_and_resume(split, tmp_path):
    train, valid = split
    options = {"validation": valid, "metric": "ndcg@5"}
    through = fit(train, **options)
    with pytest.warns(UserWarning, match="interrupted"):
        fit(train, callbacks=press_after(3), checkpoint=tmp_path / "fit", **options)
    same(fit(train, checkpoint=tmp_path / "fit", resume=True, **options), through)


@pytest.mark.parametrize("saved", [False, True])
def test_ctrl_c_within_an_epoch(data, saved, tmp_path, monkeypatch):
    # Without a checkpoint the epoch is cut short; with one it is done, so that the bits stay.
    through = fit(data)
    steps = []
    original = ExactSolver._step

    def step(self, *arguments):
        steps.append(1)
        if len(steps) == 30:
            signal.raise_signal(signal.SIGINT)
        return original(self, *arguments)

    options = {"checkpoint": tmp_path / "fit"} if saved else {}
    monkeypatch.setattr(ExactSolver, "_step", step)
    with pytest.warns(UserWarning, match="epoch 2 of 6"):
        fit(data, **options)
    monkeypatch.undo()
    assert len(steps) == (50 if saved else 30)  # 25 blocks of 8 users
    if saved:
        same(fit(data, resume=True, **options), through)


def test_handlers_of_the_caller_are_left_alone(data):
    pressed = []
    before = signal.signal(signal.SIGINT, lambda *_: pressed.append(1))
    try:
        assert fit(data, callbacks=press_after(2)).n_iter_ == 6
    finally:
        signal.signal(signal.SIGINT, before)
    assert pressed == [1]


def test_fits_in_a_thread(data):
    found = []
    thread = threading.Thread(target=lambda: found.append(fit(data)))
    thread.start()
    thread.join()
    same(found[0], fit(data))


SCRIPT = """
import sys, warnings
from robirank import LatentRoBiRank, make_interactions, split_ratio

train, _ = split_ratio(make_interactions(200, 100, 3000, random_state=0), random_state=0)
model = LatentRoBiRank(8, iterations={iterations}, random_state=0, num_threads=2)

def tell(epoch, *_):
    if epoch == 3:
        print("going", flush=True)

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model.fit(train, show_progress=False, callback=tell, {options})
ids, _ = model.recommend(0, train.matrix[0], N=5)
print(len(ids), model.n_iter_ < {iterations}, caught[0].message)
"""


def started(iterations, options=""):
    code = textwrap.dedent(SCRIPT).format(iterations=iterations, options=options)
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "going\n", process.stderr.read()
    return process


def test_sigint_from_outside():
    process = started(10**7)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.startswith("5 True interrupted in epoch")
    assert "stopping after this step; press Ctrl-C again to give up" in err


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_killed_process_and_resume(data, tmp_path):
    path = tmp_path / "fit"
    process = started(3000, f"checkpoint={os.fspath(path)!r}, checkpoint_minutes=1e-9")
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    seen = []
    resumed = fit(
        data,
        changes={"iterations": 3000},
        checkpoint=path,
        resume=True,
        callback=lambda epoch, *_: seen.append(epoch) or epoch > seen[0] + 3,
    )
    assert 0 < seen[0] < 2900
    through = fit(
        data, changes={"iterations": 3000}, callback=lambda epoch, *_: epoch > seen[0] + 3
    )
    same(resumed, through)


# A full disk


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_told_once_and_training_goes_on(data, tmp_path, monkeypatch):
    path, seen = tmp_path / "fit", []
    options = {"checkpoint": path, "checkpoint_minutes": ALWAYS}

    def fill_up(epoch, *_):
        if epoch == 2:
            seen.append(path.read_bytes())
            monkeypatch.setattr(os, "fsync", full)

    with pytest.warns(RuntimeWarning, match=r"checkpoint .*fit could not be .*No space") as told:
        filled = fit(data, callback=fill_up, **options)
    assert len(told) == 1
    assert "the one before is kept" in str(told[0].message)
    same(filled, fit(data))
    assert path.read_bytes() == seen[0]
    assert [p.name for p in tmp_path.iterdir()] == ["fit"]
    monkeypatch.undo()
    same(fit(data, resume=True, **options), filled)


def test_a_disk_that_is_full_from_the_start(data):
    with pytest.warns(RuntimeWarning, match=r"could not be written \(No space left on device\)"):
        filled = fit(data, checkpoint="/dev/full", checkpoint_minutes=ALWAYS)
    same(filled, fit(data))


def test_a_disk_that_has_room_again_is_written_to(data, tmp_path, monkeypatch):
    def fill_up(epoch, *_):
        monkeypatch.setattr(os, "fsync", full) if epoch == 1 else monkeypatch.undo()

    with pytest.warns(RuntimeWarning, match="could not be written"):
        fit(
            data,
            callback=lambda epoch, *_: fill_up(epoch + 1),
            checkpoint=tmp_path / "fit",
            checkpoint_minutes=ALWAYS,
        )
    with open_model(tmp_path / "fit") as file:
        assert file.header["progress"]["epoch"] == 6


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounts a small disk")
def test_a_disk_that_is_really_full(data, tmp_path):
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", tmp_path], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount: {mounted.stderr.decode()}")
    try:
        (tmp_path / "other").write_bytes(bytes(40_000))
        options = {"checkpoint": tmp_path / "fit", "checkpoint_minutes": ALWAYS}
        with pytest.warns(RuntimeWarning, match=r"could not be written \(No space left"):
            same(fit(data, **options), fit(data))
        assert {p.name for p in tmp_path.iterdir()} == {"fit", "other"}
        with pytest.raises(OSError, match="No space left on device") as error:
            fit(data, changes={"factors": 64}).save(tmp_path / "model")
        assert error.value.filename == str(tmp_path / "model")
        (tmp_path / "other").unlink()
        same(fit(data, resume=True, **options), fit(data))
    finally:
        subprocess.run(["umount", tmp_path], check=True)
