"""What must hold in every run, on the model; `make workflows` plays ten thousand."""

import random

from proof.workflows.alone import play_alone


def test_what_must_hold_holds_in_random_runs() -> None:
    assert sum(play_alone(random.Random(seed)) for seed in range(200)) > 2000
