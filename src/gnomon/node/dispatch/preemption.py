"""Makes running tasks give way to CRITICAL ones that find no free slot."""

from gnomon.clock import Clock
from gnomon.node.run.preemption_order import may_give_way
from gnomon.node.run.runner import Runner
from gnomon.observe.events import Observer, TaskPreempted
from gnomon.pipe.envelope import Delivery
from gnomon.pipe.port import Pipe


class Preemption:
    """One running task for each CRITICAL delivery that waits: never a second one for the same,
    however long the first takes to end."""

    def __init__(self, pipe: Pipe, runner: Runner, clock: Clock, emit: Observer) -> None:
        self._pipe = pipe
        self._runner = runner
        self._clock = clock
        self._emit = emit

    def room(self) -> int:
        """CRITICAL tasks that may be claimed beyond the room of the pipe."""
        leaving = sum(map(may_give_way, self._runner.preemptible)) + self._runner.giving_way()
        return leaving - self._pipe.stranded(self._clock.seconds()) if leaving else 0

    def run_once(self) -> int:
        """Have as many tasks end as are needed now, as far as there are any; gives how many."""
        if not self._runner.preemptible:
            return 0
        wanted = self._pipe.stranded(self._clock.seconds()) - self._runner.giving_way()
        ended = self._runner.preempt(wanted) if wanted > 0 else []
        for delivery in ended:
            self._emit(preempted_event(delivery))
        return len(ended)


def preempted_event(task: Delivery) -> TaskPreempted:
    """Tells who listens that it gives way."""
    return TaskPreempted(task.key, task.task_type, task.lane, task.attempt, task.origin)
