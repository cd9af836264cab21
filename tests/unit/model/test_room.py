"""When a database has too little room for new work."""

from gnomon.model.fleet.room import Bounds, Measured, no_room

GIB = 1024**3


def refused(found: Measured, bounds: Bounds, *, refusing: bool = False) -> bool:
    return no_room(found, bounds, refusing=refusing) is not None


def test_a_reserve_stays_free() -> None:
    bounds = Bounds(GIB)
    assert refused(Measured(GIB - 1, 100 * GIB), bounds)
    assert not refused(Measured(GIB, 100 * GIB), bounds)
    # Of a small disk, a tenth.
    assert refused(Measured(GIB // 5 - 1, 2 * GIB), bounds)
    assert not refused(Measured(GIB // 5 + 1, 2 * GIB), bounds)
    assert not refused(Measured(0, 2 * GIB), Bounds(0))


def test_the_database_has_a_bound() -> None:
    assert refused(Measured(database=GIB), Bounds(GIB, GIB))
    assert not refused(Measured(database=GIB - 1), Bounds(GIB, GIB))
    assert not refused(Measured(database=GIB), Bounds(GIB))
    assert not refused(Measured(), Bounds(GIB, GIB))


def test_there_must_be_clearly_more_before_work_is_accepted_again() -> None:
    bounds = Bounds(GIB, 100 * GIB)
    free = int(1.2 * GIB)
    assert not refused(Measured(free, 100 * GIB), bounds)
    assert refused(Measured(free, 100 * GIB), bounds, refusing=True)
    assert not refused(Measured(int(1.3 * GIB), 100 * GIB), bounds, refusing=True)
    assert refused(Measured(database=99 * GIB), bounds, refusing=True)
    assert not refused(Measured(database=97 * GIB), bounds, refusing=True)
