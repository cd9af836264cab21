"""What a campaign takes from the machine it runs on, and what to do where it is missing."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Missing(Exception):
    """This machine has no such tool."""


class NotPermitted(Missing):
    """It has, and does not let us use it, which nothing in this repository can change."""


def faketime(seconds: float) -> dict[str, str]:
    """The environment in which a process takes the time to be so much later. Its monotonic clock
    stays right, as it does on a machine whose wall clock is wrong."""
    if not seconds:
        return {}
    return {
        "LD_PRELOAD": str(_library()),
        "FAKETIME": f"{seconds:+g}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",  # what older ones call it
    }


def _library() -> Path:
    # The one for programs with threads, as a node is.
    for found in sorted(Path("/usr/lib").glob("**/libfaketimeMT.so.1")):
        return found
    raise Missing("libfaketime is not installed (apt-get install faketime)")


@contextmanager
def or_skip() -> Iterator[None]:
    """Around a test: without the tool there is nothing to test on a laptop, but CI installs it."""
    import pytest

    try:
        yield
    except Missing as error:
        if os.environ.get("CI") == "true" and not isinstance(error, NotPermitted):
            pytest.fail(str(error))
        pytest.skip(str(error))
