"""POST /v1/feedback: hidden at once, folded in, kept in a log that several processes write."""

import multiprocessing
import threading

import pytest

from robirank.errors import TableError
from robirank.serve.feedback import Feedback
from robirank.serve.feedback_log import (
    FeedbackLog,
    files_of,
    line_now,
    read_feedback,
    remove_old_files,
)
from serve.shop import fitted, ids, plays, shop


def best(client, n=4, **question):
    return ids(client.post("/v1/recommend", question | {"n": n}).json())


def take(client, user, *items):
    response = client.post("/v1/feedback", {"user": user, "items": items})
    assert response.status == 200
    return response.json()


def test_what_a_user_takes_is_hidden_and_folded_in():
    with shop() as client:
        first = best(client, user="u07")[0]
        assert take(client, "u07", first) == {"items": 1, "known_user": True}
        has = plays().items[plays().matrix[7].indices].tolist()
        expected = fitted().recommend_for([*has, first], N=4)[0].tolist()
        assert best(client, user="u07") == expected
        assert first in best(client, user="u07", seen="show", n=60)


def test_a_new_user_is_known_by_feedback_alone():
    with shop() as client:
        assert client.post("/v1/recommend", {"user": "zoe"}).status == 404
        assert take(client, "zoe", "p03", "unheard of") == {
            "items": 2,
            "unknown_items": ["unheard of"],
        }
        assert best(client, user="zoe") == fitted().recommend_for(["p03"], N=4)[0].tolist()


def test_without_a_table_of_interactions_feedback_hides():
    with shop(train=None) as client:
        before = best(client, user="u07", n=5)
        take(client, "u07", before[0])
        assert best(client, user="u07") == before[1:]


def test_the_log_outlives_the_server(tmp_path):
    for _ in range(2):
        with shop(feedback=tmp_path, fsync="always") as client:
            if not [*tmp_path.glob("*.jsonl")]:
                take(client, "u07", "p03", "new")
            assert "p03" not in best(client, user="u07", n=60)
    (line,) = read_feedback(tmp_path)
    assert (line.user, line.items, line.time.tzinfo is not None) == ("u07", ["p03", "new"], True)


def test_what_the_table_has_by_now_is_forgotten():
    feedback = Feedback()
    feedback.add([line_now("ann", ["tea", "rum"]), line_now("bob", ["tea"])])
    assert feedback.forget(lambda user: {"tea"}) == 2
    assert (feedback.items_of("ann"), feedback.has("bob"), len(feedback)) == (("rum",), False, 1)


def test_the_oldest_users_go_first():
    feedback = Feedback(most=3)
    for user in "abc":
        feedback.add([line_now(user, [1, 2])])
    assert [feedback.has(user) for user in "abc"] == [False, False, True]
    assert len(feedback) == 2


def test_files_rotate_and_are_read_in_order(tmp_path):
    log = FeedbackLog(tmp_path, "never", most_bytes=200)
    reader = FeedbackLog(tmp_path, "never")
    for number in range(20):
        log.append([line_now(f"u{number}", [number])])
        assert [line.user for line in reader.read_new()] == [f"u{number}"]
    log.close()
    assert len(files_of(tmp_path)) > 3
    assert [line.items for line in read_feedback(tmp_path)] == [[n] for n in range(20)]


def test_a_line_that_was_cut_off_is_passed_over(tmp_path):
    (tmp_path / "feedback-00000001.jsonl").write_text('{"time": "2026-01-0')
    log = FeedbackLog(tmp_path)
    log.append([line_now("ann", ["tea"])])
    assert [line.user for line in log.read_new()] == ["ann"]
    log.close()
    with pytest.warns(UserWarning, match="1 of 2 lines are broken"):
        assert [line.user for line in read_feedback(tmp_path)] == ["ann"]


def test_a_folder_without_a_log_is_an_error(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(TableError, match=r"feedback-00000001\.jsonl"):
            [*read_feedback(folder)]


def _write(folder, name, n):
    log = FeedbackLog(folder, "never", most_bytes=2000)
    for number in range(n):
        log.append([line_now(name, [number])])


def test_several_processes_write_one_log(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(tmp_path, name, 200)) for name in "ab"]
    for writer in writers:
        writer.start()
    feedback = Feedback(tmp_path)
    for writer in writers:
        writer.join()
    feedback.refresh()
    assert [len(feedback.items_of(name)) for name in "ab"] == [200, 200]
    by_user = {name: [] for name in "ab"}
    for line in read_feedback(tmp_path):
        by_user[line.user] += line.items
    assert by_user == {name: [*range(200)] for name in "ab"}


def test_files_that_were_learned_from_may_be_removed(tmp_path):
    """A process that had an older file open goes on with the last one, and loses nothing."""
    first, second = (FeedbackLog(tmp_path, "never", most_bytes=200) for _ in range(2))
    first.append([line_now("ann", [0])])
    assert len([*first.read_new()]) == 1
    for number in range(20):
        second.append([line_now("bob", [number])])
    for _, path in files_of(tmp_path)[:-1]:
        path.unlink()
    kept = len([*read_feedback(tmp_path)])
    first.append([line_now("ann", [1])])
    assert [line.items for line in read_feedback(tmp_path)][kept:] == [[1]]
    assert [line.items for line in first.read_new()][-1] == [1]
    for _, path in files_of(tmp_path):
        path.unlink()
    first.append([line_now("ann", [2])])
    assert [line.items for line in first.read_new()] == [[2]]
    assert [line.items for line in read_feedback(tmp_path)] == [[2]]


def test_a_log_may_be_closed_twice(tmp_path):
    log = FeedbackLog(tmp_path)
    log.append([line_now("ann", ["tea"])])
    assert len([*log.read_new()]) == 1
    log.close()
    log.close()


def test_others_are_answered_while_what_is_known_is_forgotten():
    feedback = Feedback()
    feedback.add([line_now(user, ["tea"]) for user in ("ann", "bob")])

    def known(user):
        thread = threading.Thread(target=feedback.items_of, args=(user,))
        thread.start()
        thread.join(5)
        assert not thread.is_alive()
        return {"tea"}

    assert feedback.forget(known) == 2


def test_old_files_of_a_log_in_memory_are_removed(tmp_path):
    log, reader = (FeedbackLog(tmp_path, "never", most_bytes=200) for _ in range(2))
    for number in range(20):
        log.append([line_now("ann", [number])])
        remove_old_files(tmp_path)
        assert [line.items for line in reader.read_new()] == [[number]]
    numbers = [number for number, _ in files_of(tmp_path)]
    assert numbers == [max(numbers) - 2, max(numbers) - 1, max(numbers)]
    assert max(numbers) > 3
