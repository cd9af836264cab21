"""The checker of campaigns, on histories that a small model of a right scheduler has made: none of
them is wrong, and whatever is spoilt in them is found."""

import random
from collections.abc import Callable, Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from proof.campaigns.checker import CANCELLED, COMPLETED, DEAD, PAUSED, judge
from proof.campaigns.history import (
    Action,
    Call,
    Changed,
    Effect,
    Fault,
    Final,
    History,
    Mode,
    Submitted,
    Way,
)

LEASE = 2.0
NODES = ("node-1", "node-2", "node-3")
WAYS: tuple[Way, ...] = ("webhook", "function", "effect")
MODES: tuple[Mode, ...] = ("at_least_once", "at_most_once", "exactly_once")


class Model:
    """Runs tasks one after the other, as they must be run, under faults."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._changed: list[Changed] = []
        self._calls: list[Call] = []
        self._effects: list[Effect] = []
        self._faults: list[Fault] = []
        self._finals: list[Final] = []

    def run(self, tasks: int) -> History:
        submitted = [self._task(1000.0 * n) for n in range(1, tasks + 1)]
        return History(
            began_at=0.0,
            ended_at=1000.0 * (tasks + 1),
            lease=LEASE,
            submitted=submitted,
            changed=self._changed,
            calls=self._calls,
            effects=self._effects,
            faults=self._faults,
            finals=self._finals,
        )

    def _task(self, due: float) -> Submitted:
        chance, n = self._chance, int(due)
        way = chance.choice(WAYS)
        mode: Mode = "exactly_once" if way == "effect" else chance.choice(MODES)
        acked = chance.random() < 0.9
        asked = Submitted(
            n=n,
            mode=mode,
            way=way,
            asked_at=due - 3,
            acked_at=due - 2 if acked else None,
            task_id=f"id-{n}" if acked else None,
            due_at=due,
            fails=chance.choice((0, 0, 1, 2)),
            max_retries=0 if mode == "at_most_once" else chance.choice((1, 5)),
            timeout_seconds=5.0,
        )
        if acked or chance.random() < 0.5:
            self._life(asked)
        return asked

    def _life(self, asked: Submitted) -> None:
        lives = ("run", "run", "run", "run", "cancel", "interrupt", "pause", "for good")
        match self._chance.choice(lives):
            case "cancel" if asked.acked_at:
                self._change(asked, "cancel", asked.due_at - 1)
                self._end(asked, CANCELLED, 0)
            case "interrupt" if asked.acked_at:
                self._interrupted(asked, asked.due_at + self._chance.uniform(0, 1))
            case "for good" if asked.acked_at:
                self._change(asked, "pause", asked.due_at - 1)
                self._end(asked, PAUSED, 0)
            case "pause" if asked.acked_at:
                self._change(asked, "pause", asked.due_at - 1)
                self._change(asked, "resume", asked.due_at + 4)
                self._tries(asked, asked.due_at + 4.1)
            case _:
                self._tries(asked, asked.due_at + self._chance.uniform(0, 1))

    def _tries(self, asked: Submitted, at: float) -> None:
        fails, budget, fence, losses = asked.fails, asked.max_retries, 1, 0
        while True:
            node = self._chance.choice(NODES)
            call = self._call(asked, at, fence, node)
            ended = at + self._chance.uniform(0.0, 1.0)
            if losses < 3 and self._chance.random() < 0.2:
                losses += 1
                if not fails and asked.way != "effect" and self._chance.random() < 0.3:
                    at = self._unheard(asked, call, node, ended)
                else:
                    at = self._lose(call, node, ended)
                if asked.mode == "at_most_once":
                    return self._end(asked, DEAD, fence + 1)
            elif fails:
                fails -= 1
                self._calls.append(replace(call, ended_at=ended))
                if budget == 0:
                    return self._end(asked, DEAD, fence + 1)
                budget, at = budget - 1, ended + 0.2
            else:
                return self._succeed(asked, replace(call, ended_at=ended, succeeded=True))
            fence += 2

    def _call(self, asked: Submitted, at: float, fence: int, node: str) -> Call:
        return Call(
            n=asked.n,
            run_id=f"id-{asked.n}",
            attempt=fence,
            fence=fence,
            began_at=at,
            node=None if asked.way == "webhook" else node,
        )

    def _lose(self, call: Call, node: str, ended: float) -> float:
        """Something happens to the node; gives when the next try begins."""
        kind = self._chance.choice(("kill", "pause", "black_hole"))
        seen = kind != "kill" and call.node is None
        self._calls.append(replace(call, ended_at=ended if seen else None, hung_up=seen))
        return self._break(kind, node, ended)

    def _unheard(self, asked: Submitted, call: Call, node: str, ended: float) -> float:
        """The call succeeds, and its node dies before it can say so."""
        self._done(asked, replace(call, ended_at=ended, succeeded=True))
        return self._break("crash_point", node, ended)

    def _break(self, kind: str, node: str, at: float) -> float:
        broken = Fault(kind=kind, victim=node, at=at, healed_at=at + 3, took_effect=True)
        self._faults.append(broken)
        return at + LEASE + self._chance.uniform(0.0, 5.0)

    def _interrupted(self, asked: Submitted, at: float) -> None:
        """Success wins, where it comes in time."""
        call = self._call(asked, at, 1, "node-1")
        self._change(asked, "interrupt", at + self._chance.uniform(-0.5, 0.5))
        if self._chance.random() < 0.5:
            self._succeed(asked, replace(call, ended_at=at + 1, succeeded=True))
        else:
            self._calls.append(replace(call, ended_at=at + 1, hung_up=True))
            self._end(asked, CANCELLED, 1)

    def _succeed(self, asked: Submitted, call: Call) -> None:
        self._done(asked, call)
        self._end(asked, COMPLETED, call.fence)

    def _done(self, asked: Submitted, call: Call) -> None:
        assert call.ended_at is not None
        self._calls.append(call)
        fenced = asked.mode == "exactly_once" and asked.way != "function"
        if fenced and not any(effect.n == asked.n for effect in self._effects):
            self._effects.append(Effect(asked.n, call.run_id, call.fence, call.ended_at))

    def _end(self, asked: Submitted, state: int, fence: int) -> None:
        self._finals.append(
            Final(n=asked.n, task_id=f"id-{asked.n}", state=state, fence=fence, attempt=1)
        )

    def _change(self, asked: Submitted, action: Action, at: float) -> None:
        answered_at = at + 0.1
        self._changed.append(
            Changed(n=asked.n, action=action, asked_at=at, answered_at=answered_at, accepted=True)
        )


histories = st.builds(
    lambda seed, tasks: Model(random.Random(seed)).run(tasks),
    st.integers(0, 1 << 32),
    st.integers(1, 8),
)


@given(histories)
def test_what_is_right_is_not_called_wrong(history: History) -> None:
    assert judge(history).wrong == {}


def completed(history: History) -> list[Final]:
    return [final for final in history.finals if final.state == COMPLETED]


def forget_a_task(history: History) -> History | None:
    acked = {s.n for s in history.submitted if s.acked_at is not None}
    for index, final in enumerate(history.finals):
        if final.n in acked:
            return replace(history, finals=history.finals[:index] + history.finals[index + 1 :])
    return None


def forget_to_finish(history: History) -> History | None:
    return _refinished(history, lambda f: replace(f, state=1))


def finish_without_a_call(history: History) -> History | None:
    for final in completed(history):
        return replace(history, calls=[c for c in history.calls if c.n != final.n])
    return None


def cancel_unasked(history: History) -> History | None:
    asked = {c.n for c in history.changed if c.action == "interrupt"}
    return _refinished(history, lambda f: replace(f, state=CANCELLED), besides=asked)


def start_early(history: History) -> History | None:
    if not history.calls:
        return None
    first = history.calls[0]
    due = next(s.due_at for s in history.submitted if s.n == first.n)
    return replace(history, calls=[replace(first, began_at=due - 0.001), *history.calls[1:]])


def start_again(history: History) -> History | None:
    for final in completed(history):
        last, *others = (c for c in history.calls if c.n == final.n)
        if others:  # a fault may have been near
            continue
        again = replace(last, fence=last.fence + 2, began_at=last.began_at + 200, ended_at=None)
        finals = [replace(f, fence=again.fence) if f is final else f for f in history.finals]
        return replace(history, calls=[*history.calls, again], finals=finals)
    return None


def use_a_claim_twice(history: History) -> History | None:
    for final in completed(history):
        last = [c for c in history.calls if c.n == final.n][-1]
        return replace(history, calls=[*history.calls, replace(last, began_at=last.began_at + 1)])
    return None


def undo_the_faults(history: History) -> History | None:
    repeated = {s.n for s in history.submitted if s.mode != "at_most_once"}
    interrupted = {c.n for c in history.changed if c.action == "interrupt"}
    lost = {c.n for c in history.calls if c.hung_up or c.ended_at is None}
    return replace(history, faults=[]) if lost & repeated - interrupted else None


def apply_twice(history: History) -> History | None:
    return replace(history, effects=history.effects * 2) if history.effects else None


def lose_the_effect(history: History) -> History | None:
    return replace(history, effects=[]) if history.effects else None


def settle_by_a_stale_try(history: History) -> History | None:
    for final in completed(history):
        calls = [c for c in history.calls if c.n == final.n]
        if len(calls) > 1:
            stale = replace(final, fence=calls[0].fence)
            finals = [stale if f is final else f for f in history.finals]
            return replace(history, finals=finals)
    return None


def run_while_paused(history: History) -> History | None:
    for change in history.changed:
        if change.action == "pause":
            asked = next(s for s in history.submitted if s.n == change.n)
            call = Call(
                n=change.n, run_id=f"id-{change.n}", attempt=1, fence=0, began_at=asked.due_at + 1
            )
            return replace(history, calls=[*history.calls, call])
    return None


def cancel_in_vain(history: History) -> History | None:
    for final in completed(history):
        at = next(s.due_at for s in history.submitted if s.n == final.n) - 1
        vain = Changed(n=final.n, action="cancel", asked_at=at, answered_at=at, accepted=True)
        return replace(history, changed=[*history.changed, vain])
    return None


def store_twice(history: History) -> History | None:
    if not history.finals:
        return None
    other = replace(history.finals[0], task_id="another")
    return replace(history, finals=[*history.finals, other])


def run_what_nobody_asked_for(history: History) -> History:
    call = Call(n=7, run_id="id-7", attempt=1, fence=1, began_at=history.ended_at)
    return replace(history, calls=[*history.calls, call])


def bury_the_innocent(history: History) -> History | None:
    innocent = {s.n for s in history.submitted if s.mode != "at_most_once" and s.fails == 0}
    for final in completed(history):
        if final.n in innocent:
            buried = replace(final, state=DEAD, fence=final.fence + 1)
            finals = [buried if f is final else f for f in history.finals]
            return replace(history, finals=finals)
    return None


def _refinished(
    history: History, change: Callable[[Final], Final], besides: Collection[int] = ()
) -> History | None:
    for final in completed(history):
        if final.n not in besides:
            finals = [change(f) if f is final else f for f in history.finals]
            return replace(history, finals=finals)
    return None


SPOILT: dict[Callable[[History], History | None], str] = {
    forget_a_task: "lost",
    forget_to_finish: "stuck",
    finish_without_a_call: "lost",
    cancel_unasked: "unexpected",
    start_early: "early",
    start_again: "duplicate_starts_unexplained",
    use_a_claim_twice: "duplicate_starts_unexplained",
    undo_the_faults: "duplicate_starts_unexplained",
    apply_twice: "duplicate_effects",
    lose_the_effect: "missing_effects",
    settle_by_a_stale_try: "stale_fence_accepted",
    run_while_paused: "unexpected",
    cancel_in_vain: "unexpected",
    store_twice: "unexpected",
    run_what_nobody_asked_for: "unexpected",
    bury_the_innocent: "unexpected",
}


@pytest.mark.parametrize("spoil", SPOILT, ids=lambda spoil: spoil.__name__)
@given(history=histories)
def test_what_is_spoilt_is_found(
    spoil: Callable[[History], History | None], history: History
) -> None:
    spoilt = spoil(history)
    if spoilt is not None:
        assert SPOILT[spoil] in judge(spoilt).wrong


def test_there_is_much_to_spoil() -> None:
    """Or the law above would hold for want of cases."""
    drawn = [Model(random.Random(seed)).run(8) for seed in range(20)]
    for spoil in SPOILT:
        assert sum(spoil(history) is not None for history in drawn) >= 10, spoil.__name__
