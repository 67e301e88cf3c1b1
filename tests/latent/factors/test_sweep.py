"""Sweeps over a knob of recommended lists."""

import numpy as np
import pytest

import robirank as rr


@pytest.fixture(scope="module")
def fitted():
    data = rr.make_interactions(120, 60, 2000, random_state=0)
    train, test = rr.split_ratio(data, 0.2, random_state=0)
    model = rr.LatentRoBiRank(factors=6, random_state=0, iterations=5)
    return model.fit(train, show_progress=False), {"train": train, "test": test}


def test_each_value_is_an_evaluation(fitted):
    model, tables = fitted
    result = rr.sweep(model, **tables, values=[0, 0.3], k=5, popularity=0.5)
    assert (result.knob, result.values, result.k) == ("variety", (0.0, 0.3), 5)
    for value, found in zip(result.values, result.evaluations, strict=True):
        expected = rr.evaluate(model, **tables, k=5, variety=value, popularity=0.5)
        assert dict(found) == dict(expected)
        assert found.shown == expected.shown
    frame = result.frame
    assert frame["variety"].to_list() == [0, 0.3]
    assert frame["ndcg@5"].to_list() == [found["ndcg@5"] for found in result.evaluations]
    assert frame["distance@5"].is_sorted()
    lines = str(result).splitlines()
    assert lines[0].split() == ["variety", "0", "0.3"]
    assert lines[1].split() == ["precision@5", *(f"{x:.4f}" for x in frame["precision@5"])]
    assert lines[-1].split() == ["tail@5", *(f"{x:.4f}" for x in frame["tail@5"])]


def test_damping_shows_more_of_the_tail(fitted):
    model, tables = fitted
    frame = rr.sweep(model, **tables, knob="popularity").frame
    assert frame["popularity"].to_list() == [0, 0.25, 0.5, 0.75, 1]
    for name in ("novelty@20", "tail@20"):
        assert frame[name].is_sorted()


def test_plot(fitted, tmp_path):
    pytest.importorskip("matplotlib")
    model, tables = fitted
    result = rr.sweep(model, **tables, values=[0, 0.4], k=5)
    figure = result.plot("recall")
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert len(panels) == 6
    line = panels[1].lines[0]
    np.testing.assert_allclose(line.get_xdata(), result.frame["item_coverage@5"])
    np.testing.assert_allclose(line.get_ydata(), result.frame["recall@5"])
    figure.savefig(tmp_path / "sweep.png")
    with pytest.raises(rr.ArgumentError, match="metric"):
        result.plot("gini")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"knob": "novelty"}, "knob must be one of .*variety.*got 'novelty'"),
        ({"values": [0, 1.5]}, "values must be a fraction from 0 to 1; got 1.5"),
        ({"values": []}, "values must have at least one value"),
        ({"variety": 0.1}, "variety is what is swept over"),
        ({"k": 0}, "k must be a positive integer"),
    ],
)
def test_bad_input(fitted, options, message):
    model, tables = fitted
    with pytest.raises(rr.ArgumentError, match=message):
        rr.sweep(model, **tables, **options)
