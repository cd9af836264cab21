"""Events are read in their order by their numbers."""

from tests.integration.support import Connection
from tests.plans.test_hot_plans import filled, plans

__all__ = ["filled"]

_ROWS = """
    INSERT INTO gnomon.event (tenant_id, id, kind, at, detail)
    SELECT tenant_id, id, 'kind', gnomon.now(), '{}' FROM gnomon.task
"""


async def test_events_are_read_by_number(filled: Connection) -> None:
    await filled.execute(_ROWS)  # never analyzed
    while await filled.fetchval("SELECT gnomon.number_events(5000)"):
        pass
    for used in await plans(filled, "read_events", 0, 100):
        assert {"event_number"} <= used.indexes
        assert "event" not in used.scanned
    for used in await plans(filled, "read_tenant_events", "default", 0, 100):
        assert {"event_tenant_number"} <= used.indexes
        assert "event" not in used.scanned
