"""Who may be declared dead, and by whom: Lease and Watch, turned by hand."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.node.membership.lease import Lease
from gnomon.node.membership.roster import Watch
from gnomon.store.ports.roster import NodeRecord

START = datetime(2026, 1, 1, tzinfo=UTC)
TTL = 10.0
ME, PEER, OTHER = (UUID(int=n) for n in (1, 2, 3))


class Scene:
    """A node that watches its peers, second by second."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.lease = Lease(ME, TTL)
        self.lease.renewed(0.0)
        self.watch = Watch()
        self.beats: dict[UUID, int] = {PEER: 0}
        self.renewed_at: dict[UUID, float] = {PEER: 0.0}
        self.ahead = 0.0  # seconds by which this node takes the time to be later than it is

    def peer_renews(self, peer: UUID = PEER) -> None:
        self.beats[peer] = self.beats.get(peer, -1) + 1
        self.renewed_at[peer] = self.seconds

    def look(self) -> list[UUID]:
        """The peers that would be declared dead."""
        peers = [
            NodeRecord(
                incarnation=peer,
                name="peer",
                version="1",
                slots=1,
                started_at=START,
                alive_until=START + timedelta(seconds=self.renewed_at[peer] + TTL),
                beat=beat,
                dead=False,
            )
            for peer, beat in self.beats.items()
        ]
        now = START + timedelta(seconds=self.seconds + self.ahead)
        silent = self.watch.silent(peers, self.lease, now, self.seconds)
        return [peer.incarnation for peer in silent]

    def second(self, *, mine: bool = True, peer: bool = True, database: bool = True) -> list[UUID]:
        """One second passes; gives who was found silent in it."""
        self.seconds += 1
        if peer and database:
            self.peer_renews()
        if mine and database:
            self.lease.renewed(self.seconds)
        else:
            self.lease.missed()
        return self.look() if database else []


def test_a_peer_that_renews_is_never_declared_dead() -> None:
    scene = Scene()
    assert not any(scene.second() for _ in range(100))


def test_a_peer_that_is_silent_for_a_lease_is_declared_dead_and_not_before() -> None:
    scene = Scene()
    for _ in range(20):
        scene.second()
    silent_for = 0
    while not scene.second(peer=False):
        silent_for += 1
        assert silent_for < 30
    assert silent_for >= TTL


def test_a_beat_begins_the_wait_anew() -> None:
    scene = Scene()
    for number in range(60):
        assert scene.second(peer=number % 9 == 0) == []


def test_a_clock_that_is_wrong_kills_nobody() -> None:
    """By this node's clock every lease has run out. But the beats go on: that is what counts."""
    scene = Scene()
    for _ in range(20):
        scene.second()
    scene.ahead = 3600.0
    for number in range(60):
        assert scene.second(peer=number % 9 == 0) == []


def test_a_peer_that_is_new_here_is_watched_for_a_lease_whatever_its_row_says() -> None:
    """It joined long ago, by the clock of its row, and nobody has seen its beat twice yet."""
    scene = Scene()
    for _ in range(20):
        scene.second()
    scene.beats[OTHER], scene.renewed_at[OTHER] = 7, -3600.0
    found = [scene.second() for _ in range(int(TTL) + 2)]
    assert not any(found[: int(TTL)])
    assert found[-1] == [OTHER]


def test_a_peer_whose_lease_is_longer_is_given_all_of_it() -> None:
    """Its row says until when it may be silent: its lease may be longer than ours."""
    scene = Scene()
    for _ in range(20):
        scene.second()
    scene.renewed_at[PEER] = scene.seconds + 30.0
    found = [scene.second(peer=False) for _ in range(45)]
    assert not any(found[:40])
    assert any(found)


def test_a_newcomer_judges_nobody_before_a_whole_lease_of_its_own() -> None:
    scene = Scene()
    found = [scene.second(peer=False) for _ in range(30)]
    assert not any(found[: int(TTL) - 1])
    assert any(found)


@pytest.mark.parametrize("seconds", [5, 11, 60])
def test_an_outage_of_the_database_kills_nobody(seconds: int) -> None:
    """However long it was, and although the peer is the later of the two to come back."""
    scene = Scene()
    for _ in range(20):
        scene.second()
    for _ in range(seconds):
        scene.second(database=False)
    for _ in range(5):
        assert scene.second(peer=False) == []
    for _ in range(30):
        assert scene.second() == []


def test_an_outage_of_mine_alone_kills_nobody() -> None:
    scene = Scene()
    for number in range(100):
        assert scene.second(mine=number % 8 != 0, peer=number < 20) == []


def test_a_machine_that_slept_kills_nobody_as_it_wakes() -> None:
    """All slept: no renewal failed, none was tried. Who wakes first must not judge the others."""
    scene = Scene()
    for _ in range(20):
        scene.second()
    scene.seconds += 3600
    for _ in range(5):
        assert scene.second(peer=False) == []
    for _ in range(30):
        assert scene.second() == []


def test_one_silent_peer_does_not_hide_behind_another() -> None:
    scene = Scene()
    for _ in range(20):
        scene.peer_renews(OTHER)
        scene.second()
    found: set[UUID] = set()
    for _ in range(20):
        scene.peer_renews(OTHER)
        found.update(scene.second(peer=False))
    assert found == {PEER}


def test_a_lease_that_was_lost_judges_nobody() -> None:
    scene = Scene()
    for _ in range(20):
        scene.second()
    scene.lease.lost = True
    assert not any(scene.second(peer=False) for _ in range(30))


def test_trust_ends_before_the_lease_does() -> None:
    lease = Lease(ME, TTL)
    assert not lease.is_trusted(0.0)
    lease.renewed(5.0)
    assert lease.is_trusted(12.9)
    assert not lease.is_trusted(13.0)
    lease.missed()
    assert lease.is_trusted(12.9)  # as long as it was given
    lease.lost = True
    assert not lease.is_trusted(6.0)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=120))
def test_whoever_is_declared_dead_was_silent_for_a_lease_of_good_renewals(
    seconds: list[tuple[bool, bool, bool]],
) -> None:
    scene = Scene()
    good = silent = 0  # seconds in a row: my renewals that went through, the peer's silence
    for mine, peer, database in seconds:
        good = good + 1 if mine and database else 0
        silent = 0 if peer and database else silent + 1
        if scene.second(mine=mine, peer=peer, database=database):
            assert silent >= TTL
            assert good >= TTL
