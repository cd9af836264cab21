"""The dashboards of Grafana, a module for each."""

from deploy.monitoring.dashboards.database import DATABASE
from deploy.monitoring.dashboards.fleet import FLEET
from deploy.monitoring.dashboards.recurring import RECURRING
from deploy.monitoring.dashboards.tenant import TENANT

DASHBOARDS = (FLEET, TENANT, RECURRING, DATABASE)


def files() -> dict[str, str]:
    """The text of each dashboard, by the name of its file."""
    return {f"{each.uid.removeprefix('gnomon-')}.json": each.written() for each in DASHBOARDS}
