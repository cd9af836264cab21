"""The extras of the package: which of them brings a module that is not installed.

A program that only submits installs the base. What it does not need is imported where it is used,
so that whoever lacks it learns what to install.
"""

SERVER = "pip install 'gnomon[server]'"
EMBEDDED = "pip install 'gnomon[server,embedded]'"
WORKER = "pip install 'gnomon[worker]'"
TRACING = "pip install 'gnomon[server,tracing]'"

# Top-level modules of the extra `server`; a test compares them with pyproject.toml.
SERVER_MODULES = frozenset(
    {
        "aiohappyeyeballs",
        "aiohttp",
        "aiosmtplib",
        "asyncpg",
        "cryptography",
        "granian",
        "httptools",
        "jinja2",
        "jsonschema_rs",
        "jwt",
        "litestar",
        "prometheus_client",
        "structlog",
        "uvloop",
        "yarl",
    }
)

# Those of them that a worker without a database needs.
WORKER_MODULES = frozenset({"prometheus_client", "structlog", "uvloop"})


def advice(missing: ModuleNotFoundError) -> str | None:
    """What to install. None where no extra brings the module."""
    module = (missing.name or "").partition(".")[0]
    if module not in SERVER_MODULES:
        return None
    others = f"with a PostgreSQL: {EMBEDDED}"
    if module in WORKER_MODULES:
        others += f"; for `gnomon worker --url`: {WORKER}"
    return f"{module} is not installed, and this needs it: {SERVER} ({others})"
