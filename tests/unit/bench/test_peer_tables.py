"""The tables of the comparison fit a terminal, their ratios point the right way, and nothing that
is missing is left unsaid."""

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from bench.peers.contenders import GNOMON, PEERS
from bench.peers.match import Kept, own_faults, plan
from bench.peers.measures import QUICK, Sizes
from bench.peers.plots import draw
from bench.peers.quantities import Entrant, Failure, Line, Match, PeerQuantity, quantities
from bench.peers.tables import TITLE, WIDTH, text

EVERYBODY = [GNOMON, *PEERS.values()]
RATE = PeerQuantity("rate", "drain /s", "higher")
DELAY = PeerQuantity("delay", "idle p50 ms", "lower", group="delays")
EARLY = PeerQuantity("herd_1000_early", "1 000 due early", "lower", "most", "delays")


def match(
    lines: list[Line],
    rounds: int = 3,
    absent: dict[str, str] | None = None,
    failures: list[Failure] | None = None,
) -> Match:
    entrants = [
        Entrant(each.name, each.title, each.version, each.choices[0], each.remark)
        for each in EVERYBODY
    ]
    return Match(
        rounds=rounds,
        sizes={},
        notes={"worker_processes": 1},
        entrants=entrants,
        absent=absent or {},
        failures=failures or [],
        lines=lines,
    )


def all_lines(value: float) -> list[Line]:
    sizes = Sizes()
    return [
        Line(quantity, {each.name: [value, value * 1.5, value * 2] for each in EVERYBODY})
        for quantity in quantities(sizes.drains, sizes.herds)
    ]


@pytest.mark.parametrize("value", [0.0, 0.123456, 99_999.9])
def test_everything_fits_in_80_columns(value: float) -> None:
    longest = "x" * 300
    found = text(
        match(
            all_lines(value),
            absent={"river": f"it cannot be installed: {longest} {longest}"},
            failures=[Failure("pg_boss", "herd_10000", 2, "of 10 000 tasks 3 did not run " * 8)],
        )
    )
    assert max(len(line) for line in found.splitlines()) <= WIDTH


def test_no_title_is_longer_than_its_column() -> None:
    sizes = Sizes()
    titles = [quantity.title for quantity in quantities(sizes.drains, sizes.herds)]
    assert [title for title in titles if len(title) > TITLE] == []
    assert len(set(titles)) == len(titles)


def test_a_ratio_over_one_says_that_gnomon_is_better() -> None:
    faster = Line(RATE, {"gnomon": [200.0, 300.0], "river": [100.0, 100.0]})
    sooner = Line(DELAY, {"gnomon": [1.0, 2.0], "river": [4.0, 4.0]})
    rate, delay = faster.ratio("river"), sooner.ratio("river")
    assert rate is not None
    assert delay is not None
    assert (rate.low, rate.median, rate.high) == (2.0, 2.5, 3.0)
    assert (delay.low, delay.median, delay.high) == (2.0, 3.0, 4.0)


def test_a_ratio_is_of_the_same_round_and_of_rounds_that_have_both() -> None:
    line = Line(RATE, {"gnomon": [100.0, None, 900.0], "river": [50.0, 1.0, 300.0]})
    found = line.ratio("river")
    assert found is not None
    assert (found.rounds, found.low, found.high) == (2, 2.0, 3.0)
    assert Line(RATE, {"gnomon": [1.0], "river": [None]}).ratio("river") is None
    assert Line(RATE, {"gnomon": [1.0]}).ratio("river") is None


def test_medians_spread_and_ratios_are_printed() -> None:
    found = text(match([Line(RATE, {"gnomon": [90.0, 100.0, 120.0], "river": [40.0, 50.0, 60.0]})]))
    rows = [line.split() for line in found.splitlines() if line.startswith("drain /s")]
    assert rows[0][2:5] == ["100", "-", "50"]
    assert rows[1][2:5] == ["30%", "-", "40%"]
    assert rows[2][2:4] == ["-", "2.00"]


def test_of_one_round_there_is_no_spread() -> None:
    assert "Spread" not in text(match(all_lines(1.0), rounds=1))


def test_early_starts_are_the_most_of_any_round_and_a_fault_of_ours() -> None:
    line = Line(EARLY, {"gnomon": [0.0, 0.0, 2.0], "river": [0.0, 7.0, 0.0]})
    assert (line.whole("gnomon"), line.whole("river")) == (2.0, 7.0)
    assert own_faults(match([line])) == ["herd_1000_early: 2 tasks began early"]


def test_only_our_failures_are_faults_and_all_are_named() -> None:
    failures = [Failure("gnomon", "idle", 1, "lost"), Failure("river", "idle", 2, "slow")]
    found = match([], failures=failures, absent={"bullmq": "no server"})
    assert own_faults(found) == ["idle: lost"]
    said = text(found)
    assert "not measured: bullmq: no server" in said
    assert "failed: river, idle, round 2: slow" in said


def test_what_a_round_lacks_is_kept_as_missing() -> None:
    kept = Kept(["gnomon", "river"])
    for rate in (1.0, 2.0):
        kept.begin_round()
        kept.keep("gnomon", "drain_2000", {"rate": rate, "cpu_worker": 3.0, "cpu_server": 4.0})
    kept.keep("river", "drain_2000", {"rate": 5.0})
    lines = {line.quantity.name: line.values for line in kept.lines(QUICK)}
    assert lines == {
        "drain_2000_rate": {"gnomon": [1.0, 2.0], "river": [None, 5.0]},
        "cpu_worker": {"gnomon": [3.0, 3.0], "river": [None, None]},
        "cpu_server": {"gnomon": [4.0, 4.0], "river": [None, None]},
        "cpu_all": {"gnomon": [7.0, 7.0], "river": [None, None]},
    }


def test_the_costs_are_those_of_the_largest_drain() -> None:
    names = [each.name for each in plan(Sizes(), ["drain", "herd"])]
    assert names == ["drain_20000", "drain_100000", "herd_1000", "herd_10000"]
    kept = Kept(["gnomon"])
    kept.begin_round()
    kept.keep("gnomon", "drain_20000", {"rate": 1.0, "wal": 900.0})
    kept.keep("gnomon", "drain_100000", {"rate": 1.0, "wal": 700.0})
    assert {line.quantity.name: line.whole("gnomon") for line in kept.lines(Sizes())}["wal"] == 700


def test_a_slow_peer_takes_the_least_of_each_kind_only() -> None:
    drains = plan(Sizes(), ["drain"])
    slow = PEERS["procrastinate"]
    assert [each.within(slow, 20_000) for each in drains] == [True, False]
    assert [each.within(PEERS["river"], 20_000) for each in drains] == [True, True]


def test_pictures_are_drawn_of_what_there_is(tmp_path: Path) -> None:
    files = draw(match([*all_lines(3.0), Line(RATE, {"river": [1.0]})]), tmp_path)
    assert [file.name for file in files] == [
        "peers-rates.svg",
        "peers-delays.svg",
        "peers-costs.svg",
    ]
    for file in files:
        words = [node.text for node in ElementTree.parse(file).iter() if node.tag.endswith("text")]
        assert {"Gnomon", "River"} <= set(words)
    assert "not measured" in files[0].read_text()


def test_a_match_survives_its_file() -> None:
    found = match(all_lines(2.5), failures=[Failure("river", "idle", 1, "slow")])
    assert msgspec.json.decode(msgspec.json.encode(found), type=Match) == found
