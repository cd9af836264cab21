"""`manage.py gnomon_worker`: runs the handlers of this site."""

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, handle_default_options

SITE = "gnomon.integrations.django.site:app"


class Command(BaseCommand):  # type: ignore[misc] # Django has no types
    """Runs `gnomon worker` for the app that GNOMON_APP names, with the options of that command."""

    help = "Run the tasks of the app that GNOMON_APP names. Takes what `gnomon worker` takes."

    def run_from_argv(self, argv: list[str]) -> None:
        parser = self.create_parser(argv[0], argv[1])
        options, others = parser.parse_known_args(argv[2:])
        handle_default_options(options)
        _work(others)

    def handle(self, *_: Any, **__: Any) -> None:
        _work([])


def _work(options: list[str]) -> None:
    # Processes that the worker starts find the site where manage.py does.
    here = [sys.path[0], *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(here)
    # Here and not above: the command is listed where the server is not installed, too.
    from gnomon.cli.main import main

    main(["worker", SITE, *options])
