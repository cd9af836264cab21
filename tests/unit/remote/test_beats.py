"""The beats of a worker: asked for again at once where a gateway does not renew its lease."""

from uuid import UUID

import httpx
import pytest

from gnomon.client.http import ApiServer
from gnomon.model.errors import LeaseLost, StoreUnavailable
from gnomon.node.membership.lease import Lease
from gnomon.pipe.http.messages import SessionOpened
from gnomon.remote.gateway_calls import ELSEWHERE, BeatConnection

SESSION = SessionOpened(
    session_id=UUID(int=2), secret="s", tenant_id="acme", lease_seconds=9, beat_seconds=3,
    poll_seconds=20.0, epoch="e",
)  # fmt: skip
RENEWED = httpx.Response(200, json={"lease_seconds": 9.0})
REFUSED = httpx.Response(503, json={})


class Gateways(httpx.AsyncBaseTransport):
    """Answers in turn; notes which requests are to go elsewhere."""

    def __init__(self, *answers: httpx.Response | httpx.TransportError) -> None:
        self._answers = list(answers)
        self.elsewhere: list[bool] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.elsewhere.append(request.extensions[ELSEWHERE])
        answer = self._answers.pop(0)
        if isinstance(answer, httpx.TransportError):
            raise answer
        return httpx.Response(answer.status_code, content=answer.content)


async def renewed(gateways: Gateways) -> float:
    server = ApiServer("http://pipe", None, 20.0, async_transport=gateways)
    beats = BeatConnection(server, SESSION)
    try:
        return await beats.renew(SESSION.session_id, 9.0)
    finally:
        await beats.close()


@pytest.mark.parametrize("failure", [REFUSED, httpx.ReadTimeout(""), httpx.ConnectError("")])
async def test_another_gateway_is_asked_at_once(
    failure: httpx.Response | httpx.TransportError,
) -> None:
    gateways = Gateways(failure, RENEWED)
    assert await renewed(gateways) == 9.0
    assert gateways.elsewhere == [False, True]


async def test_where_no_gateway_renews_it_no_more_are_asked() -> None:
    gateways = Gateways(REFUSED, REFUSED, RENEWED)
    with pytest.raises(StoreUnavailable):
        await renewed(gateways)
    assert gateways.elsewhere == [False, True]


async def test_a_session_that_has_ended_is_not_asked_for_elsewhere() -> None:
    gateways = Gateways(httpx.Response(410, json={}), RENEWED)
    with pytest.raises(LeaseLost):
        await renewed(gateways)
    assert gateways.elsewhere == [False]


def test_a_shorter_lease_is_believed_and_a_longer_one_is_not() -> None:
    """Gateways with another lease than the one that opened the session."""
    lease = Lease(SESSION.session_id, 10.0, 3.0)
    lease.renewed(100.0, 10.0)
    assert (lease.trusted_until, lease.interval) == (108.0, 3.0)
    lease.renewed(103.0, 5.0)
    assert (lease.trusted_until, lease.interval) == (107.0, 1.5)
    lease.renewed(104.0, 60.0)
    assert (lease.trusted_until, lease.interval) == (112.0, 3.0)
