"""Answers to readers with the same rights, made once for all who ask within a moment."""

from litestar.response.base import ASGIResponse

from gnomon.clock import Clock
from gnomon.usecases.live.shared_reads import SharedReads

FRESH_SECONDS = 1.0
MOST_BYTES = 512 * 1024  # of an answer that is kept


class SharedAnswers(SharedReads[ASGIResponse]):
    """Answers by a key that says everything they depend on."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, FRESH_SECONDS)

    def is_worth_keeping(self, found: ASGIResponse) -> bool:
        return len(found.body) <= MOST_BYTES and found.status_code == 200
