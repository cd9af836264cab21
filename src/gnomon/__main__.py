"""`python -m gnomon`."""

from gnomon.cli.main import main

main()
