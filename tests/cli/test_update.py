"""``robirank latent update``: a day's feedback becomes part of the model and of the table."""

import json

import pytest
from typer.testing import CliRunner

import robirank as rr
from robirank.cli.app import app
from robirank.cli.update import with_feedback
from robirank.serve.feedback_log import FeedbackLog, line_now


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = rr.make_interactions(60, 40, 500, random_state=0)
    data.save("plays.parquet")
    model = rr.LatentRoBiRank(4, iterations=4, random_state=0, regularization=0.3)
    model.fit(data, show_progress=False).save("model.safetensors")
    log = FeedbackLog(tmp_path / "taken")
    has = int(data.items[data.matrix[3].indices[0]])
    log.append([line_now(3, [has, 99]), line_now("3", [99]), line_now(77, [5]), line_now("x", [5])])
    log.close()
    return data


def update(*more):
    command = ["latent", "update", "model.safetensors", "plays.parquet", "-o", "new.safetensors"]
    return CliRunner().invoke(app, [*command, *more, "--json"])


def test_feedback_is_learned(files):
    done = update("--feedback", "taken", "--save-data", "plays.parquet")
    assert done.exit_code == 0, done.output
    assert "1 pairs passed over" in done.stderr
    facts = json.loads(done.stdout)
    assert (facts["new_users"], facts["new_items"], facts["from_feedback"]) == (1, 1, 2)
    table = rr.load_interactions("plays.parquet")
    assert len(table) == len(files) + 2
    assert table.matrix[table.users.index(3), table.items.index(99)] == 1
    model = rr.load_model("new.safetensors")
    assert set(model.by_id.recommend(77, table, N=3)[0]) <= set(table.items)
    again = update("--feedback", "taken")
    assert json.loads(again.stdout)["from_feedback"] == 0


def test_without_feedback_the_table_alone_is_learned(files):
    facts = json.loads(update().stdout)
    assert (facts["new_users"], facts["interactions"]) == (0, len(files))


def test_a_folder_without_a_log_is_named(files):
    done = update("--feedback", "nowhere")
    assert (done.exit_code, "nowhere must be a folder" in done.stderr) == (2, True)


def test_ids_of_the_log_that_a_table_of_integers_cannot_have_are_passed_over(tmp_path):
    """Anyone who may send feedback writes to the log; no line of it may stop the update."""
    log = FeedbackLog(tmp_path)
    for id in ("9" * 25, str(2**63), "-0", "\u0663", "x", "8" * 5000, "4"):
        log.append([line_now(id, [5]), line_now("3", [id])])
    log.close()
    table = with_feedback(rr.Interactions.from_arrays([1, 2], [5, 6]), tmp_path)
    assert (table.users.kind, sorted(table.users), sorted(table.items)) == (
        "int",
        [1, 2, 3, 4],
        [4, 5, 6],
    )
    table.save(tmp_path / "plays.parquet")
