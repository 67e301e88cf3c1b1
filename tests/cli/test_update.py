"""``robirank latent update``: a day's feedback becomes part of the model and of the table."""

import json

import pytest
from typer.testing import CliRunner

import robirank as rr
from robirank.cli.app import app
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
