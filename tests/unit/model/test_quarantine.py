"""Killers among suspects: how many processes they take with them, and who is blamed."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.model.outcomes.outcome import Loss
from gnomon.model.outcomes.quarantine import (
    ALONE_FROM,
    LARGEST_GROUP,
    LAST,
    LOSSES_ALONE,
    STEP,
    after,
    group_size,
    is_suspect,
)
from gnomon.model.tasks.task import DeliveryMode
from gnomon.node.run.quarantine.placement import place

LEAST, MOST = DeliveryMode.AT_LEAST_ONCE, DeliveryMode.AT_MOST_ONCE
EXACTLY = DeliveryMode.EXACTLY_ONCE
HALVINGS = 6
PROCESSES = 4


@dataclass(eq=False)
class Suspect:
    tenant_id: str
    kills: bool
    mode: DeliveryMode = LEAST
    losses: int = 1
    tries: int = 0
    died_alone: int = 0

    @property
    def group_size(self) -> int:
        return group_size(self.losses, self.mode)

    @property
    def is_dead(self) -> bool:
        return self.losses >= LAST


@dataclass(eq=False)
class Process:
    members: list[Suspect] = field(default_factory=list)
    started: int = 0
    takes_more: bool = True

    @property
    def fresh(self) -> bool:
        return self.started == 0

    def give(self, suspect: Suspect) -> None:
        self.members.append(suspect)
        self.started += 1
        self.takes_more = suspect.group_size > 1
        suspect.tries += 1


class World:
    """Processes that run suspects, each until a killer in it has its turn."""

    def __init__(self, suspects: Iterable[Suspect], seed: int) -> None:
        self.waiting = list(suspects)
        self.processes: list[Process] = []
        self.completed: list[Suspect] = []
        self.dead: list[Suspect] = []
        self.deaths = 0
        self.most_processes = 0
        self._random = Random(seed)

    def run(self) -> None:
        while self.waiting or any(process.members for process in self.processes):
            self._fill()
            self._turn(self._random.choice([p for p in self.processes if p.members]))

    def _fill(self) -> None:
        chosen = self._random.sample(self.waiting, min(20, len(self.waiting)))
        for suspect in chosen:
            process = place(self.processes, suspect, PROCESSES)
            if process is None:
                if sum(bool(p.members) for p in self.processes) >= 2 * PROCESSES:
                    continue
                process = Process()
                self.processes.append(process)
            process.give(suspect)
            self.waiting.remove(suspect)
        self.most_processes = max(self.most_processes, len(self.processes))

    def _turn(self, process: Process) -> None:
        suspect = self._random.choice(process.members)
        if not suspect.kills:
            process.members.remove(suspect)
            self.completed.append(suspect)
        else:
            self._died(process)
        self.processes = [p for p in self.processes if p.members]

    def _died(self, process: Process) -> None:
        self.deaths += 1
        alone = process.started == 1
        for suspect in process.members:
            loss = Loss.ALONE if alone else Loss.IN_GROUP
            suspect.losses = after(suspect.losses, loss, suspect.mode)
            suspect.died_alone += alone
            (self.dead if suspect.is_dead else self.waiting).append(suspect)
        process.members = []


modes = st.sampled_from([LEAST, LEAST, LEAST, EXACTLY])
suspects = st.lists(
    st.builds(
        Suspect,
        tenant_id=st.sampled_from("abcdefgh"),
        kills=st.booleans() | st.just(value=False),
        mode=modes,
        losses=st.integers(1, STEP - 1),
    ),
    max_size=100,
)


@given(suspects, st.integers())
def test_killers_alone_are_buried_and_everybody_else_is_completed(
    them: list[Suspect], seed: int
) -> None:
    world = World(them, seed)
    world.run()
    killers = [suspect for suspect in them if suspect.kills]
    assert {id(s) for s in world.dead} == {id(s) for s in killers}
    assert len(world.completed) == len(them) - len(killers)
    assert {s.died_alone for s in killers} <= {LOSSES_ALONE}
    assert world.deaths <= len(killers) * (HALVINGS + LOSSES_ALONE)
    assert all(s.died_alone == 0 and s.tries <= HALVINGS + 1 for s in world.completed)
    assert world.most_processes <= 2 * PROCESSES


@pytest.mark.parametrize("others", [0, 1, 63, 300])
def test_what_a_killer_costs_does_not_depend_on_how_many_are_suspected_with_it(
    others: int,
) -> None:
    world = World([Suspect("a", True), *(Suspect("b", False) for _ in range(others))], 1)
    world.run()
    assert world.deaths <= HALVINGS + LOSSES_ALONE


def test_tenants_do_not_share_processes_while_there_are_enough() -> None:
    them = [Suspect("a", True), *(Suspect("bcd"[n % 3], False) for n in range(100))]
    world = World(them, 1)
    world.run()
    assert {s.tries for s in them if not s.kills} == {1}


def test_the_groups_are_halved_until_one_is_alone() -> None:
    losses, sizes = 1, []
    while group_size(losses) > 1:
        sizes.append(group_size(losses))
        losses = after(losses, Loss.IN_GROUP, LEAST)
    assert sizes == [64, 32, 16, 8, 4, 2]
    assert losses == ALONE_FROM
    for _ in range(LOSSES_ALONE):
        assert losses < LAST
        assert group_size(losses) == 1
        losses = after(losses, Loss.ALONE, LEAST)
    assert losses >= LAST


def test_one_that_dies_alone_is_known_at_once() -> None:
    losses = 1
    for _ in range(LOSSES_ALONE):
        assert losses < LAST
        losses = after(losses, Loss.ALONE, LEAST)
    assert losses >= LAST


@given(st.integers(0, 200), st.sampled_from(Loss), st.sampled_from(DeliveryMode))
def test_losses_only_grow_and_groups_only_shrink(
    losses: int, loss: Loss, mode: DeliveryMode
) -> None:
    more = after(losses, loss, mode)
    assert more >= losses
    assert more > losses or losses >= ALONE_FROM
    assert group_size(more, mode) <= group_size(losses, mode) <= LARGEST_GROUP
    assert is_suspect(more)
    assert more >= LAST or loss is not Loss.ALONE or group_size(more) == 1


def test_dying_nodes_hardly_make_the_groups_smaller() -> None:
    """Or everything that runs on nodes which are killed again and again would run alone."""
    losses = 0
    for _ in range(STEP - 1):
        losses = after(losses, Loss.NODE, LEAST)
    assert group_size(losses) == LARGEST_GROUP
    assert LAST > 40


def test_what_must_not_be_called_twice_shares_a_process_with_nobody() -> None:
    losses = after(0, Loss.NODE, MOST)
    assert group_size(losses) == group_size(losses, LEAST) == 1, "its row alone must say so"
    assert group_size(1, MOST) == 1


def test_what_may_be_called_again_shares_a_process_whatever_its_effect_is_worth() -> None:
    """Or a thousand suspects would stand in line, a few at a time."""
    assert after(0, Loss.NODE, EXACTLY) == after(0, Loss.NODE, LEAST)
    assert group_size(after(0, Loss.NODE, EXACTLY), EXACTLY) == LARGEST_GROUP
