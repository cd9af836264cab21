"""How far a repair reads back: to what has ended since, and in turns to the very beginning."""

from datetime import UTC, datetime, timedelta

from gnomon.node.ahead.reach import EVERYWHERE_SECONDS, SLACK, Reach
from gnomon.store.ports.dispatch import BEGINNING, Cursor
from gnomon.store.ports.work.tasks import LOWEST_ID
from gnomon.store.ports.work.writer import Writer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
CURSORS = [Cursor(shard, NOW + 15 * SECOND, LOWEST_ID) for shard in range(256)]


def writer(seconds_ago: float, session: int = 1) -> Writer:
    return Writer(NOW - seconds_ago * SECOND, session)


def test_the_first_repair_reads_everything() -> None:
    assert Reach().since(frozenset()) == BEGINNING - SLACK


def test_what_is_open_is_not_read_for_and_what_has_ended_is() -> None:
    reach = Reach()
    old, new = writer(600, 1), writer(60, 2)
    reach.done(frozenset({old, new}), NOW)
    assert reach.since(frozenset({old, new})) == NOW - SLACK
    assert reach.since(frozenset({old})) == new.began - SLACK
    assert reach.since(frozenset({new})) == old.began - SLACK
    assert reach.since(frozenset()) == old.began - SLACK


def test_one_that_ended_is_read_for_until_that_has_been_done() -> None:
    reach = Reach()
    old = writer(600)
    reach.done(frozenset({old}), NOW)
    for _ in range(2):  # the first failed
        assert reach.since(frozenset()) == old.began - SLACK
    reach.done(frozenset(), NOW + SECOND)
    assert reach.since(frozenset()) == NOW + SECOND - SLACK


def test_the_next_transaction_of_a_session_is_another_one() -> None:
    reach = Reach()
    reach.done(frozenset({writer(600)}), NOW)
    assert reach.since(frozenset({writer(1)})) == writer(600).began - SLACK


def test_a_stretch_is_read_in_parts_before_the_next_one_begins() -> None:
    reach = Reach()
    reach.done(frozenset(), NOW)
    assert reach.stretch((1, 2, 3), frozenset(), NOW) == dict.fromkeys((1, 2, 3), NOW - SLACK)
    reach.read({2: NOW, 3: NOW - SECOND})
    later = NOW + SECOND
    assert reach.stretch((1, 2, 3), frozenset(), later) == {2: NOW, 3: NOW - SECOND}
    reach.read({3: NOW})
    reach.retain((1, 2))  # and so nothing is left of it
    assert reach.stretch((1, 2), frozenset(), later) == dict.fromkeys((1, 2), NOW - SLACK)
    reach.read({})
    assert reach.stretch((1, 2), frozenset(), later) == dict.fromkeys((1, 2), later - SLACK)


def test_what_ends_while_a_stretch_is_read_in_parts_is_read_for_by_the_next() -> None:
    reach = Reach()
    old, short = writer(600, 1), writer(60, 2)
    reach.done(frozenset({old}), NOW)
    reach.stretch((1,), frozenset({old, short}), NOW + SECOND)
    reach.read({1: NOW})
    reach.stretch((1,), frozenset(), NOW + 2 * SECOND)  # both have ended
    assert reach.lasts(NOW + 2 * SECOND) == SECOND
    reach.read({})
    assert reach.stretch((1,), frozenset(), NOW + 3 * SECOND) == {1: old.began - SLACK}


def test_who_begins_and_ends_while_a_stretch_is_read_is_read_for_by_the_next() -> None:
    reach = Reach()
    reach.done(frozenset(), NOW)
    reach.stretch((1,), frozenset(), NOW)
    reach.read({1: NOW})
    reach.stretch((1,), frozenset({writer(60)}), NOW + SECOND)
    reach.read({})
    since = reach.stretch((1,), frozenset(), NOW + 2 * SECOND)
    assert since == {1: writer(60).began - SLACK}


def test_who_was_seen_during_a_stretch_is_read_for_also_where_that_is_not_read_to_its_end() -> None:
    reach = Reach()
    reach.done(frozenset(), NOW)
    reach.stretch((1,), frozenset(), NOW)
    reach.read({1: NOW})
    reach.stretch((1,), frozenset({writer(60)}), NOW + SECOND)
    reach.read({1: NOW})
    assert reach.since(frozenset()) == writer(60).began - SLACK  # by a look everywhere
    reach.retain(())  # the shard is another node's
    assert reach.since(frozenset()) == writer(60).began - SLACK


def test_a_part_that_could_not_be_read_is_read_again() -> None:
    reach = Reach()
    reach.done(frozenset(), NOW)
    since = reach.stretch((1, 2), frozenset(), NOW)
    assert reach.stretch((1, 2), frozenset(), NOW + SECOND) == since


def test_everything_is_read_from_the_first_that_waited() -> None:
    reach = Reach()
    assert set(reach.everything(CURSORS, NOW)) == {BEGINNING}
    first = {7: NOW - 100 * SECOND}
    reach.done_everywhere(CURSORS, first, NOW, took=1.0)  # so long that half of it must do
    since = reach.everything(CURSORS, NOW)
    assert since.count(BEGINNING) == 128
    reach.done_everywhere(CURSORS, first, NOW, took=1.0)
    since = reach.everything(CURSORS, NOW)
    assert since.count(BEGINNING) == 64
    assert since[7] == NOW - 100 * SECOND or since[7] == BEGINNING
    assert {s for s in since if s != BEGINNING} <= {NOW - 100 * SECOND, NOW - SLACK}


def test_every_shard_has_its_turn_from_the_very_beginning_within_two_minutes() -> None:
    """However long the looks take, and wherever the turn is."""
    reach = Reach()
    for _ in range(10):
        reach.done_everywhere(CURSORS, {}, NOW, took=1.0)
    for took in (1.0, 0.05, 0.001, 1.0, 1.0):
        read = set()
        for _ in range(int(120 / EVERYWHERE_SECONDS)):
            since = reach.everything(CURSORS, NOW)
            read |= {shard for shard, at in enumerate(since) if at == BEGINNING}
            reach.done_everywhere(CURSORS, {}, NOW, took)
        assert len(read) == 256


def test_many_are_read_from_the_beginning_again_when_that_is_fast() -> None:
    reach = Reach()
    for took, count in ((1.0, 128), (1.0, 64), (0.05, 64), (0.001, 128), (0.001, 256)):
        reach.done_everywhere(CURSORS, {}, NOW, took)
        assert reach.everything(CURSORS, NOW).count(BEGINNING) == count


def test_a_cursor_that_is_far_behind_has_told_nothing_of_what_comes_after_it() -> None:
    reach = Reach()
    behind = [Cursor(shard, NOW - 500 * SECOND, LOWEST_ID) for shard in range(256)]
    for _ in range(6):
        reach.done_everywhere(behind, {}, NOW, took=1.0)
    assert NOW - 500 * SECOND in reach.everything(CURSORS, NOW)


def test_shards_that_are_new_are_read_from_their_beginning() -> None:
    reach = Reach()
    for _ in range(6):
        reach.done_everywhere(CURSORS, {}, NOW, took=1.0)
    reach.retain(range(128))
    assert set(reach.everything(CURSORS, NOW)[128:]) == {BEGINNING}


def test_it_is_time_to_look_everywhere_now_and_then_and_when_asked_to() -> None:
    reach = Reach()
    assert reach.is_everywhere(0.0)
    reach.looking_everywhere(0.0)
    assert not reach.is_everywhere(EVERYWHERE_SECONDS - 1)
    assert reach.is_everywhere(EVERYWHERE_SECONDS)
    reach.look_everywhere()
    assert reach.is_everywhere(1.0)
