"""Make a data directory from a dump: `python deploy/restore.py gnomon.dump --data-dir .gnomon`.

The directory appears under its name only when it is complete. Start Gnomon on it afterwards.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from gnomon.store.embedded import EmbeddedServer
from gnomon.store.embedded.binaries import installed

# A dump has no statistics. Those of the server's own tables are not ours to make.
ANALYZE = "SET client_min_messages = error; ANALYZE"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="a dump that deploy/backup.py wrote")
    parser.add_argument("--data-dir", type=Path, default=Path(".gnomon"))
    chosen = parser.parse_args()
    partial = chosen.data_dir.with_name(chosen.data_dir.name + ".partial")
    for folder in (chosen.data_dir, partial):
        if folder.exists():
            sys.exit(f"{folder} exists: move it away first")
    if not chosen.file.is_file():
        sys.exit(f"there is no file {chosen.file}")
    bin_folder = installed().root / "bin"
    with EmbeddedServer(partial) as server:
        psql = [str(bin_folder / "psql"), "--quiet", "--no-psqlrc", server.dsn, "--command"]
        restore = [
            str(bin_folder / "pg_restore"),
            "--exit-on-error",
            "--single-transaction",
            f"--dbname={server.dsn}",
            str(chosen.file),
        ]
        steps = (restore, [*psql, ANALYZE])
        failed = any(subprocess.run(step, check=False).returncode for step in steps)
    if failed:
        sys.exit(f"nothing was restored; remove {partial} before you try again")
    partial.rename(chosen.data_dir)


if __name__ == "__main__":
    main()
