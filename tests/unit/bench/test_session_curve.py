"""What many sessions would cost, by what few cost."""

import pytest
from bench.session_curve import Cost, measures, steady


def test_many_are_extrapolated_by_the_line_through_few() -> None:
    costs = [Cost(n, 2.0 + n / 100, 80.0 + n / 20, 0) for n in (250, 500, 1000, 2000)]
    found = {each.name: each for each in measures("redis", "redis://", costs, 2000, 30)}
    assert found["sessions_redis"].value == 2000
    assert found["sessions_redis_failed"].met
    assert found["sessions_redis_500_memory"].value == 105
    assert found["sessions_redis_many_processor"].value == pytest.approx(102)
    assert found["sessions_redis_many_memory"].value == pytest.approx(580)


def test_the_processor_is_looked_at_once_all_are_open() -> None:
    opening = [(at / 2, 3.0 * at / 2) for at in range(20)]
    idle = [(10 + at / 2, 28.5 + 0.1 * at / 2) for at in range(30)]
    assert steady([*opening, *idle]) == pytest.approx(10)
