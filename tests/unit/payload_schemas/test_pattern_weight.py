"""What patterns weigh: what keeps a schema's regular expressions from stalling everybody."""

import pytest

from gnomon.payload_schemas.pattern_weight import Weight, size_of, weigh

TOO_LARGE = 1_000_000


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("", 0),
        ("abc", 3),
        ("a*b+c?", 3),
        ("[ab]", 3),
        (r"\p{Greek}", 3),
        ("a{5}", 5),
        ("a{2,5}", 6),
        ("a{3,}", 4),
        ("a{2}{3}", 6),
        ("[ab]{4}", 12),
        ("(ab){3}", 9),
        ("(?:ab)(cd)", 6),
        ("((a{10}){10}){10}", 1110),
        ("a{1000}{1000}{1000}", TOO_LARGE),
        ("(?x) a", TOO_LARGE),
        ("(?ix: a )", TOO_LARGE),
        (")(", 1),
    ],
)
def test_repetitions_are_written_out(pattern: str, size: int) -> None:
    assert size_of(pattern) == size


@pytest.mark.parametrize(
    ("pattern", "weight"),
    [
        ("^abc$", Weight(1, 0)),  # straight: it knows where it is
        ("^" + "a" * 79, Weight(11, 0)),
        ("^a*$", Weight(1, 1)),  # and may go on at its end
        ("^a{2,3}", Weight(1, 1)),
        ("^" + "a" * 30 + "b*", Weight(5, 1)),
        ("^" + "a" * 600, Weight(1, 601)),  # too long for that
        ("^" + "a" * 30 + "b*c", Weight(1, 33)),  # may be at several places
        ("^" + "a" * 30 + "|b", Weight(1, 33)),
        ("a" * 24, Weight(1, 1)),
        ("a" * 25, Weight(1, 25)),
        ("[ab]*a[ab]{100}c", Weight(1, 305)),
        ("^", Weight(1, 1)),
    ],
)
def test_only_small_and_straight_patterns_are_light(pattern: str, weight: Weight) -> None:
    assert weigh(pattern) == weight
