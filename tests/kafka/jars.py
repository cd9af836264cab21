"""Resolves the jars of Kafka with Maven, from the registry that this machine is set up for, and
writes down their class path: `python -m tests.kafka.jars`."""

import hashlib
import shutil
import subprocess
from pathlib import Path

POM = Path(__file__).with_name("pom.xml")
_VERSION = hashlib.sha256(POM.read_bytes()).hexdigest()[:8]
CLASS_PATH = POM.parents[2] / "build" / f"kafka-{_VERSION}.class-path"
_SECONDS = 300


def missing() -> str | None:
    """Why no Kafka can be started here, if none can."""
    if shutil.which("java") is None:
        return "no Java is installed (Debian: apt-get install default-jre-headless maven)"
    if not CLASS_PATH.exists():
        return "the jars of Kafka are not there (python -m tests.kafka.jars; it needs Maven)"
    return None


def resolve() -> None:
    CLASS_PATH.parent.mkdir(exist_ok=True)
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
    found = CLASS_PATH.with_suffix(".new")
    subprocess.run(
        ["mvn", "--quiet", "--batch-mode", "--file", POM, goal, f"-Dmdep.outputFile={found}"],
        check=True,
        timeout=_SECONDS,
    )
    found.replace(CLASS_PATH)


if __name__ == "__main__":
    resolve()
