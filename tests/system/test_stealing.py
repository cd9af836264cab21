"""A node that is killed: its due work is stolen long before its lease ends, and its shards are
served again soon after."""

import time

import pytest
from tests.system.conftest import NewProcess
from tests.system.harness import LEASE, Process, Receiver, Submitter, Truth, eventually, judge

from gnomon.model.fleet.shard import SHARDS, owned_shards, shard_of

pytestmark = pytest.mark.system

LONG_LEASE = 10.0


async def serving(nodes: list[Process]) -> None:
    """Wait until each of them knows these nodes and no others, and every shard is served."""

    async def agreed() -> bool:
        looks = [look for node in nodes for look in node.said("serving shards")[-1:]]
        known = [look["shards"] for look in looks if look["nodes"] == len(nodes)]
        return len(known) == len(nodes) and sum(known) == SHARDS

    await eventually(agreed)


async def test_what_is_due_on_a_node_that_was_just_killed_starts_before_its_lease_ends(
    new_node: NewProcess, submitter: Submitter, receiver: Receiver, truth: Truth
) -> None:
    left = new_node("left", node_lease_seconds=LONG_LEASE)
    await left.started()
    killed = new_node("killed", node_lease_seconds=LONG_LEASE)
    await killed.started()

    async def shared() -> bool:
        return [look["nodes"] for look in left.said("serving shards")] == [1, 2]

    await eventually(shared)
    ids = {name: life for life, name in (await truth.living()).items()}
    killed.kill()
    killed_at = time.monotonic()
    tasks = await submitter.submit(receiver.url, 500)
    orphaned = owned_shards(ids["killed"], ids.values())
    assert any(shard_of(task) in orphaned for task in tasks)
    await eventually(lambda: truth.completed(tasks), timeout=LONG_LEASE)
    seconds = time.monotonic() - killed_at
    assert len(await truth.living()) == 2  # nobody knows of the death yet
    late = max(call.at - call.scheduled_for for call in receiver.calls)
    print(f"all ran {seconds:.1f} s after the kill, the last of them {late:.1f} s late")
    assert await judge(truth, tasks, receiver) == (set(), set(), set(), set(), set())


async def test_every_shard_is_served_again_soon_after_the_lease_of_a_killed_node(
    new_node: NewProcess,
) -> None:
    nodes = [new_node(f"node-{n}") for n in range(3)]
    for node in nodes:
        await node.started()
    await serving(nodes)
    nodes[0].kill()
    killed_at = time.monotonic()
    await serving(nodes[1:])
    seconds = time.monotonic() - killed_at
    print(f"all shards were served again {seconds:.2f} s after the kill, the lease being {LEASE} s")
    assert seconds < LEASE + 4  # two, but for what else the machine has to do
