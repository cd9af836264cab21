"""`python -m proof.cron_oracle.fuzz`: see docs/proof/cron.md."""

import argparse
import sys
import time

from proof.cron_oracle.compare import Tally, compare
from proof.cron_oracle.generator import GROUP, group

MOST_FAILURES = 20


def run(seed: str, first: int, triples: int, show: bool = False, with_peers: bool = True) -> Tally:
    """Groups `seed:first` and following, until there are so many triples."""
    tally, number, began = Tally(), first, time.monotonic()
    while tally.triples.total() < triples and len(tally.failures) < MOST_FAILURES:
        tally.add(compare(group(f"{seed}:{number}"), with_peers))
        number += 1
        if show:
            done, spent = tally.triples.total(), time.monotonic() - began
            print(
                f"\r{done:,} of {triples:,} triples, {spent:.0f} s,"
                f" {(triples - done) * spent / done:.0f} s to go, {len(tally.failures)} failed  ",
                end="",
                flush=True,
            )
    if show:
        print("\r" + " " * 78 + "\r", end="")
    return tally


def report(tally: Tally, seconds: float) -> str:
    total = tally.triples.total()
    kinds = ", ".join(f"{count:,} by {kind}" for kind, count in tally.triples.most_common())
    lines = [
        f"{total:,} triples in {seconds:.0f} s: {kinds}",
        f"{tally.near:,} start within 36 hours of a transition",
        f"{tally.fires:,} fires, found forwards and backwards",
        f"{tally.refused:,} expressions that can never fire, refused",
    ]
    lines += [
        f"{peer}: {agreed:,} answers agree, {tally.unclaimed[peer]:,} not asked"
        for peer, agreed in sorted(tally.agreed.items())
    ]
    lines += ["known disagreements:"]
    lines += [f"  {count:>7,}  {name}" for name, count in sorted(tally.known.items())]
    lines += [f"{len(tally.failures)} disagreements without a name"]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--triples", type=int, default=200_000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", metavar="SEED:NUMBER", help="one group again, as a failure says")
    parser.add_argument("--no-peers", action="store_true", help="the oracle only")
    options = parser.parse_args()
    began = time.monotonic()
    if options.only:
        seed, number = options.only.rsplit(":", 1)
        tally = run(seed, int(number), GROUP, with_peers=not options.no_peers)
    else:
        tally = run(
            options.seed, 0, options.triples, sys.stdout.isatty(), with_peers=not options.no_peers
        )
    for failure in tally.failures:
        print(failure, end="\n\n")
    print(report(tally, time.monotonic() - began))
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
