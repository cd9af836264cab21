"""Sends spans from a thread: a bounded number waits, and no failure concerns anybody else."""

import threading
from collections import deque
from collections.abc import Callable

import structlog
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from gnomon.observe.events import SpanResult

log = structlog.get_logger("gnomon.tracing")

MOST_WAITING = 4096
MOST_TOGETHER = 512
_SECONDS = 0.5  # that spans are gathered

Told = Callable[[SpanResult, int], None]


class SpanQueue(SpanProcessor):
    """`SpanProcessor` that counts what becomes of every span. One that finds the queue full is
    dropped: a collector that is down or slow costs memory for so many, and no time."""

    def __init__(self, exporter: SpanExporter, told: Told, most: int = MOST_WAITING) -> None:
        self._exporter = exporter
        self._told = told
        self._most = most
        self._waiting: deque[ReadableSpan] = deque()
        self._dropped = 0
        self._failures = 0  # in a row
        self._filled = threading.Event()
        self._ending = False
        self._over = False  # nothing more is sent
        self._thread = threading.Thread(target=self._run, name="gnomon-spans", daemon=True)
        self._thread.start()

    def on_end(self, span: ReadableSpan) -> None:
        if self._ending or len(self._waiting) >= self._most:
            self._dropped += 1
            return
        self._waiting.append(span)
        if len(self._waiting) >= MOST_TOGETHER:
            self._filled.set()

    def close(self, seconds: float) -> None:
        """Send the rest, for so long at the most. Blocks."""
        self._ending = True
        self._filled.set()
        self._thread.join(seconds)
        self._over = True
        self._exporter.shutdown()  # ends what is still being sent
        self._dropped += len(self._waiting)
        self._tell_dropped()

    def _run(self) -> None:
        while not self._ending:
            self._filled.wait(_SECONDS)
            self._filled.clear()
            self._send_waiting()
        self._send_waiting()

    def _send_waiting(self) -> None:
        while self._waiting and not self._over:
            count = min(len(self._waiting), MOST_TOGETHER)
            self._send([self._waiting.popleft() for _ in range(count)])
            if self._failures and not self._ending:
                break  # no faster than it is filled
        self._tell_dropped()

    def _send(self, spans: list[ReadableSpan]) -> None:
        try:
            sent = self._exporter.export(spans) is SpanExportResult.SUCCESS
            why = "the collector did not take them"
        except Exception as error:  # noqa: BLE001 - whatever it is, it concerns these spans alone
            sent, why = False, type(error).__name__
        self._told(SpanResult.EXPORTED if sent else SpanResult.FAILED, len(spans))
        if not sent:
            self._failures += 1
            if self._failures.bit_count() == 1:  # the first, second, fourth, eighth ...
                log.warning("spans cannot be sent", spans=len(spans), why=why, times=self._failures)
        elif self._failures:
            log.info("spans are sent again", after_failures=self._failures)
            self._failures = 0

    def _tell_dropped(self) -> None:
        dropped, self._dropped = self._dropped, 0
        if dropped:
            self._told(SpanResult.DROPPED, dropped)
