"""The start checks of a node: what each is made of, and the services that keep them going."""

from functools import cached_property

from gnomon.chores import Service, Troubles
from gnomon.model.fleet.pool import EVERYTHING, Pool
from gnomon.model.targets.target import Target
from gnomon.node.ahead.agenda import Agenda
from gnomon.node.ahead.flow_book import FlowBook
from gnomon.node.dispatch.breaker_check import BreakerCheck
from gnomon.node.dispatch.permit_keeper import PermitKeeper
from gnomon.node.dispatch.permits import Permits
from gnomon.node.dispatch.places import PlaceCheck
from gnomon.node.dispatch.pool_check import PoolCheck
from gnomon.node.held_tasks import HeldTasks
from gnomon.node.membership.lease import Lease
from gnomon.node.run.targets import Place
from gnomon.node.start_checks import StartCheck, StartChecks
from gnomon.pipe.port import Pipe
from gnomon.store.postgres.dispatch.breakers import PostgresBreakers
from gnomon.store.postgres.limits.permits import PostgresLimits
from gnomon.wiring.node_inputs import NodeInputs

CheckInputs = tuple[NodeInputs, Lease, Agenda, HeldTasks, Pool, Troubles]


class CheckAssembly:
    """Breakers and permits always; places and the pool where they can refuse anything."""

    def __init__(
        self,
        inputs: NodeInputs,
        lease: Lease,
        agenda: Agenda,
        held: HeldTasks,
        pool: Pool,
        troubles: Troubles,
    ) -> None:
        self._inputs = inputs
        self._lease = lease
        self._agenda = agenda
        self._held = held
        self._pool = pool
        self._troubles = troubles
        self.listening: list[StartCheck] = []  # to what ends, and refuse nothing

    @cached_property
    def checks(self) -> StartChecks:
        """In the order in which they are asked."""
        each: list[StartCheck] = [self._breakers, self._permits, *self.listening]
        inputs = self._inputs
        assert inputs.callers is not None, "a gateway has checks of its own"
        room = inputs.callers.least_room
        if room < inputs.settings.node.slots:
            each.append(PlaceCheck(self._place_of, self._agenda, int(room)))
        if self._pool != EVERYTHING:
            each.append(PoolCheck(self._pool, self.flows))
        return StartChecks(each)

    @property
    def flows(self) -> FlowBook:
        return self._permits.flows

    def services(self, pipe: Pipe) -> list[Service]:
        keeper = PermitKeeper(
            PostgresLimits(self._inputs.database),
            self._permits,
            pipe,
            self._inputs.clock,
            self._lease.incarnation,
            self._troubles,
        )
        return [*keeper.services(), *self._breakers.services()]

    @cached_property
    def _permits(self) -> Permits:
        return Permits(self._inputs.directory, self._agenda, self._held, self._inputs.clock)

    @cached_property
    def _breakers(self) -> BreakerCheck:
        inputs = self._inputs
        store = PostgresBreakers(inputs.database, self._lease.incarnation, inputs.name)
        return BreakerCheck(
            self._agenda, inputs.clock, store, inputs.emit, self._troubles, inputs.rules
        )

    def _place_of(self, target: Target) -> Place | None:
        """The place that a task must have before it is claimed. Where there are no more slots than
        places, nobody waits for one."""
        assert self._inputs.callers is not None
        place = self._inputs.callers.of(target).place(target)
        return None if place is None or place.room >= self._inputs.settings.node.slots else place
