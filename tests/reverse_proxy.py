"""nginx in front of the API, as it stands in front of most."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.waiting import eventually_sync

MISSING = "nginx is not installed (Debian: apt-get install nginx-light)"

_CONFIG = """
worker_processes 1;
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream gnomon {{
    server {upstream};
    keepalive 16;
  }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://gnomon;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_set_header {header};
    }}
  }}
}}
"""
X_FORWARDED_FOR = "X-Forwarded-For $proxy_add_x_forwarded_for"  # what it was sent, and the peer
FORWARDED = 'Forwarded "$http_forwarded, for=\\"$remote_addr\\""'


def program() -> str | None:
    """Debian keeps it where only root's PATH leads."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


def require() -> None:
    """Skip where nginx is missing; in CI that is a failure."""
    if program() is None:
        if os.environ.get("CI") == "true":
            pytest.fail(MISSING)
        pytest.skip(MISSING)


@contextmanager
def proxied(upstream: str, header: str, folder: Path, port: int = 0) -> Iterator[str]:
    """The URL of an nginx that passes on to `upstream` (host and port), and sets that header."""
    require()
    with socket.create_server(("127.0.0.1", port)) as free:
        port = free.getsockname()[1]
    config = folder / "nginx.conf"
    config.write_text(_CONFIG.format(folder=folder, upstream=upstream, port=port, header=header))
    with (folder / "output.log").open("ab") as output:
        process = subprocess.Popen(
            [str(program()), "-p", str(folder), "-c", str(config), "-e", str(folder / "error.log")],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )

    def listens() -> bool:
        assert process.poll() is None, (folder / "error.log").read_text()
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            return False
        return True

    try:
        eventually_sync(listens)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
