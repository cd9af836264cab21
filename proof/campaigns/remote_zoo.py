"""The planted bugs of the way to remote workers, over HTTP and behind a broker."""

from typing import Any

from proof.campaigns.checker import Kind
from proof.campaigns.faults import RABBITMQ, REDIS
from proof.campaigns.mutant import Mutant, fault_of, mix_of, setup_of

_REMOTE: dict[str, Any] = {"workers": 3, "apis": 2, "nodes": 1, "lease": 3.0}
_BEHIND_REDIS: dict[str, Any] = _REMOTE | {"pipe": REDIS, "lease": 5.0}
_BEHIND_RABBITMQ: dict[str, Any] = _REMOTE | {"pipe": RABBITMQ, "lease": 5.0}
_HANDLED = {"function": 1.0}

REMOTE_ZOO: dict[str, Mutant] = {
    "grant-not-asked": Mutant(
        broken="a remote worker is told that it may begin, and the store is not asked",
        provoked_by="workers killed while they run at_most_once tasks",
        found_by=(Kind.START_UNEXPLAINED,),
        setup=setup_of(
            14.0,
            [fault_of("kill", f"worker-{n}", 3.0 + 2.5 * n, 1.0) for n in (1, 2, 3)],
            mix=mix_of(modes={"at_most_once": 1.0}, targets=_HANDLED, longest_run=1.5),
            **_REMOTE,
        ),
    ),
    "adopted-and-released": Mutant(
        broken="a gateway that adopts a session releases what its worker runs",
        provoked_by="gateways killed",
        found_by=(Kind.START_UNEXPLAINED, Kind.OVERLAP_UNEXPLAINED),
        setup=setup_of(
            14.0,
            [fault_of("kill", "api-1", 4.0, 0.5), fault_of("kill", "api-2", 9.0, 0.5)],
            mix=mix_of(targets=_HANDLED, longest_run=3.0),
            **_REMOTE,
        ),
    ),
    "receipt-before-commit": Mutant(
        broken="a gateway acknowledges reports, and writes them afterwards",
        provoked_by="gateways killed before they write",
        found_by=(Kind.START_UNEXPLAINED, Kind.LOST, Kind.UNEXPECTED),
        setup=setup_of(
            16.0,
            [
                fault_of("crash_point", f"api-{n}", at, 4.0, point="before_settle")
                for n, at in ((1, 4.0), (2, 7.0), (1, 11.0))
            ],
            mix=mix_of(targets=_HANDLED),
            **_REMOTE,
        ),
    ),
    "ack-late": Mutant(
        broken="a worker says that it has a delivery only once it has run it",
        provoked_by="workers behind Redis, gateways killed",
        found_by=(Kind.START_UNEXPLAINED, Kind.OVERLAP_UNEXPLAINED),
        setup=setup_of(
            14.0,
            [fault_of("kill", "api-1", 4.0, 0.5), fault_of("kill", "api-2", 9.0, 0.5)],
            mix=mix_of(targets=_HANDLED, longest_run=3.0),
            **_BEHIND_REDIS,
        ),
    ),
    "answer-to-another": Mutant(
        broken="some answers go to another worker than the one that asked",
        provoked_by="workers behind Redis, under load alone",
        found_by=(Kind.STUCK, Kind.START_UNEXPLAINED, Kind.OVERLAP_UNEXPLAINED, Kind.UNEXPECTED),
        setup=setup_of(12.0, mix=mix_of(targets=_HANDLED), **_BEHIND_REDIS),
    ),
    "grant-skipped": Mutant(
        broken="a worker begins tasks that ask, and does not wait for the answer",
        provoked_by="workers behind RabbitMQ, killed while they run at_most_once tasks",
        found_by=(Kind.START_UNEXPLAINED,),
        setup=setup_of(
            14.0,
            [fault_of("kill", f"worker-{n}", 3.0 + 2.5 * n, 1.0) for n in (1, 2, 3)],
            mix=mix_of(modes={"at_most_once": 1.0}, targets=_HANDLED, longest_run=1.5),
            **_BEHIND_RABBITMQ,
        ),
    ),
    "credit-leak": Mutant(
        broken="slots of a session are not given back",
        provoked_by="workers behind Redis, under load alone",
        found_by=(Kind.STUCK,),
        setup=setup_of(20.0, mix=mix_of(targets=_HANDLED), slots=20, **_BEHIND_REDIS),
    ),
    "envelope-without-fence": Mutant(
        broken="a delivery does not say under which fence it was claimed",
        provoked_by="workers behind Redis, under load alone",
        found_by=(Kind.STUCK, Kind.START_UNEXPLAINED, Kind.LOST),
        setup=setup_of(8.0, mix=mix_of(targets=_HANDLED), **_BEHIND_REDIS),
    ),
    "session-resurrects": Mutant(
        broken="a session that was declared dead may beat again",
        provoked_by="a worker stopped beyond its lease",
        found_by=(Kind.UNEXPECTED, Kind.STALE_FENCE),
        setup=setup_of(
            14.0,
            [fault_of("pause", f"worker-{n}", 3.0 + 3.0 * n, 5.5) for n in (1, 2)],
            mix=mix_of(targets=_HANDLED),
            **_REMOTE,
        ),
    ),
}
