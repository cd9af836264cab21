"""Has settlements claim what they make due, where this node may have it at once.

The next step of a workflow becomes due in the statement that settles the step before. Claimed by
the same statement, it starts without a second one. It is so only where nothing is to be decided:
nothing else waits for a slot, one is free, and nothing is known that would refuse it. All else
goes on the agenda, and so does what is left.
"""

from collections.abc import Sequence

from gnomon.clock import Clock
from gnomon.node.ahead.scanner import Scanner
from gnomon.node.dispatch.claimer import Claimer
from gnomon.node.membership.lease import Lease
from gnomon.pipe.envelope import Delivery
from gnomon.pipe.port import Pipe
from gnomon.store.ports.dispatch import DispatchStore, Settled, Settlement, TakenChildren, Taker

_MOST = 16  # tasks that one settlement claims: a fan-out is for the agenda, and for all nodes
_FEW = 64  # settlements in a batch: where there are more, a claim for all of them costs little


class ChildClaimer:
    """Sends settlements that may claim, and what they have claimed to the slots."""

    def __init__(
        self,
        store: DispatchStore,
        claimer: Claimer,
        scanner: Scanner,
        pipe: Pipe,
        lease: Lease,
        clock: Clock,
    ) -> None:
        self._store = store
        self._claimer = claimer
        self._claims = claimer.claims
        self._scanner = scanner
        self._pipe = pipe
        self._lease = lease
        self._clock = clock
        self._took = 0.0  # seconds of the last settlement that may have claimed

    def taker(self, ended: Sequence[Delivery]) -> Taker | None:
        """This node, where it may claim what becomes due with the ends of these; None where it may
        not, or nothing will."""
        if len(ended) > _FEW:
            return None
        tenants = {d.key.tenant_id for d in ended if d.workflow_node is not None}
        held, own = self._claims.held, self._scanner.territory
        under_way = held.claiming.locked() or held.taking.locked()
        if not tenants or under_way or not self._claimer.may_claim():
            return None
        most = min(_MOST, self._pipe.free())
        # Where the pools of others go first, only a part of a shard is ours.
        if most <= 0 or own.others or not self._claims.would_admit(tenants):
            return None
        return Taker(self._lease.incarnation, most, own.shards, own.pool)

    async def settle(self, taker: Taker, settlements: Sequence[Settlement]) -> list[Settled]:
        """Settle, and claim. Whoever calls sends what was claimed before anything else is done on
        the event loop: until then nobody knows that it is held."""
        async with self._claims.held.taking:
            asked_at = self._clock.monotonic()
            settled = await self._store.settle(settlements, taker)
            self._took = self._clock.monotonic() - asked_at
        return settled

    def send(self, taken: TakenChildren) -> None:
        """To be called once what has ended holds nothing here any more."""
        self._claimer.send_taken(taken, self._took)

    async def starting(self) -> None:
        """Let what was sent start, before all else that follows from the settlement."""
        await self._clock.sleep(0)
