"""Metrics of handlers that do not stop, and of the processes that run suspects."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from gnomon.observe.events import ChildDied, ChildUnfit, HandlerHung, HandlerReturned, place

_PLACES = ("loop", "thread")  # where handlers run


class HandlerMetrics:
    """Handlers that ignore being told to stop, by where they run."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._hung = Gauge(
            "gnomon_handlers_hung",
            "Handlers that go on although they were told to stop.",
            ["runs_in"],
            registry=registry,
        )
        self._given_up = Counter(
            "gnomon_handlers_given_up",
            "Handlers that ignored being told to stop, and were replaced.",
            ["runs_in"],
            registry=registry,
        )
        for where in _PLACES:
            self._hung.labels(where)
            self._given_up.labels(where)

    def __call__(self, event: HandlerHung | HandlerReturned) -> None:
        where = place(event.handler)
        if isinstance(event, HandlerHung):
            self._hung.labels(where).inc()
            self._given_up.labels(where).inc()
        else:
            self._hung.labels(where).dec()


class QuarantineMetrics:
    """Child processes that run suspects."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._deaths = Counter(
            "gnomon_quarantine_deaths",
            "Processes that died while they ran suspects: one alone, or a group.",
            ["of"],
            registry=registry,
        )
        self._unfit = Counter(
            "gnomon_quarantine_start_failures",
            "Processes for suspects that could not be started.",
            registry=registry,
        )
        for what in ("one", "group"):
            self._deaths.labels(what)

    def __call__(self, event: ChildDied | ChildUnfit) -> None:
        if isinstance(event, ChildDied):
            self._deaths.labels("one" if event.alone else "group").inc()
        else:
            self._unfit.inc()
