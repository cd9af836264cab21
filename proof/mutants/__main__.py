"""Changes the code a little, many times, and sees which changes no test notices.

    make mutants ARGS="--seed 1 --only cron --most 50"
    make mutants ARGS=--planted

Only copies are changed. A survivor is a change that the tests chosen for its file let pass: some
change nothing that anybody could see, the others show where a test is missing.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from proof.mutants.plan import PURE, Mutant, Project, chosen, count
from proof.mutants.planted import Withered, planted
from proof.mutants.report import Progress, summary, write_json
from proof.mutants.trial import CannotJudge, Fate, Judge, preload

_PURE_MOST, _OTHER_MOST = 80, 200


def main(arguments: Sequence[str] | None = None, root: Path | None = None) -> int:
    options = _options(arguments)
    project = Project(Path.cwd() if root is None else root)
    try:
        mutants = _mutants(project, options)
        if not mutants:
            print("there is nothing to change in these files", file=sys.stderr)
            return 2
        preload()
        judge = Judge(project, options.jobs, options.minutes * 60)
        interrupted = _judged(judge, mutants)
    except (CannotJudge, Withered) as error:
        print(error, file=sys.stderr)
        return 2
    verdicts = judge.verdicts
    print(summary(verdicts, options.seed, len(mutants), judge.left_out))
    if options.json is not None:
        write_json(options.json, verdicts, options.seed, len(mutants))
    if interrupted:
        return 130
    survived = any(verdict.fate is Fate.SURVIVED for verdict in verdicts)
    return 1 if options.planted and (survived or len(verdicts) < len(mutants)) else 0


def _judged(judge: Judge, mutants: Sequence[Mutant]) -> bool:
    """Whether somebody interrupted it."""
    try:
        judge.judge(mutants, Progress(len(mutants)).tell)
    except KeyboardInterrupt:
        return True
    return False


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="which of them are chosen")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATH",
        help="below src/gnomon: cron, node/dispatch/permits.py; with --planted: a bug's name",
    )
    parser.add_argument("--most", type=int, help="mutants, at most")
    parser.add_argument("--minutes", type=float, default=60.0, help="after which no more begin")
    parser.add_argument("--jobs", type=int, default=2, help="tried at once")
    parser.add_argument("--json", type=Path, metavar="FILE", help="written for scripts")
    parser.add_argument("--planted", action="store_true", help="bugs that were planted by hand")
    return parser.parse_args(arguments)


def _mutants(project: Project, options: argparse.Namespace) -> list[Mutant]:
    if options.planted:
        return planted(project, options.only)
    only = options.only
    if only:
        print(f"{count(project, only)} changes can be made there")
        return chosen(project, only, options.most or _OTHER_MOST, options.seed)
    rooms = sorted({path.split("/")[0] for path in project.files()} - set(PURE))
    found: list[Mutant] = []
    for room in PURE:
        found += chosen(project, [f"{room}/"], options.most or _PURE_MOST, options.seed)
    return found + chosen(project, rooms, options.most or _OTHER_MOST, options.seed)


if __name__ == "__main__":
    sys.exit(main())
