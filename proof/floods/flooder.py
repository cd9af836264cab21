"""A hostile address, in a process of its own: `python -m proof.floods.flooder …`.

It says when it has begun, ends with its input or after a time, and prints as JSON what became of
its attempts.
"""

import argparse
import asyncio
import contextlib
import sys
from collections import Counter

import msgspec
from tests.integration.identity import bearer
from tests.system.crowd import SUBMISSION, Crowd, files, read, request

from gnomon.access.api_key import RANDOM_BYTES, key_from
from gnomon.clock import new_secret

REOPEN_SECONDS = 0.05  # a connection that was closed is opened again after that
TASKS = "/api/v1/tasks"


async def wrong_keys(crowd: Crowd, found: Counter[str]) -> None:
    """One connection: a made-up key, as soon as the last one is refused."""
    ((reader, writer),) = await crowd.open(1)
    while True:
        made_up = bearer(key_from(new_secret(RANDOM_BYTES)))
        writer.write(request("POST", TASKS, SUBMISSION, **made_up))
        found[str((await read(reader)).status)] += 1


async def silent(crowd: Crowd, found: Counter[str]) -> None:
    """One connection that sends nothing."""
    ((reader, _),) = await crowd.open(1)
    found["opened"] += 1
    await reader.read()
    found["closed"] += 1


async def asking(crowd: Crowd, found: Counter[str]) -> None:
    """One connection that asks, without a key, as fast as it is answered."""
    ((reader, writer),) = await crowd.open(1)
    found["opened"] += 1
    try:
        while True:
            writer.write(request("GET", TASKS))
            found[str((await read(reader)).status)] += 1
    finally:
        found["closed"] += 1


KINDS = {"wrong-keys": wrong_keys, "silent": silent, "asking": asking}


async def flood(kind: str, url: str, source: str, number: int, seconds: float) -> Counter[str]:
    crowd = Crowd(url, source)
    found: Counter[str] = Counter()
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

    async def again() -> None:
        while True:
            with contextlib.suppress(OSError, EOFError):
                await KINDS[kind](crowd, found)
            await asyncio.sleep(REOPEN_SECONDS)

    flooding = [asyncio.create_task(again()) for _ in range(number)]
    while len(crowd.streams) < number // 2 and not ended.done():
        await asyncio.sleep(0.01)
    print("begun", flush=True)
    await asyncio.wait([ended], timeout=seconds)
    for task in flooding:
        task.cancel()
    await asyncio.wait(flooding)
    crowd.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("url")
    parser.add_argument("source")
    parser.add_argument("number", type=int)
    parser.add_argument("seconds", type=float)
    asked = parser.parse_args()
    with files(asked.number):
        found = asyncio.run(flood(**vars(asked)))
    print(msgspec.json.encode(found).decode(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
