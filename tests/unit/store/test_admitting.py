"""What a tenant is told of its quotas, from what the store let in."""

from hypothesis import given
from hypothesis import strategies as st

from gnomon.model.fleet.tenant import Quotas
from gnomon.store.postgres.tasks.admitting import Admitted

COUNTS = st.integers(0, 50)


@given(COUNTS, COUNTS, st.integers(-50, 50), st.integers(1, 60), st.booleans())
def test_a_refusal_names_the_quota_that_binds(
    rate: int, spent: int, room: int, wanted: int, whole: bool
) -> None:
    quota, pace = 100, max(0, rate - spent)
    fitting = max(0, min(wanted, pace, room))
    passed = fitting if fitting == wanted or not whole else 0
    quotas = Quotas(scheduled_tasks=quota, submissions_per_second=rate)
    admitted = Admitted(quotas, wanted, passed, room, pace)
    left = admitted.pace_after(wanted)
    assert left == (rate, pace - passed)
    for place in range(1, passed + 1):
        assert admitted.pace_after(place) == (rate, pace - place)
    if passed == wanted:
        return
    refusal = admitted.refusal(whole=whole)
    number = wanted if whole else 1
    assert refusal.pace == left
    if pace - passed < number:
        assert refusal.over == ("submissions_per_second", rate, rate - pace + passed)
        assert refusal.wait == (1 if number <= rate else None)
    else:
        assert refusal.over == ("scheduled_tasks", quota, quota - room + passed)
        assert quota - refusal.over.used < number
        assert refusal.wait is None


def test_without_a_quota_of_seconds_nothing_is_said_of_them() -> None:
    admitted = Admitted(Quotas(scheduled_tasks=3), 2, 1, 1, None)
    assert admitted.pace_after(1) is None
    assert admitted.refusal(whole=False).over == ("scheduled_tasks", 3, 3)
