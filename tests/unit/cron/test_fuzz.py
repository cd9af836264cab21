"""A small part of `make fuzz`, always the same, and a proof that the fuzz would notice."""

from dataclasses import replace

import pytest
from proof.cron_oracle import compare, oracle
from proof.cron_oracle.fuzz import report, run
from proof.cron_oracle.generator import GROUP, group
from proof.cron_oracle.oracle import Policy

CHUNKS = 8
GROUPS = 8  # of 40 triples each, so 2 560 over all chunks


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_engine_agrees_with_the_oracle_and_the_peers(chunk: int) -> None:
    tally = run("ci", chunk * GROUPS, GROUPS * GROUP)
    assert not tally.failures, "\n\n".join(map(str, tally.failures))
    assert tally.triples.total() == GROUPS * GROUP, report(tally, 0)
    # The peers must have been asked, and must mostly agree: else nothing was compared.
    for peer in ("cronsim", "croniter"):
        assert tally.agreed[peer] > GROUPS * GROUP // 2, report(tally, 0)


def test_the_fuzz_notices_a_fire_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    fires = oracle.Window.fires
    monkeypatch.setattr(oracle.Window, "fires", lambda *given: fires(*given)[:-1])
    assert run("ci", 0, GROUP).failures


def test_the_fuzz_notices_another_rule_for_clock_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduled = compare.scheduled
    other = {"first": "second", "second": "both", "both": "first"}
    monkeypatch.setattr(
        compare,
        "scheduled",
        lambda triple, policy: scheduled(triple, Policy(policy.gap, other[policy.fold])),
    )
    assert any(run("ci", number, GROUP, with_peers=False).failures for number in range(16))


def test_a_group_follows_from_its_seed() -> None:
    assert group("1:7") == group("1:7")
    assert replace(group("1:7"), seed="") != replace(group("1:8"), seed="")
