"""Figures for Prometheus: what several workers count is told as one."""

from robirank.serve.figures import Figures


def lines(figures):
    return [line for line in figures.text({}).splitlines() if not line.startswith("#")]


def make():
    return Figures(["/a", "/b"], ["quick"])


def test_ranges_are_told_as_sums():
    figures = make()
    for seconds in (0.001, 0.002, 0.3, 99.0):
        figures.request("/b", 200, seconds)
    told = lines(figures)
    assert [line for line in told if "/a" in line] == []
    counts = [line.rsplit(" ", 1)[1] for line in told if "seconds_bucket" in line]
    assert counts == ["1", "2", "2", "2", "2", "2", "2", "2", "3", "3", "3", "3", "4"]
    assert 'robirank_request_seconds_sum{route="/b"} 99.303' in told
    assert 'robirank_request_seconds_count{route="/b"} 4' in told
    assert 'robirank_requests_total{route="/b",status="200"} 4' in told


def test_every_worker_tells_what_all_have_counted(tmp_path):
    workers = [make(), make()]
    workers[0].count("reloads", 2)  # before it shares
    for row, figures in enumerate(workers):
        figures.share(tmp_path / "figures", row, 2)
        figures.request("/a", 404, 0.1)
        figures.batch("quick", 3 + row)
    for figures in workers:
        told = lines(figures)
        assert "robirank_reloads_total 2" in told
        assert 'robirank_requests_total{route="/a",status="404"} 2' in told
        assert 'robirank_batch_size_sum{lane="quick"} 7' in told
        assert 'robirank_batch_size_bucket{lane="quick",le="4"} 2' in told


def test_a_worker_that_takes_the_place_of_another_goes_on(tmp_path):
    for turn in (1, 2):
        figures = make()
        figures.share(tmp_path / "figures", 1, 2)
        figures.count("unknown_ids")
        assert f"robirank_unknown_ids_total {turn}" in lines(figures)
