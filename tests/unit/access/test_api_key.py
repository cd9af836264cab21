"""Keys: what is made is recognised, and what is not made is not."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.access.api_key import (
    ALPHABET,
    HINT_CHARACTERS,
    KEY_CHARACTERS,
    RANDOM_BYTES,
    hash_of,
    hint_of,
    is_key,
    key_from,
)
from gnomon.clock import new_secret

chances = st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES)


@given(chances)
def test_what_is_made_is_recognised(chance: bytes) -> None:
    key = key_from(chance)
    assert re.fullmatch(r"gn_[0-9A-Za-z]{38}", key)
    assert len(key) == KEY_CHARACTERS
    assert is_key(key)
    assert key.startswith(hint_of(key))
    assert len(hint_of(key)) == HINT_CHARACTERS


def test_keys_that_were_made_long_ago_are_recognised() -> None:
    """Their holders have them: what a key looks like, and how it is kept, can never change."""
    key = "gn_jlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf11dX5w"
    assert key_from(bytes(range(32))) == key
    assert is_key(key)
    assert hash_of(key).hex().startswith("7d1eeed870db1a72fab7a1ef729dff7b")
    assert is_key(key_from(b"\xff" * 32))


@given(chances, st.integers(3, KEY_CHARACTERS - 1), st.sampled_from(ALPHABET))
def test_one_wrong_character_is_noticed(chance: bytes, place: int, other: str) -> None:
    key = key_from(chance)
    changed = key[:place] + other + key[place + 1 :]
    assert is_key(changed) == (changed == key)


@given(chances, st.integers(0, KEY_CHARACTERS - 1))
def test_a_key_that_was_cut_off_is_noticed(chance: bytes, length: int) -> None:
    assert not is_key(key_from(chance)[:length])


@given(st.text())
def test_what_was_never_made_is_no_key(text: str) -> None:
    assert not is_key(text)


@given(chances, chances)
def test_different_chance_makes_different_keys_with_different_hashes(
    one: bytes, two: bytes
) -> None:
    keys = {key_from(one), key_from(two)}
    assert len(keys) == len({hash_of(key) for key in keys})
    assert all(len(hash_of(key)) == 32 for key in keys)


@pytest.mark.parametrize("text", ["", "gn_", "gn_" + "0" * 38, "Gn_" + "0" * 38, "gn_" + "é" * 38])
def test_lookalikes(text: str) -> None:
    assert not is_key(text)


def test_real_chance_does_not_repeat() -> None:
    assert len({key_from(new_secret(RANDOM_BYTES)) for _ in range(1000)}) == 1000
