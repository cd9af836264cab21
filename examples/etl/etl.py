"""A nightly ETL: list the files of a day, load each of them, publish the sum.

gnomon up --app etl:app
gnomon workflows start etl day=2026-11-17 --watch
gnomon cron add nightly --cron '0 3 * * *' --timezone Europe/Vienna --workflow etl \\
  --payload '{"day": "{{fire_time | Europe/Vienna | %Y-%m-%d}}"}'
"""

from dataclasses import dataclass

from gnomon import Gnomon, for_each

app = Gnomon()

# What stands for a store of files, and for a warehouse.
FILES = {
    f"sales/{day}/{shop}.csv": [f"{shop},{number},{number * 199}" for number in range(1, count)]
    for day in ("2026-11-16", "2026-11-17")
    for shop, count in (("graz", 40), ("linz", 25), ("wels", 60), ("enns", 5))
}
warehouse: dict[tuple[str, str], int] = {}
published: dict[str, str] = {}


@dataclass
class Loaded:
    file: str
    rows: int
    cents: int


@app.task(retries=5)
async def find(day: str) -> list[str]:
    return sorted(file for file in FILES if file.startswith(f"sales/{day}/"))


@app.task(retries=5, queue="warehouse")
async def load(file: str) -> Loaded:
    lines = [line.split(",") for line in FILES[file]]
    for shop, number, cents in lines:
        warehouse[f"{file}:{shop}", number] = int(cents)  # once more is the same
    return Loaded(file, len(lines), sum(int(cents) for _, _, cents in lines))


@app.task
async def publish(day: str, loaded: list[Loaded]) -> str:
    rows, cents = sum(each.rows for each in loaded), sum(each.cents for each in loaded)
    published[day] = f"{rows} rows of {len(loaded)} files, {cents / 100:.2f} EUR"
    return published[day]


@app.workflow(deadline="6h")
def etl(day: str) -> str:
    files = find.step(day)
    loaded = for_each(files.output, load.step)
    return publish.step(day, loaded.output).output
