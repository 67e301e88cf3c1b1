"""Training on a Ray cluster: the same bits as here, and clear errors at the door."""

import json
import shutil
import sys
import tempfile
import warnings

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from typer.testing import CliRunner

import robirank as rr
from engine import clusters
from engine.clusters import PARTS, SETTINGS, on_ray, same_factors
from robirank.cli.app import app
from robirank.data.partitions import PartitionsError
from robirank.engine.ray.actors import ClusterError, connect
from robirank.storage.folder import FileEntry

pytestmark = pytest.mark.ray


def test_threads_change_no_bit(data, partitions, undisturbed):
    for threads in (1, 2, 3):
        model = rr.LatentRoBiRank(num_threads=threads, parts=PARTS, **SETTINGS)
        same_factors(model.fit(data, show_progress=False), undisturbed)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_change_no_bit(ray_cluster, partitions, undisturbed, tmp_path, workers):
    model = on_ray(tmp_path, workers=workers).fit(partitions, show_progress=False)
    same_factors(model, undisturbed)
    assert [entry["loss"] for entry in model.history_] == [
        entry["loss"] for entry in undisturbed.history_
    ]
    assert model.n_iter_ == SETTINGS["iterations"]


@pytest.mark.parametrize(
    "options",
    [
        {"weighting": "log"},
        {"weighting": "count", "rho": "identity", "regularization": 0.1},
        {"factors": 32, "rho": "type2", "iterations": 2},
    ],
    ids=["log", "identity", "type2"],
)
def test_variants_have_the_same_bits(ray_cluster, partitions, tmp_path, options):
    settings = SETTINGS | options
    here = rr.LatentRoBiRank(**settings).fit(partitions, show_progress=False)
    engine = rr.RayConfig(tmp_path, workers=3)
    there = rr.LatentRoBiRank(engine=engine, **settings).fit(partitions, show_progress=False)
    same_factors(here, there)


@pytest.mark.parametrize("table", ["interactions", "matrix"])
def test_one_word_is_enough(ray_cluster, data, undisturbed, table, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = rr.LatentRoBiRank(engine="ray", parts=PARTS, **SETTINGS)
    model.fit(data if table == "interactions" else data.matrix, show_progress=False)
    same_factors(model, undisturbed)
    assert not list(tmp_path.glob("robirank-*"))  # the factors are here, the files are not
    assert (model.item_ids_ == data.items) is (table == "interactions")
    model.save(tmp_path / "model.safetensors")
    same_factors(rr.load_model(tmp_path / "model.safetensors"), undisturbed)


def test_a_table_is_cut_into_the_run_directory(ray_cluster, data, undisturbed, tmp_path):
    model = on_ray(tmp_path).set_params(parts=PARTS).fit(data, show_progress=False)
    same_factors(model, undisturbed)
    assert rr.open_partitions(tmp_path / "data").parts == PARTS
    again = on_ray(tmp_path).set_params(parts=PARTS)
    same_factors(again.fit(data, show_progress=False, resume=True), undisturbed)
    with pytest.raises(ValueError, match="belongs to another run"):
        again.fit(data.matrix[:, ::-1], show_progress=False, resume=True)


def test_the_command_line(ray_cluster, data, tmp_path):
    frame = pl.DataFrame({"user": data.user_codes() % 40, "item": data.indices % 30})
    frame.write_csv(tmp_path / "plays.csv")
    columns = ["--user", "user", "--item", "item"]
    options = ["--factors", "4", "--iterations", "2", "--seed", "5", "--quiet"]
    common = [*columns, *options]

    def train(source, model, *more):
        command = ["latent", "train", source, "-m", model, *more]
        result = CliRunner().invoke(app, [*map(str, command)])
        assert result.exit_code == 0, result.output
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return rr.load_model(model)

    here = train(tmp_path / "plays.csv", tmp_path / "a", "--solver", "sgd", *common)
    there = train(tmp_path / "plays.csv", tmp_path / "b", "--ray", tmp_path / "run", *common)
    same_factors(here, there)
    assert list(there.user_ids_) == list(here.user_ids_)
    cut = tmp_path / "run" / "data"
    same_factors(train(cut, tmp_path / "c", "--ray", tmp_path / "again", *options), here)
    pl.DataFrame({"user": range(40), "item": range(20, -20, -1)}).write_csv(tmp_path / "held.csv")
    watch = ["--validation", tmp_path / "held.csv", "--metric", "ndcg@5", *common]
    best = train(cut, tmp_path / "d", "--ray", tmp_path / "watched", *watch).best_iter_
    assert best in (1, 2)


def test_warp_has_the_same_bits(ray_cluster, partitions, tmp_path):
    settings = {"factors": 6, "iterations": 3, "random_state": 3}
    here = rr.WARP(**settings).fit(partitions, show_progress=False)
    engine = rr.RayConfig(tmp_path, workers=2)
    there = rr.WARP(engine=engine, **settings).fit(partitions, show_progress=False)
    same_factors(here, there)


def test_turns_of_the_xi_step_and_many_batches_have_the_same_bits(
    ray_cluster, tmp_path, monkeypatch
):
    """So many items that the ξ-step takes turns, and one part, which gets all of V in one piece."""
    monkeypatch.setattr("robirank.engine.strata.BATCH_USERS", 10)
    data = rr.make_interactions(600, 800, 3000, random_state=2)
    for parts, workers in ((1, 1), (3, 2)):
        cut = rr.partition(data, tmp_path / f"data{parts}", parts=parts, random_state=0)
        settings = SETTINGS | {"negatives": 1}
        here = rr.LatentRoBiRank(**settings).fit(cut, show_progress=False)
        engine = rr.RayConfig(tmp_path / f"run{parts}", workers=workers)
        there = rr.LatentRoBiRank(engine=engine, **settings).fit(cut, show_progress=False)
        same_factors(here, there)
        lines = [json.loads(line) for line in (engine.run_dir / "workers.jsonl").open()]
        steps = [line for line in lines if line["what"] == "scan" and line["task"] == "xi_task"]
        assert {1, 2} <= {line["number"] for line in steps}  # batches
        assert len([line for line in lines if line.get("task") == "scale_task"]) > 1  # turns


def test_partitions_and_checkpoints_in_a_store(ray_cluster, s3, data, undisturbed):
    rr.partition(data, f"{s3}/data", parts=PARTS, random_state=3)
    model = on_ray(f"{s3}/run").fit(f"{s3}/data", show_progress=False)
    same_factors(model, undisturbed)
    again = on_ray(f"{s3}/run").fit(f"{s3}/data", show_progress=False, resume=True)
    same_factors(again, undisturbed)


def test_the_finished_model_is_read_as_one_and_served_by_shards(
    ray_cluster, data, partitions, undisturbed, tmp_path
):
    model = on_ray(tmp_path).fit(partitions, show_progress=False)
    model.save(tmp_path / "one.safetensors")
    with pytest.warns(UserWarning, match="engine"):
        same_factors(rr.load_model(tmp_path / "one.safetensors"), undisturbed)
    whole = rr.load_model(tmp_path / "model")
    same_factors(whole, undisturbed)
    assert whole.user_ids_ == data.users
    assert whole.item_ids_ == data.items
    assert whole.user_scale_ == undisturbed.user_scale_
    assert_array_equal(whole.item_counts_, np.bincount(data.indices, minlength=data.n_items))
    assert_array_equal(model.item_counts_, whole.item_counts_)
    same_factors(rr.LatentRoBiRank.load(tmp_path / "model"), undisturbed)
    with pytest.raises(rr.ModelFileError, match="not a WARP"):
        rr.WARP.load(tmp_path / "model")

    sharded = rr.ShardedModel(tmp_path / "model")
    users = np.array([7, 299, 0, 5])
    for options in ({}, {"filter_items": [3, 80]}, {"items": [1, 50, 51, 88, 2]}, {"N": 90}):
        ours = sharded.recommend(users, data.matrix[users], **options)
        theirs = whole.recommend(users, data.matrix[users], **options)
        assert_array_equal(ours[0], theirs[0])
        assert_array_equal(ours[1], theirs[1])
    one = rr.ShardedModel(tmp_path / "model")
    one.recommend(7, data.matrix[7])
    assert len(one.factors_.users._opened) == 1


def test_the_run_directory_tells_what_happened(ray_cluster, partitions, tmp_path):
    on_ray(tmp_path).fit(partitions, show_progress=False)
    lines = [json.loads(line) for line in (tmp_path / "workers.jsonl").open()]
    steps = [line for line in lines if line["what"] == "sweep" and line["task"] == "sgd_task"]
    assert len(steps) == SETTINGS["iterations"] * PARTS * 2  # workers
    assert {"epoch", "number", "pid", "busy_seconds", "per_second", "memory"} <= steps[0].keys()
    size = 4 * (SETTINGS["factors"] + 1) * partitions.shape[1]
    by_step = {(line["epoch"], line["number"]): 0 for line in steps}
    for line in steps:
        by_step[line["epoch"], line["number"]] += line["bytes_in"]
    assert set(by_step.values()) == {size}  # every sub-step takes in V once
    assert len(list((tmp_path / "checkpoints").glob("checkpoint-*.json"))) == 2


def test_paths_may_be_relative(ray_cluster, partitions, undisturbed, tmp_path, monkeypatch):
    """Workers are in another folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(partitions.folder.url, "data")
    same_factors(on_ray("run").fit("data", show_progress=False), undisturbed)
    assert (tmp_path / "run" / "model" / "manifest.json").is_file()


def test_a_run_directory_that_workers_do_not_see(ray_cluster, partitions, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "robirank.storage.folder.Folder.write_bytes",
        lambda *_: FileEntry("run.json", 1, 0),
    )
    with pytest.raises(ClusterError, match="does not see run_dir"):
        on_ray(tmp_path).fit(partitions, show_progress=False)


def test_a_run_that_was_interrupted_can_go_on(
    ray_cluster, partitions, undisturbed, tmp_path, monkeypatch
):
    asked = []
    with monkeypatch.context() as patch:
        patch.setattr(
            "robirank._interrupt.Interrupt.is_set",
            lambda _: asked.append(1) or len(asked) > 9,
        )
        with pytest.warns(UserWarning, match="interrupted in epoch"):
            early = on_ray(tmp_path).fit(partitions, show_progress=False)
    assert early.n_iter_ < SETTINGS["iterations"]
    assert np.isfinite(early.user_factors).all()
    model = on_ray(tmp_path).fit(partitions, show_progress=False, resume=True)
    same_factors(model, undisturbed)


def test_a_callback_can_end_the_training(ray_cluster, partitions, tmp_path):
    told = []
    model = on_ray(tmp_path).fit(
        partitions, show_progress=False, callback=lambda *a: told.append(a) or True
    )
    assert len(told) == model.n_iter_ == 1
    assert model.stopped_ == "by callback"


def watched(model, metric):
    return [(e["epoch"], e.get(metric)) for e in model.history_]


@pytest.mark.parametrize("metric", ["ndcg@20", "recall@5", "map@100"])
def test_validation_by_the_workers_is_that_of_one_process(
    ray_cluster, data, validation, tmp_path, metric, monkeypatch
):
    """Users without an interaction are among those of the validation part."""
    monkeypatch.setattr("robirank.engine.strata.BATCH_USERS", 17)
    options = {"validation": validation, "metric": metric, "show_progress": False}
    settings = SETTINGS | {"iterations": 6, "parts": PARTS}
    data = data.take(data.user_codes() % 5 > 0)
    here = rr.LatentRoBiRank(**settings).fit(data, **options)
    config = rr.RayConfig(tmp_path, workers=2, checkpoint_seconds=1e-6)
    there = rr.LatentRoBiRank(engine=config, **settings).fit(data, **options)
    assert watched(here, metric) == watched(there, metric)
    assert len(set(watched(here, metric))) > 1
    assert here.best_iter_ == there.best_iter_
    same_factors(here, there)
    found = rr.evaluate(there, train=data, test=validation, k=int(metric.split("@")[1]))
    assert found[metric] == max(value for _, value in watched(there, metric))
    assert found.without_history["recall@" + metric.split("@")[1]] > 0
    assert rr.load_model(tmp_path / "model").best_iter_ == here.best_iter_


def test_patience_and_callbacks_on_a_cluster(ray_cluster, data, validation, tmp_path):
    settings = SETTINGS | {"iterations": 30, "parts": PARTS, "learning_rate": 1.0}
    options = {"validation": validation, "patience": 2, "show_progress": False}
    here = rr.LatentRoBiRank(**settings).fit(data, **options)
    reports = []
    model = rr.LatentRoBiRank(engine=rr.RayConfig(tmp_path), **settings)
    there = model.fit(data, **options, callbacks=[reports.append])
    assert there.stopped_ == here.stopped_ == "no better"
    assert there.n_iter_ == here.n_iter_ == len(reports) < 30
    assert [r.validation for r in reports] == [v for _, v in watched(here, "ndcg@20")]
    assert reports[0].user_factors is None
    same_factors(here, there)
    again = rr.LatentRoBiRank(engine=rr.RayConfig(tmp_path), **settings)
    same_factors(again.fit(data, **options, resume=True), here)


def test_an_interrupted_run_with_validation_and_callbacks_goes_on(
    ray_cluster, data, validation, tmp_path, monkeypatch
):
    settings = SETTINGS | {"iterations": 8, "parts": PARTS}
    reports = []
    options = {"validation": validation, "show_progress": False, "callbacks": [reports.append]}
    here = rr.LatentRoBiRank(**settings).fit(data, **options)

    def there(**more):
        config = rr.RayConfig(tmp_path, checkpoint_seconds=1e-6)
        return rr.LatentRoBiRank(engine=config, **settings).fit(data, **options, **more)

    asked = []
    with monkeypatch.context() as patch:
        patch.setattr(
            "robirank._interrupt.Interrupt.is_set",
            lambda _: asked.append(1) or len(asked) > 30,
        )
        with pytest.warns(UserWarning, match="interrupted in epoch"):
            early = there()
    assert 0 < early.n_iter_ < 8
    del reports[:]
    model = there(resume=True)
    same_factors(model, here)
    assert watched(model, "ndcg@20") == watched(here, "ndcg@20")
    assert early.n_iter_ <= reports[0].epoch <= early.n_iter_ + 1  # as of the last checkpoint
    assert [r.epoch for r in reports] == list(range(reports[0].epoch, 9))


def test_validation_parts_that_were_cut_in_another_way(
    ray_cluster, data, partitions, validation, tmp_path
):
    options = {"validation": validation, "show_progress": False}
    other = rr.partition(validation, tmp_path / "other", parts=2, random_state=9)
    one = on_ray(tmp_path / "one").fit(partitions, **options)
    two = on_ray(tmp_path / "two").fit(partitions, **options | {"validation": other})
    assert watched(one, "ndcg@20") == watched(two, "ndcg@20")
    assert any(value for _, value in watched(one, "ndcg@20"))


def test_the_model_of_an_older_run_stays_until_there_is_a_better_one(
    ray_cluster, data, partitions, tmp_path
):
    on_ray(tmp_path).fit(partitions, show_progress=False)
    before = rr.load_model(tmp_path / "model")
    seen = []

    def look(report):
        seen.append(rr.load_model(tmp_path / "model").n_iter_)
        return report.epoch == 2

    changed = on_ray(tmp_path).set_params(random_state=4)
    changed.fit(partitions, show_progress=False, callbacks=[look])
    assert seen == [before.n_iter_] * 2
    after = rr.load_model(tmp_path / "model")
    assert after.n_iter_ == 2
    assert (after.item_factors != before.item_factors).any()
    names = [path.name for path in (tmp_path / "model").iterdir()]
    assert sum(name.startswith("users-") for name in names) == PARTS


def test_validation_that_does_not_fit(data, validation, partitions, tmp_path):
    nameless = rr.Interactions.from_matrix(validation.matrix)
    for wrong, message in (
        (validation.matrix[:, :50], "validation must have the shape"),
        (nameless, "validation must have the users of user_items, in their order"),
    ):
        with pytest.raises(ValueError, match=message):
            on_ray(tmp_path / "run").fit(partitions, show_progress=False, validation=wrong)


def test_nothing_answers_at_the_address(ray_cluster, monkeypatch):
    monkeypatch.setattr(ray_cluster, "is_initialized", lambda: False)
    with pytest.raises(ClusterError, match=r"no Ray cluster answers at '127\.0\.0\.1:9'"):
        connect("127.0.0.1:9", 2)


def test_another_version_on_the_workers(ray_cluster, partitions, tmp_path, monkeypatch):
    monkeypatch.setattr(rr, "__version__", "99.0")
    with pytest.raises(ClusterError, match=r"has robirank .* this process has 99\.0"):
        on_ray(tmp_path).fit(partitions, show_progress=False)


def test_ray_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'robirank\[ray\]'"):
        connect(None, 2)


def test_a_part_is_missing(ray_cluster, partitions, tmp_path):
    shutil.copytree(partitions.folder.url, tmp_path / "data")
    (tmp_path / "data" / "part-00002.parquet").unlink()
    with pytest.raises(PartitionsError, match=r"part-00002.parquet is missing"):
        on_ray(tmp_path / "run").fit(tmp_path / "data", show_progress=False)
    assert not (tmp_path / "run").exists()


def test_a_part_is_damaged(ray_cluster, partitions, tmp_path):
    shutil.copytree(partitions.folder.url, tmp_path / "data")
    path = tmp_path / "data" / "part-00001.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(PartitionsError, match=r"part-00001.parquet is damaged: its checksum"):
        on_ray(tmp_path / "run").fit(tmp_path / "data", show_progress=False)


def test_a_run_directory_that_cannot_be(ray_cluster, partitions, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ClusterError, match="cannot be written to"):
        on_ray(tmp_path / "file" / "run").fit(partitions, show_progress=False)


def test_a_run_directory_of_somebody_else_is_left_alone(data, tmp_path):
    """Before any table is cut or Ray is started."""
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "resnet_epoch90.pt").write_text("of a stranger")
    with pytest.raises(ClusterError, match=r"has checkpoints/resnet_epoch90\.pt"):
        on_ray(tmp_path).fit(data, show_progress=False)
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoints"]
    assert (tmp_path / "checkpoints" / "resnet_epoch90.pt").read_text() == "of a stranger"


def test_a_new_run_in_an_own_folder_removes_own_checkpoints_alone(
    ray_cluster, partitions, undisturbed, tmp_path
):
    on_ray(tmp_path).set_params(negatives=5).fit(partitions, show_progress=False)
    (tmp_path / "checkpoints" / "notes.txt").write_text("of the user")
    (tmp_path / "model" / "users-00000-notes.txt").write_text("of the user")
    same_factors(on_ray(tmp_path).fit(partitions, show_progress=False), undisturbed)
    assert (tmp_path / "checkpoints" / "notes.txt").read_text() == "of the user"
    assert (tmp_path / "model" / "users-00000-notes.txt").read_text() == "of the user"


def test_a_checkpoint_of_another_run(ray_cluster, partitions, tmp_path):
    on_ray(tmp_path).fit(partitions, show_progress=False)
    other = on_ray(tmp_path).set_params(negatives=5)
    with pytest.raises(ValueError, match="belongs to another run"):
        other.fit(partitions, show_progress=False, resume=True)


@pytest.mark.parametrize(
    ("data_of", "options", "message"),
    [
        ("dense", {}, "a cluster trains on Partitions, .* got ndarray"),
        ("partitions", {"checkpoint": "x"}, "checkpoint must be left out on a cluster"),
        ("partitions", {"checkpoint_minutes": 5}, "checkpoint_minutes must be left out on a clu"),
        ("partitions", {"validation": 1}, "validation must be a sparse users × items matrix"),
    ],
)
def test_what_a_cluster_cannot_do(data, partitions, tmp_path, data_of, options, message):
    table = data.matrix.toarray() if data_of == "dense" else partitions
    with pytest.raises((TypeError, ValueError), match=message):
        on_ray(tmp_path).fit(table, show_progress=False, **options)


def test_bad_settings_are_named(tmp_path):
    with pytest.raises(ValueError, match="workers must be a positive integer; got 0"):
        rr.RayConfig(tmp_path, workers=0)
    with pytest.raises(ValueError, match="checkpoint_seconds must be a positive number"):
        rr.RayConfig(tmp_path, checkpoint_seconds=0)
    with pytest.raises(ValueError, match='resume must be left out with engine="ray"'):
        rr.LatentRoBiRank(engine="ray").fit(clusters.make_data(), resume=True)
    model = rr.LatentRoBiRank(solver="exact", engine=rr.RayConfig(tmp_path))
    with pytest.raises(ValueError, match=r"solver must be one of .'sgd'. on a cluster"):
        model.fit(clusters.make_data())
    with pytest.raises(
        ValueError, match='engine must be "local", "ray" or a RayConfig; got \'spark\''
    ):
        rr.LatentRoBiRank(engine="spark").fit(clusters.make_data())
