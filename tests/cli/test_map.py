"""``robirank latent map``, and the server that shows the map."""

import json

import pytest
from typer.testing import CliRunner

from robirank import RoBiRank
from robirank.cli.app import app as command
from robirank.errors import ArgumentError
from robirank.latent.factors.item_map import ItemMap
from robirank.serve import Client, app
from serve.shop import N_ITEMS, fitted, shop


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, its map, and a model of the next day."""
    folder = tmp_path_factory.mktemp("map")
    fitted().save(folder / "model")
    fitted(seed=1).save(folder / "newer")
    arguments = ["latent", "map", folder / "model", "-o", folder / "map", "--json"]
    result = CliRunner().invoke(command, [str(one) for one in arguments])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["items"] == N_ITEMS
    return folder


def shown(**options):
    with Client(app(log_requests=False, reload_seconds=0, **options)) as client:
        return client.get("/v1/map").json()


def test_the_server_shows_the_map(folder):
    answer = shown(model=folder / "model", map=folder / "map")
    assert (answer["kind"], len(answer["x"])) == ("neighbours", N_ITEMS)
    assert shown(model=folder / "model")["kind"] == "directions"


def test_a_map_of_an_older_model_is_not_shown(folder):
    assert shown(model=folder / "newer", map=folder / "map")["kind"] == "directions"


def test_the_same_command_writes_the_same_bytes(folder):
    arguments = ["latent", "map", folder / "model", "-o", folder / "again", "-q"]
    assert CliRunner().invoke(command, [str(one) for one in arguments]).exit_code == 0
    assert (folder / "again").read_bytes() == (folder / "map").read_bytes()


def test_directions_can_be_asked_for(folder):
    arguments = ["latent", "map", folder / "model", "-o", folder / "two", "--kind", "directions"]
    assert CliRunner().invoke(command, [str(one) for one in arguments]).exit_code == 0
    assert 0 < ItemMap.load(folder / "two").share < 1


def test_what_is_no_map_or_no_model_of_items_is_refused(folder):
    with pytest.raises(ValueError, match="a map is made by robirank latent map"):
        shop(map=folder / "model")
    ranker = RoBiRank().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ArgumentError, match="compare is for models of users and items"):
        app(ranker, compare=folder / "model")
    with pytest.raises(ArgumentError, match="compare must be a model of users and items"):
        shop(compare=ranker)
