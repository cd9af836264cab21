"""What is secret is not shown, and comes back where it belongs and nowhere else."""

import pytest

from gnomon.model.errors import InvalidTask
from gnomon.model.targets.target import HttpTarget, PythonTarget
from gnomon.model.targets.target_secrets import MASK, is_secret_header, is_secret_parameter

URL = "https://example.com/hook"
STORED = HttpTarget(URL, headers={"Authorization": "Bearer x", "Accept": "x/y"})


@pytest.mark.parametrize(
    "name", ["Authorization", "COOKIE", "x-api-key", "X-Hub-Secret", "my-token-2", "x-team", "dd"]
)
def test_any_header_may_be_secret(name: str) -> None:
    assert is_secret_header(name)


@pytest.mark.parametrize("name", ["Content-Type", "accept", "X-Request-Id", "traceparent"])
def test_headers_that_are_known_to_be_harmless(name: str) -> None:
    assert not is_secret_header(name)


@pytest.mark.parametrize(
    "name",
    ["key", "api_key", "apiKey", "access_token", "sig", "X-Amz-Signature", "code", "password",
     "X-Amz-Credential", "X-Amz-Security-Token", "auth", "client_secret", "jwt"],
)  # fmt: skip
def test_secret_parameters(name: str) -> None:
    assert is_secret_parameter(name)


@pytest.mark.parametrize("name", ["page", "id", "expires", "keyword", "X-Amz-Date", "codec"])
def test_other_parameters(name: str) -> None:
    assert not is_secret_parameter(name)


def test_a_secret_is_masked_and_the_rest_is_shown() -> None:
    assert STORED.masked() == HttpTarget(URL, headers={"Authorization": MASK, "Accept": "x/y"})
    plain = HttpTarget(URL, headers={"Accept": "x/y"})
    assert plain.masked() is plain
    assert PythonTarget("f").masked() == PythonTarget("f")


def test_a_mask_that_comes_back_keeps_the_secret() -> None:
    assert STORED.masked().unmasked(STORED) == STORED
    moved = HttpTarget("https://example.com/other", headers={"authorization": MASK, "Date": "1"})
    assert moved.unmasked(STORED) == HttpTarget(
        moved.url, headers={"authorization": "Bearer x", "Date": "1"}
    )
    new = HttpTarget(URL, headers={"Authorization": "Bearer y"})
    assert new.unmasked(STORED) is new


@pytest.mark.parametrize(
    "url", ["https://evil.example/hook", "http://example.com/hook", "https://example.com:444/"]
)
def test_a_secret_goes_to_no_other_host(url: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        HttpTarget(url, headers={"Authorization": MASK}).unmasked(STORED)
    assert refused.value.pointer == "/target/headers/Authorization"


@pytest.mark.parametrize("stored", [None, PythonTarget("f"), HttpTarget(URL)])
def test_a_mask_with_nothing_behind_it_is_refused(stored: HttpTarget | None) -> None:
    with pytest.raises(InvalidTask):
        HttpTarget(URL, headers={"Authorization": MASK}).unmasked(stored)
    harmless = HttpTarget(URL, headers={"Accept": MASK})
    assert harmless.unmasked(stored) is harmless


HOOK = HttpTarget("https://example.com/h?id=7&token=abc&sig=a%2Bb%3D&sig=c&token=#token=x")
HIDDEN = HttpTarget("https://example.com/h?id=7&token=***&sig=***&sig=***&token=#token=x")


def test_secrets_in_a_query_are_masked_and_come_back() -> None:
    assert HOOK.masked() == HIDDEN
    assert HIDDEN.unmasked(HOOK) == HOOK
    changed = HttpTarget("https://example.com/other?token=***&id=8")
    assert changed.unmasked(HOOK).url == "https://example.com/other?token=abc&id=8"


@pytest.mark.parametrize(
    ("url", "stored"),
    [
        ("https://evil.example/h?token=***", HOOK),
        ("https://example.com/h?api_key=***", HOOK),
        ("https://example.com/h?sig=***&sig=***&sig=***", HOOK),
        ("https://example.com/h?token=***", None),
    ],
)
def test_a_mask_in_a_query_with_nothing_behind_it_is_refused(
    url: str, stored: HttpTarget | None
) -> None:
    with pytest.raises(InvalidTask) as refused:
        HttpTarget(url).unmasked(stored)
    assert refused.value.pointer == "/target/url"
