"""The share of one process of a crawl. It tells how far it is."""

import time
import warnings

from proof.crawl.world import Report, crawled

_TOLD_EVERY = 10.0  # seconds


def crawled_share(url: str, dsn: str, cases: int, seed: int) -> Report:
    # What schemathesis and hypothesis deprecate among themselves is not ours to mend.
    warnings.simplefilter("ignore", DeprecationWarning)
    began = told = time.monotonic()

    def tell(done: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told > _TOLD_EVERY:
            told = now
            rate = done / (now - began)
            print(f"seed {seed}: {done} of {cases} cases, {rate:.0f} a second", flush=True)

    return crawled(url, dsn, cases, seed, tell)
