"""Executions whose deadline was put off, since they had to wait for what their handler needs."""

from tests.unit.node.worker_world import World, working

from gnomon.model.outcomes.outcome import OutcomeKind


async def test_one_that_was_put_off_is_not_overdue_before() -> None:
    world = World()
    async with working(world):
        world.send("wait", 1, timeout=60.0)
        await world.has_begun(1)
        (execution,) = world.runner.running.values()
        execution.deadline = world.clock.monotonic() - 1.0
        execution.context.put_off = 3600.0
        world.runner.end_overdue()
        assert execution.stop is None
        execution.context.put_off = 0.5
        world.runner.end_overdue()
        await world.reported(1)
    assert world.errors() == {(OutcomeKind.TIMED_OUT, "did not end within 60 s")}
