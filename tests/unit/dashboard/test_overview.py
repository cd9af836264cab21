import pytest

from gnomon.dashboard.pages.overview import delay
from gnomon.dashboard.text.words import rate
from gnomon.model.insight.activity import DELAY_BOUNDS, DELAYS, percentile


@pytest.mark.parametrize(
    ("bucket", "text"), [(0, "1 ms"), (len(DELAY_BOUNDS) - 1, ">5 min"), (DELAYS - 1, ">5 min")]
)
def test_a_delay_beyond_what_is_measured_is_told_so(bucket: int, text: str) -> None:
    counted = [1 if place == bucket else 0 for place in range(DELAYS)]
    assert delay(percentile(counted, 1.0)) == text


@pytest.mark.parametrize(
    ("per_second", "text"),
    [(0, "0\u202f/s"), (0.0057, "<0.01\u202f/s"), (0.25, "0.25\u202f/s"), (123.4, "123\u202f/s")],
)
def test_a_rate_is_short(per_second: float, text: str) -> None:
    assert rate(per_second) == text
