"""Jitter: what is due at one moment, spread over the time after it."""

import hashlib
from datetime import timedelta


def jitter_of(what: str, most_seconds: float) -> timedelta:
    """Up to so many seconds, in whole milliseconds: always the same for the same thing."""
    milliseconds = round(most_seconds * 1000)
    if milliseconds <= 0:
        return timedelta(0)
    number = int.from_bytes(hashlib.blake2b(what.encode(), digest_size=8).digest(), "big")
    return timedelta(milliseconds=number % milliseconds)
