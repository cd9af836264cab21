"""What a process answers to a scrape."""

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


class Samples:
    """Samples of one scrape."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.all: list[Sample] = [
            sample for family in text_string_to_metric_families(text) for sample in family.samples
        ]

    def of(self, name: str, **labels: str) -> float:
        """The sum over all samples of a name that have these labels; 0 where there are none."""
        return sum(
            sample.value
            for sample in self.all
            if sample.name == name and sample.labels.items() >= labels.items()
        )

    def names(self) -> set[str]:
        return {sample.name for sample in self.all}


async def samples_at(port: int, path: str = "/metrics") -> Samples:
    url = f"http://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        return Samples(await answer.text())
