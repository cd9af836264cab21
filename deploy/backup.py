"""Back up the embedded PostgreSQL of a running Gnomon: `python deploy/backup.py gnomon.dump`.

`deploy/restore.py` makes a data directory out of the dump.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from gnomon.store.embedded import running_dsn
from gnomon.store.embedded.binaries import installed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="the dump to write; an existing one is refused")
    parser.add_argument("--data-dir", type=Path, default=Path(".gnomon"))
    chosen = parser.parse_args()
    if chosen.file.exists():
        sys.exit(f"{chosen.file} exists: choose another name")
    dsn = running_dsn(chosen.data_dir)
    if dsn is None:
        sys.exit(
            f"no server runs in {chosen.data_dir}: start Gnomon, or copy the directory as it is"
        )
    os.umask(0o077)  # the dump holds webhook secrets
    partial = chosen.file.with_name(chosen.file.name + ".partial")
    program = str(installed().root / "bin" / "pg_dump")
    done = subprocess.run([program, "--format=custom", f"--file={partial}", dsn], check=False)
    if done.returncode:
        partial.unlink(missing_ok=True)
        sys.exit("pg_dump failed: there is no backup")
    partial.rename(chosen.file)


if __name__ == "__main__":
    main()
