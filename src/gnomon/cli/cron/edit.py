"""`gnomon cron edit`: change a recurring job in an editor."""

import typer

from gnomon.cli.cron import options
from gnomon.cli.shared import editor, output, remote
from gnomon.cli.shared.options import ApiUrl, AsJson, Yes, settings_of

FIELDS = (
    "name",
    "cron_expression",
    "interval_seconds",
    "interval_from",
    "timezone",
    "dst",
    "start_date",
    "end_date",
    "max_runs",
    "jitter_seconds",
    "task_type",
    "target",
    "payload_template",
    "overlap_policy",
    "missed_run_policy",
    "missed_after_seconds",
    "backfill_limit",
    "backfill_window_seconds",
    "priority",
    "delivery",
    "retry_policy",
    "timeout_seconds",
    "tags",
    "queue",
    "preemptible",
    "keep_payload",
    "sla_seconds",
    "warn_after_seconds",
)


def edit_job(
    ctx: typer.Context,
    ref: options.Ref,
    yes: Yes = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
) -> None:
    """Change a job in your editor ($VISUAL, $EDITOR, else vi).

    Shows the difference before it is sent. What is refused can be edited again.

    \b
    gnomon cron edit report
    """
    address = remote.api_url(settings_of(ctx), api)
    job = remote.call(address, lambda client: client.get_cron_job(ref))
    job_id = job["cron_job_id"]
    done = editor.edited(
        f"cron job {job['name']}",
        {name: job[name] for name in FIELDS},
        lambda changes: remote.call(
            address,
            lambda client: client.patch_cron_job(
                job_id, {**changes, "definition_version": job["definition_version"]}
            ),
        ),
        yes=yes,
    )
    changed = job if done is None else done[1]
    if as_json:
        output.document(changed)
    else:
        output.echo(f"{changed['name']} is {'unchanged' if done is None else 'changed'}")
