"""Who listens to events, and what becomes of one who fails."""

from structlog.testing import capture_logs

from gnomon.observe.events import Event, FiresMissed, RunsPlanned, TaskBatch, fan_out


def test_a_listener_that_raises_is_logged_and_keeps_nobody_from_being_told() -> None:
    told: list[Event] = []

    def broken(event: Event) -> None:
        raise KeyError("a bug of its own")

    tell = fan_out(told.append, broken, told.append)
    with capture_logs() as lines:
        tell(RunsPlanned(1))
    assert told == [RunsPlanned(1)] * 2
    (line,) = lines
    assert (line["event"], line["told"]) == ("a listener failed on an event", "RunsPlanned")
    assert "broken" in line["listener"]


def test_one_that_fails_at_every_event_does_not_fill_the_log() -> None:
    def broken(event: Event) -> None:
        raise KeyError("a bug of its own")

    def now_and_then(event: Event) -> None:
        if isinstance(event, FiresMissed):
            raise KeyError("another one")

    tell = fan_out(broken, now_and_then)
    with capture_logs() as lines:
        for _ in range(1000):
            tell(RunsPlanned(1))
        tell(FiresMissed(1))
    assert [line["failures"] for line in lines] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1]


def test_the_tasks_of_an_event_are_made_only_for_those_who_look() -> None:
    made: list[int] = []

    def tasks() -> "list[int]":
        made.append(1)
        return [1, 2, 3]

    batch = TaskBatch(lambda: iter(tasks()))
    assert made == []
    assert [*batch] == [*batch] == [1, 2, 3], "as often as they are looked at"
    assert len(made) == 2
