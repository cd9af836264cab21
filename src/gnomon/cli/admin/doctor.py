"""`gnomon doctor`: checks of the installation, with a remedy for each that fails."""

import typer

from gnomon import loop
from gnomon.cli.admin.checks.check import Check
from gnomon.cli.shared import output
from gnomon.cli.shared.options import ApiUrl, AsJson, settings_file


def doctor(ctx: typer.Context, as_json: AsJson = False, api: ApiUrl = None) -> None:
    """Check this installation. Exit code 1 when anything fails.

    \b
    gnomon doctor
    gnomon doctor --json
    """
    # Here and not above: few commands need it.
    from gnomon.cli.admin.checks.examine import examine

    checks = loop.run(examine(settings_file(ctx), api))
    if as_json:
        output.document({"ok": all(check.ok for check in checks), "checks": checks})
    else:
        for check in checks:
            _print(check)
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


def _print(check: Check) -> None:
    mark, style = ("✓", "green") if check.ok else ("✗", "red")
    output.marked(mark, f"{check.name}: {check.detail}", style)
    if not check.ok and check.remedy:
        output.marked("  →", check.remedy)
