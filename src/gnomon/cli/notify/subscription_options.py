"""The options of a subscription: its channel, and what it is told when."""

from typing import Annotated, Any

import typer

from gnomon.cli.shared import secret_files, values
from gnomon.cli.shared.groups import OptionGroup
from gnomon.cli.shared.output import CommandFailed


class ChannelOptions(OptionGroup):
    """Where notifications go: one of these."""

    webhook: Annotated[
        str | None, typer.Option(metavar="URL", help="Call this, signed as tasks are.")
    ] = None
    slack: Annotated[
        str | None, typer.Option(metavar="FILE", help="A file with the URL of a chat's webhook.")
    ] = None
    email: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Write to this, once it agrees.")
    ] = None
    apprise: Annotated[
        str | None, typer.Option(metavar="FILE", help="A file with a URL of Apprise.")
    ] = None

    def document(self) -> dict[str, str] | None:
        """The channel for the API. Whoever knows the URL of a chat can write there, so such URLs
        come from files: the list of processes, and the history of a shell, are read by others."""
        named = (self.webhook, self.slack, self.email, self.apprise)
        if sum(text is not None for text in named) > 1:
            raise typer.BadParameter("give one of --webhook, --slack, --email and --apprise")
        if self.webhook is not None:
            return {"type": "webhook", "url": self.webhook}
        if self.slack is not None:
            return {"type": "slack", "url": secret_files.read(self.slack, "--slack")}
        if self.email is not None:
            return {"type": "email", "address": self.email}
        if self.apprise is not None:
            return {"type": "apprise", "url": secret_files.read(self.apprise, "--apprise")}
        return None


class RuleOptions(OptionGroup):
    """Which events are told, and when."""

    kinds: Annotated[
        list[str] | None, typer.Option("--kind", metavar="KIND", help="Only these, like tasks.*.")
    ] = None
    severity: Annotated[
        str | None, typer.Option(metavar="LEAST", help="info, warning (the default) or error.")
    ] = None
    task_types: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Only of this task type.")
    ] = None
    tags: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="Only with this tag.")
    ] = None
    cron_jobs: Annotated[
        list[str] | None, typer.Option("--cron-job", metavar="JOB", help="Only of this cron job.")
    ] = None
    quiet: Annotated[
        str | None, typer.Option(metavar="FROM-TO", help="Quiet hours, like 22:00-07:00.")
    ] = None
    zone: Annotated[
        str, typer.Option(metavar="ZONE", help="Time zone of --quiet, like Europe/Berlin.")
    ] = "UTC"
    errors_through: Annotated[
        bool, typer.Option("--errors-through", help="Errors are told in quiet hours, too.")
    ] = False
    digest: Annotated[
        Any,
        typer.Option(parser=values.duration, metavar="TIME", help="Between digests: 5m."),
    ] = None
    resolve: Annotated[
        Any,
        typer.Option(
            parser=values.duration, metavar="TIME", help="Silence after which it is over: 15m."
        ),
    ] = None
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="With --installation: of all tenants, too.")
    ] = False

    def document(self) -> dict[str, Any]:
        """The members for the API; those without a value are left to it."""
        named = {
            "kinds": self.kinds,
            "severity": self.severity,
            "task_types": self.task_types,
            "tags": self.tags,
            "cron_jobs": self.cron_jobs,
            "quiet_hours": self._quiet_hours(),
            "digest_seconds": self.digest,
            "resolve_seconds": self.resolve,
            "all_tenants": self.all_tenants,
        }
        return {member: value for member, value in named.items() if value}

    def _quiet_hours(self) -> dict[str, Any] | None:
        if self.quiet is None:
            return None
        start, dash, end = self.quiet.partition("-")
        if not dash:
            raise CommandFailed("--quiet must be like 22:00-07:00")
        return {
            "start": start.strip(),
            "end": end.strip(),
            "timezone": self.zone,
            "errors_through": self.errors_through,
        }
