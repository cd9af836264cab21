"""The PostgreSQL store against the contracts of the store ports."""

import pytest
from tests.conformance.store_worlds import PostgresWorld
from tests.integration.support import Connection

from gnomon.store.ports.roster import RosterStore
from gnomon.store.postgres.database import Database
from gnomon.store.postgres.dispatch.roster import PostgresRoster
from gnomon.testing import turned_clock
from gnomon.testing.contracts.dispatch import DispatchContract
from gnomon.testing.contracts.planning import PlanningContract
from gnomon.testing.contracts.roster import RosterContract
from gnomon.testing.contracts.store_world import PlanningWorld


@pytest.fixture
async def world(database: Database, connection: Connection) -> PlanningWorld:
    await turned_clock.install(connection)
    return PostgresWorld(database, connection)


class TestPostgresRoster(RosterContract):
    @pytest.fixture
    def roster(self, database: Database) -> RosterStore:
        return PostgresRoster(database)


class TestPostgresDispatch(DispatchContract): ...


class TestPostgresPlanning(PlanningContract): ...
