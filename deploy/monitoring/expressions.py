"""Expressions that several panels share."""

from deploy.monitoring.panels import WINDOW


def rate(counter: str, *by: str) -> str:
    """How often, in a second."""
    return f"sum{_by(by)}(rate({counter}[{WINDOW}]))"


def quantile(share: float, histogram: str, *by: str) -> str:
    labels = ", ".join(("le", *by))
    return f"histogram_quantile({share}, sum by ({labels}) (rate({histogram}_bucket[{WINDOW}])))"


def quantiles(histogram: str) -> dict[str, str]:
    return {
        "p50": quantile(0.5, histogram),
        "p95": quantile(0.95, histogram),
        "p99": quantile(0.99, histogram),
    }


def mean(histogram: str) -> str:
    return f"{rate(f'{histogram}_sum')} / {rate(f'{histogram}_count')}"


def _by(labels: tuple[str, ...]) -> str:
    return f" by ({', '.join(labels)}) " if labels else ""
