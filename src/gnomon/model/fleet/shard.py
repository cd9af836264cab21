"""Which node serves which task: a pure function of the task's id and the live roster.

Ownership only decides who looks for work first. Nodes that see different rosters for a moment
miss a few claims and nothing worse, so there is no shard table and nothing to agree on.
"""

import hashlib
from collections.abc import Collection, Iterator
from functools import lru_cache
from uuid import UUID

SHARDS = 256

_SCORE_BYTES = 8


def shard_of(task_id: UUID) -> int:
    """The last byte of the id, which is random in a UUIDv7.

    The database makes the same number of it: `gnomon.shard_of`.
    """
    return task_id.bytes[15]


def owner(shard: int, roster: Collection[UUID]) -> UUID | None:
    """The node of `roster` that serves `shard`: the one that bids highest for it.

    A node's bids depend on nobody else (rendezvous hashing), so a node that joins takes shards
    only for itself, and one that leaves gives away only its own.
    """
    return max(roster, key=lambda node: _bids(node)[shard], default=None)


def owned_shards(me: UUID, roster: Collection[UUID]) -> frozenset[int]:
    """The shards that `me` serves: none while it is not in `roster`."""
    if me not in roster:
        return frozenset()
    highest = map(max, zip(*map(_bids, {*roster}), strict=True))
    return frozenset(
        shard
        for shard, (mine, best) in enumerate(zip(_bids(me), highest, strict=True))
        if mine == best
    )


def outbidders(me: UUID, shard: int, roster: Collection[UUID]) -> list[UUID]:
    """The nodes of `roster` that go before `me` in a shard."""
    mine = _bids(me)[shard]
    return [node for node in roster if _bids(node)[shard] > mine]


def rankings(roster: Collection[UUID]) -> Iterator[list[UUID]]:
    """For each shard in turn, the nodes of `roster`, highest bid first."""
    bids = {node: _bids(node) for node in roster}
    for shard in range(SHARDS):
        yield sorted(bids, key=lambda node: bids[node][shard], reverse=True)


@lru_cache(maxsize=256)
def _bids(node: UUID) -> tuple[bytes, ...]:
    """The bids of `node` for each shard. They end with its id, so no two nodes can tie."""
    # One long digest is cut into 256 bids, because 256 short ones cost several times as much.
    digest = hashlib.shake_128(node.bytes).digest(SHARDS * _SCORE_BYTES)
    return tuple(
        digest[start : start + _SCORE_BYTES] + node.bytes
        for start in range(0, len(digest), _SCORE_BYTES)
    )
