"""Contract suites of the ports: what every pipe and every store must pass."""
