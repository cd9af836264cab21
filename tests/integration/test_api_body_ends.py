"""What is left of a body that was refused: nothing, without Python having to look for cycles."""

import asyncio
import gc

from tests.conftest import serving
from tests.integration.api_calls import TASKS
from tests.system.crowd import Crowd, head, read
from tests.waiting import eventually

from gnomon.api.http.bounds.bodies import Body


async def test_nothing_is_left_of_bodies_that_were_refused(database_dsn: str) -> None:
    size = 100_000
    async with serving(database_dsn, api_body_seconds=0.5, api_max_payload_bytes=1000) as api:
        crowd = Crowd(str(api._base_url))
        gc.collect()
        gc.disable()
        try:
            late = await crowd.open(3, head("POST", TASKS, size // 2) + b" " * 10)
            too_large = await crowd.open(3, head("POST", TASKS, size) + b" " * size)
            half = await crowd.open(3, head("POST", TASKS, size) + b" " * 10)
            streams = [*late, *too_large, *half]
            answers = await asyncio.gather(*(read(stream[0]) for stream in streams))
            assert [answer.status for answer in answers] == [408] * 3 + [413] * 6

            async def none_left() -> bool:
                return not any(isinstance(each, Body) for each in gc.get_objects())

            await eventually(none_left)
        finally:
            gc.enable()
            crowd.close()
