"""Suspects: which tasks are, with how many others each runs, what a loss says of it. Pure.

A function can kill the process that runs it, so a task that was lost is a suspect: it runs in a
child process of its node, with other suspects. When such a process dies, all that ran in it run
again in groups of half the size, until the killer is alone. Only what dies alone is to blame.

`losses` on the row says it all: one for each node that has died with the task, and a step for each
process in quarantine. Nodes die for many reasons, so their deaths hardly make the groups smaller.
"""

from typing import assert_never

from gnomon.model.outcomes.outcome import Loss
from gnomon.model.targets.grpc_target import GrpcTarget
from gnomon.model.targets.queue_target import QueueTarget
from gnomon.model.targets.target import (
    HttpTarget,
    NotificationTarget,
    PythonTarget,
    Target,
    WorkflowTarget,
)
from gnomon.model.tasks.task import DeliveryMode

LARGEST_GROUP = 64
# Seconds from each death alone to the next execution; after one more it is a dead letter. The
# kernel takes these processes first where memory runs out, which may pass.
PAUSES = (5.0, 30.0)
LOSSES_ALONE = len(PAUSES) + 1
STEP = 5  # so many nodes say as much as one process in quarantine
ALONE_FROM = (LARGEST_GROUP.bit_length() - 1) * STEP
LAST = ALONE_FROM + LOSSES_ALONE * STEP


def can_kill(target: Target) -> bool:
    """Whether to call it can end the process that does. A webhook cannot: if its node died, it is
    simply called again."""
    match target:
        case HttpTarget() | GrpcTarget() | QueueTarget() | NotificationTarget() | WorkflowTarget():
            return False
        case PythonTarget():
            return True
        case _:
            assert_never(target)


def is_suspect(losses: int) -> bool:
    """Whether the task must run in quarantine, if it can kill at all."""
    return losses > 0


def group_size(losses: int, mode: DeliveryMode = DeliveryMode.AT_LEAST_ONCE) -> int:
    """With how many, itself included, a suspect may share a process. One that has a single call
    shares it with nobody, so that it is not spent by the fault of others."""
    if mode is DeliveryMode.AT_MOST_ONCE:
        return 1
    return max(1, LARGEST_GROUP >> (losses // STEP))


def after(losses: int, loss: Loss, mode: DeliveryMode) -> int:
    """The losses of a suspect after one more."""
    match loss:
        case Loss.ALONE:
            return max(losses, ALONE_FROM) + STEP
        case Loss.IN_GROUP:
            return max(losses, min(losses + STEP, ALONE_FROM))
        case Loss.NODE:
            more = losses + 1
            # Its row must say that it needs a process for itself.
            return max(more, ALONE_FROM) if mode is DeliveryMode.AT_MOST_ONCE else more


def pause(losses: int, loss: Loss) -> float:
    """Seconds until one with so many losses, of which this was the last, is tried again."""
    if loss is not Loss.ALONE:
        return 0.0
    deaths = (losses - ALONE_FROM) // STEP
    return PAUSES[min(deaths, len(PAUSES)) - 1]
