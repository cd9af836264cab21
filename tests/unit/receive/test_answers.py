"""What a receiver raises becomes the answer that means the same to a node."""

from uuid import UUID

import pytest

from gnomon.receive import ANSWERED, BadPayload, NotGenuine, Received, Repeated, Stale, answer_to
from gnomon.receive.answers import success
from gnomon.receive.endpoint import endpoint_of
from gnomon.sdk.signals import Reject, Retry, Snooze

TASK = UUID(int=1)


@pytest.mark.parametrize(
    ("raised", "status", "headers"),
    [
        (Snooze(30), 425, {"retry-after": "30", "gnomon-snooze": "30"}),
        (Snooze(0.5), 425, {"retry-after": "0.5", "gnomon-snooze": "0.5"}),
        (Retry("busy", after=2), 503, {"retry-after": "2"}),
        (Retry(), 503, {}),
        (Reject("no such card"), 422, {}),
        (BadPayload("cents"), 422, {}),
        (NotGenuine("who?"), 401, {}),
        (Repeated(TASK), 200, {}),
        (Stale(TASK, 1, 2), 409, {}),
    ],
)
def test_each_has_a_status(raised: Exception, status: int, headers: dict[str, str]) -> None:
    assert isinstance(raised, ANSWERED)
    answer = answer_to(raised)
    assert (answer.status, answer.headers) == (status, headers)
    assert str(raised).encode() in answer.body


def test_a_returned_value_is_the_body() -> None:
    assert (success({"paid": True}).status, success({"paid": True}).body) == (200, b'{"paid":true}')
    assert success().body == b"null"


def test_the_parameter_is_found_by_its_annotation() -> None:
    def receive(shop: str, received: "Received[dict[str, int]]") -> None: ...

    found = endpoint_of(receive)
    assert (found.parameter, found.payload) == ("received", dict[str, int])
    assert [each.name for each in found.others] == ["shop"]


def test_a_function_that_takes_no_call_is_refused() -> None:
    def receive(payload: object) -> None: ...

    with pytest.raises(TypeError, match=r"receive must take one .* Received"):
        endpoint_of(receive)
