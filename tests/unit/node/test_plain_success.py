"""Most executions succeed and say nothing more: what is made of them is what is made of all."""

from uuid import UUID

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gnomon.model.outcomes.outcome import SUCCESS
from gnomon.model.tasks.task import DeliveryMode
from gnomon.node.settle.verdicts import settlement_of
from gnomon.pipe.envelope import Report, seconds_of
from gnomon.testing.contracts.pipe import a_delivery

moments = st.none() | st.floats(0, 1e9)


@given(st.booleans(), moments, moments, st.integers(1, 9), st.sampled_from(DeliveryMode))
def test_a_plain_success_is_settled_as_any_other(
    expired: bool, began: float | None, ended: float | None, fence: int, mode: DeliveryMode
) -> None:
    delivery = msgspec.structs.replace(
        a_delivery(1), expired=expired, fence=fence, incarnation=UUID(int=7), task_type="a.b",
        mode=mode, address=(3, 4),
    )  # fmt: skip
    plain = Report(delivery, SUCCESS, began, ended)
    alike = msgspec.structs.replace(plain, outcome=msgspec.structs.replace(SUCCESS))
    assert alike.outcome is not SUCCESS
    settled = [settlement_of(each, "worker", lambda: 0.5) for each in (plain, alike)]
    assert settled[0] == settled[1]


@given(st.lists(st.tuples(st.booleans(), moments, moments), max_size=5))
def test_the_seconds_of_a_batch_are_those_of_each(
    batch: list[tuple[bool, float | None, float | None]],
) -> None:
    reports = [
        Report(a_delivery(n), SUCCESS if called else None, began, ended)
        for n, (called, began, ended) in enumerate(batch)
    ]
    assert seconds_of(reports) == [each.seconds for each in reports]
    for seconds, (called, began, ended) in zip(seconds_of(reports), batch, strict=True):
        if not called or began is None or ended is None:
            assert seconds is None
        else:
            assert seconds == max(0.0, ended - began)
