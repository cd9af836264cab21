"""The judge of the storm finds what is lost, told too often, or told twice."""

from dataclasses import replace

from proof.storm.scenario import Seen, Size, Told, judge

SIZE = Size(dead=100, seconds=10.0, digest=10.0, resolve=20.0)
TOLD = [
    Told("a", "new", 40, 40),
    Told("b", "ongoing", 60, 100),
    Told("c", "resolved", 0, 100),
]
GOOD = Seen(dead=100, stormed=10.0, refused=3, webhook=TOLD, mail=TOLD)


def test_a_storm_that_is_told_as_it_should_be_is_good() -> None:
    assert judge(GOOD, SIZE) == []
    late = [TOLD[0], TOLD[2], TOLD[1]]  # retried, so it came after the end
    assert judge(replace(GOOD, webhook=late), SIZE) == []


def test_what_is_wrong_is_said() -> None:
    many = [*TOLD, *(Told(f"d{n}", "ongoing", 0, 100) for n in range(10))]
    for seen, words in (
        (replace(GOOD, dead=99), "99 of 100"),
        (replace(GOOD, refused=0), "never down"),
        (replace(GOOD, mail=TOLD[1:]), "e-mail: not one beginning"),
        (replace(GOOD, webhook=TOLD[:2]), "webhook: not one beginning"),
        (replace(GOOD, mail=[TOLD[0], TOLD[2]]), "it counts 40 of 100"),
        (replace(GOOD, webhook=[*TOLD, TOLD[1]]), "accepted twice"),
        (replace(GOOD, webhook=many), "13 notifications"),
    ):
        assert any(words in each for each in judge(seen, SIZE)), words
