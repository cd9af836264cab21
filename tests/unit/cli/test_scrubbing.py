"""Secrets are taken out of a bundle once more, by their values and by their looks."""

import pytest

from gnomon.access.api_key import RANDOM_BYTES, key_from
from gnomon.cli.admin.scrubbing import parts_of, scrubbed


@pytest.mark.parametrize(
    "secret",
    [
        key_from(b"\x07" * RANDOM_BYTES),
        "whsec_Y2FuYXJ5LXNlY3JldA==",
        "whsk_Y2FuYXJ5",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmVk",
        "Bearer abcdefgh12345678",
        "postgresql://user:hunter22@host/db",
    ],
)
def test_what_looks_like_a_secret_is_taken_out(secret: str) -> None:
    found = scrubbed(f'before "{secret}" after', [])
    assert secret not in found
    assert "hunter22" not in found
    assert found.startswith('before "')
    assert found.endswith('" after')


def test_values_are_taken_out_and_so_is_the_password_of_an_address() -> None:
    parts = parts_of("postgresql://user:p%40ss-word@host/db")
    text = "password is p@ss-word or p%40ss-word"
    assert "ss-word" not in scrubbed(text, parts)
    assert parts_of("abc") == []
