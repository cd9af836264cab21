"""Stacks become boxes as wide as their share; what is hardly seen is left out."""

import re

from bench.flame import picture, read

_BEGIN = "main (/x/gnomon/__main__.py:3);_run_on (/x/gnomon/loop.py:5);run (asyncio/runners.py:118)"
STACKS = [
    f"{_BEGIN};serve (/x/src/gnomon/loop.py:9);claim (/x/src/gnomon/node/claims.py:1) 600",
    f"{_BEGIN};serve (/x/src/gnomon/loop.py:12) 398",
    f"{_BEGIN};rare (/y/site-packages/asyncpg/<b>.py:1) 2",
    "bootstrap (threading.py:5);run (asyncio/runners.py:118) 5000",
]


def test_frames_are_as_wide_as_their_share() -> None:
    drawn = picture(read(STACKS))
    shares = dict(re.findall(r"<g><title>(.+?): (.+?)</title>", drawn))
    assert shares == {
        "node": "100.0%",
        "run (asyncio/runners.py)": "100.0%",
        "serve (gnomon/loop.py)": "99.8%",
        "claim (gnomon/node/claims.py)": "60.0%",
    }
    assert 'width="600.0"' in drawn


def test_nothing_sampled_is_no_picture() -> None:
    assert read([]).count == 0
