"""Open pages outlive a restart of PostgreSQL: their streams stay, and tell what is new."""

import signal

import pytest
from tests.conftest import serving
from tests.integration.api_calls import LATER, Api, submitted
from tests.integration.test_live import watching
from tests.system.harness import start_server, stop_server
from tests.waiting import eventually

from gnomon.store.embedded import EmbeddedServer

pytestmark = pytest.mark.system


async def shows(api: Api, text: str, status: int = 200) -> bool:
    async with api.get("/tasks?fragment=1") as answer:
        return answer.status == status and text in await answer.text()


@pytest.mark.timeout(180)
async def test_streams_outlive_a_restart_of_postgresql(own_server: EmbeddedServer) -> None:
    async with serving(own_server.dsn) as api, watching(api, "tasks") as stream:
        await stream.says("tasks")
        await submitted(api, LATER | {"name": "before it"})
        await stream.says("tasks")
        stop_server(own_server, signal.SIGINT)

        async def is_told() -> bool:
            return await shows(api, "", 503)

        await eventually(is_told)
        start_server(own_server)

        async def is_shown_again() -> bool:
            return await shows(api, "before it")

        await eventually(is_shown_again)
        await submitted(api, LATER | {"name": "after it"})
        await stream.says("tasks")  # by the connection that was open all the time
        assert await shows(api, "after it")
