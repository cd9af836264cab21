"""The script `gnomon`, and `python -m gnomon`."""

import sys


def main() -> None:
    """Run one command. An old Python gets one line: it could not import the rest."""
    if sys.version_info < (3, 11):  # noqa: UP036 - a tree can be run with any Python
        this = ".".join(map(str, sys.version_info[:3]))
        sys.exit(f"gnomon: Gnomon needs Python 3.11 or newer; this is {this} ({sys.executable})")
    from gnomon.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
