"""What the load of a campaign asks for."""

from collections import Counter
from itertools import islice

import msgspec
import pytest
from proof.campaigns.orders import POISON, Mix, moment, orders, rfc3339


def test_a_seed_says_everything() -> None:
    first, again = (list(islice(orders(7, Mix()), 200)) for _ in range(2))
    assert first == again
    assert first != list(islice(orders(8, Mix()), 200))


def test_everything_is_in_the_mix() -> None:
    drawn = list(islice(orders(1, Mix()), 5000))
    assert [order.n for order in drawn] == list(range(1, 5001))
    seen = Counter((order.mode, order.way) for order in drawn)
    modes = ("at_least_once", "at_most_once", "exactly_once")
    assert set(seen) == {(m, w) for m in modes for w in ("webhook", "function")} | {
        ("exactly_once", "effect")
    }
    assert {order.change for order in drawn} == {None, "cancel", "interrupt", "pause"}
    assert any(order.hold for order in drawn)
    assert any(order.single for order in drawn)
    assert any(0 < order.fails <= order.max_retries for order in drawn)
    assert any(order.fails > order.max_retries for order in drawn)
    assert not any(order.fails >= POISON for order in drawn)


def test_at_most_once_asks_for_no_retry() -> None:
    drawn = islice(orders(2, Mix()), 2000)
    assert {o.max_retries for o in drawn if o.mode == "at_most_once"} == {0}


def test_a_mix_can_be_one_thing() -> None:
    mix = Mix(modes={"at_least_once": 1.0}, targets={"webhook": 1.0}, changed=0.0, late_commit=0.0)
    drawn = list(islice(orders(3, mix), 500))
    assert {(o.mode, o.target, o.change, o.hold) for o in drawn} == {
        ("at_least_once", "webhook", None, None)
    }
    poisoned = list(islice(orders(3, Mix(poison=1.0)), 10))
    assert {(o.target, o.fails) for o in poisoned} == {("poison", POISON)}


@pytest.mark.parametrize("mix", [Mix(), Mix(workflows=1.0), Mix(batches=1.0), Mix(changed=1.0)])
@pytest.mark.parametrize("longest", [0.4, 4.0])
def test_no_try_that_goes_well_comes_near_its_timeout(mix: Mix, longest: float) -> None:
    """Else a busy machine makes failures that nobody asked for."""
    drawn = islice(orders(4, msgspec.structs.replace(mix, longest_run=longest)), 500)
    for order in drawn:
        assert 2 * order.seconds < order.timeout
        assert order.body(0.0, "key", "")["timeout_seconds"] == order.timeout


def test_a_time_is_sent_as_it_is_kept() -> None:
    due = moment(1_700_000_000.1234567).timestamp()
    assert rfc3339(due) == "2023-11-14T22:13:20.123457+00:00"
    assert moment(due).timestamp() == due
