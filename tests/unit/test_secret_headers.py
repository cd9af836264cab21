"""What is secret is not shown, and comes back where it belongs and nowhere else."""

import pytest

from gnomon.model.errors import InvalidTask
from gnomon.model.secret_headers import MASK, is_secret, masked, unmasked
from gnomon.model.target import HttpTarget, PythonTarget

URL = "https://example.com/hook"
STORED = HttpTarget(URL, headers={"Authorization": "Bearer x", "X-Team": "blue"})


@pytest.mark.parametrize(
    "name", ["Authorization", "COOKIE", "x-api-key", "X-Hub-Secret", "my-token-2", "secret"]
)
def test_secret_names(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["content-type", "x-team", "accept", "x-key"])
def test_other_names(name: str) -> None:
    assert not is_secret(name)


def test_a_secret_is_masked_and_the_rest_is_shown() -> None:
    assert masked(STORED) == HttpTarget(URL, headers={"Authorization": MASK, "X-Team": "blue"})
    plain = HttpTarget(URL, headers={"X-Team": "blue"})
    assert masked(plain) is plain
    assert masked(PythonTarget("f")) == PythonTarget("f")


def test_a_mask_that_comes_back_keeps_the_secret() -> None:
    assert unmasked(masked(STORED), STORED) == STORED
    moved = HttpTarget("https://example.com/other", headers={"authorization": MASK, "A": "1"})
    assert unmasked(moved, STORED) == HttpTarget(
        moved.url, headers={"authorization": "Bearer x", "A": "1"}
    )
    new = HttpTarget(URL, headers={"Authorization": "Bearer y"})
    assert unmasked(new, STORED) is new


@pytest.mark.parametrize(
    "url", ["https://evil.example/hook", "http://example.com/hook", "https://example.com:444/"]
)
def test_a_secret_goes_to_no_other_host(url: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        unmasked(HttpTarget(url, headers={"Authorization": MASK}), STORED)
    assert refused.value.pointer == "/target/headers/Authorization"


@pytest.mark.parametrize("stored", [None, PythonTarget("f"), HttpTarget(URL)])
def test_a_mask_with_nothing_behind_it_is_refused(stored: HttpTarget | None) -> None:
    with pytest.raises(InvalidTask):
        unmasked(HttpTarget(URL, headers={"Authorization": MASK}), stored)
    harmless = HttpTarget(URL, headers={"X-Team": MASK})
    assert unmasked(harmless, stored) is harmless
