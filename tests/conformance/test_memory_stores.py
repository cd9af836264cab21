"""Stores in memory against the contracts: the suites ask for nothing that only PostgreSQL has."""

import pytest
from tests.conformance.memory_roster import MemoryRoster

from gnomon.store.ports.roster import RosterStore
from gnomon.testing.contracts.roster import RosterContract


class TestMemoryRoster(RosterContract):
    @pytest.fixture
    def roster(self) -> RosterStore:
        return MemoryRoster()
