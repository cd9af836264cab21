"""`make monitoring`: write the rules of Prometheus and the dashboards of Grafana."""

import argparse
from pathlib import Path

from deploy.monitoring import dashboards, rules

DEPLOY = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m deploy.monitoring", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=DEPLOY, help="where prometheus/ and grafana/ are"
    )
    parser.add_argument("--runbooks", default=rules.RUNBOOKS, help="URL of the pages of the alerts")
    parser.add_argument(
        "--time-scale", type=float, default=1, help="divide all windows by this, for tests"
    )
    asked = parser.parse_args()
    write(asked.out / "prometheus", rules.files(asked.time_scale, asked.runbooks))
    write(asked.out / "grafana", dashboards.files())


def write(folder: Path, made: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main()
