"""The file that declares recurring jobs: what it comes to, and everything that may be wrong."""

import pytest

from gnomon.cli.cron.difference import JobChange, SyncStep, Verb, acts_of
from gnomon.cli.cron.file import BadFile, Declaration, Declared, declaration

JOB = """
[[job]]
name = "report"
cron_expression = "0 9 * * *"
callback_url = "http://127.0.0.1:9000/report"
"""


def declared(text: str, set_name: str | None = None) -> Declaration:
    return declaration(text.encode(), set_name)


def only(text: str) -> Declared:
    (job,) = declared(text).jobs
    return job


def problems(text: str, set_name: str | None = None) -> tuple[str, ...]:
    with pytest.raises(BadFile) as raised:
        declared(text, set_name)
    return raised.value.problems


def test_a_job_is_what_the_api_takes() -> None:
    job = only(JOB)
    assert job.renamed_from is None
    assert job.document == {
        "name": "report",
        "cron_expression": "0 9 * * *",
        "callback_url": "http://127.0.0.1:9000/report",
        "task_type": "webhook",
        "source": "sync:default",
    }


def test_the_set_is_the_files_unless_another_is_named() -> None:
    assert declared(f'set = "billing"\n{JOB}').source == "sync:billing"
    found = declared(f'set = "billing"\n{JOB}', "staging")
    assert (found.set_name, found.jobs[0].document["source"]) == ("staging", "sync:staging")


def test_what_toml_can_say_and_json_cannot_is_written_as_text() -> None:
    job = only(
        JOB.replace("cron_expression", "# ")
        + """
        interval_seconds = 900
        interval_from = 09:07:00
        start_date = 2030-01-31T09:00:00+01:00
        payload_template = {day = 2030-01-31, to = ["{{ fire_time | %Y-%m-%d }}", 1.5, true]}
        """
    )
    assert job.document["interval_seconds"] == 900


def test_a_function_is_its_own_task_type() -> None:
    job = only(
        """
        [[job]]
        name = "report"
        cron_expression = "@daily"
        target = {type = "python", function = "make_report"}
        """
    )
    assert job.document["task_type"] == "make_report"


def test_a_job_without_a_target_is_for_the_handler_of_its_type() -> None:
    job = only("[[job]]\nname = 'r'\ncron_expression = '@daily'\ntask_type = 'make_report'")
    assert job.document["task_type"] == "make_report"
    assert "target" not in job.document


def test_a_windows_file_may_begin_with_a_mark() -> None:
    assert (
        declaration(b"\xef\xbb\xbf" + JOB.replace("\n", "\r\n").encode()).jobs[0].name == "report"
    )


def test_defaults_fill_in_what_a_job_leaves_out() -> None:
    job = only(
        f"""
        [defaults]
        timezone = "Europe/Berlin"
        tags = ["a", "b"]
        retry_policy = {{max_retries = 5, backoff = "fixed"}}
        {JOB}
        tags = ["c"]
        retry_policy = {{max_retries = 1}}
        """
    )
    assert job.document["timezone"] == "Europe/Berlin"
    assert job.document["tags"] == ["c"]
    assert job.document["retry_policy"] == {"max_retries": 1}


def test_a_job_names_its_delivery_mode() -> None:
    assert only(f'{JOB}\ndelivery = "at_most_once"').document["delivery"] == "at_most_once"
    wrong = f'[defaults]\nretry_policy = {{max_retries = 2}}\n{JOB}\ndelivery = "at_most_once"'
    assert "never tried again" in problems(wrong)[0]


def test_a_job_that_says_it_another_way_does_not_get_the_default() -> None:
    job = only(
        """
        [defaults]
        cron_expression = "@hourly"
        callback_url = "http://127.0.0.1:9000/"
        callback_method = "PUT"
        missed_run_policy = "backfill"
        backfill_limit = 10
        [[job]]
        name = "other"
        interval_seconds = 60
        target = {type = "python", function = "f"}
        missed_run_policy = "skip"
        """
    )
    assert job.document.keys() == {
        "name", "interval_seconds", "target", "missed_run_policy", "task_type", "source",
    }  # fmt: skip


def test_no_jobs_must_be_meant() -> None:
    assert declared("job = []").jobs == ()
    assert "job = [] if none is meant" in problems("")[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job = [", "not valid TOML"),
        ("[job]\nname = 'x'", "write each under [[job]]"),
        ("job = [1]", "write each under [[job]]"),
        (f"defaults = 1\n{JOB}", "write [defaults]"),
        (f"jobs = 1\n{JOB}", "unknown field 'jobs'; did you mean 'job'?"),
        (f"set = 7\n{JOB}", "set must be a word"),
        (f"set = ' '\n{JOB}", "set must be a word"),
        (f"set = '{'x' * 81}'\n{JOB}", "at most 80 characters"),
        (f"[defaults]\nname = 'x'\n{JOB}", "[defaults]: name belongs to one job"),
        (f"[defaults]\nsource = 'x'\n{JOB}", "[defaults]: source is made of the file's set"),
        (f"[defaults]\ntimezon = 'UTC'\n{JOB}", "did you mean 'timezone'?"),
        (f"{JOB}cron = '@daily'", "job 'report': unknown field 'cron'"),
        (f"{JOB}overlap = 'skip'", "did you mean 'overlap_policy'?"),
        (f"{JOB}source = 'x'", "job 'report': source is made of the file's set"),
        (f"{JOB}renamed_from = 7", "renamed_from must be the job's former name"),
        (f"{JOB}overlap_policy = 'never'", "overlap_policy: Invalid enum value 'never'; use one"),
        (f"{JOB}timezone = 'Berlin'", "timezone: there is no time zone 'Berlin'; write Europe/"),
        (f"{JOB}interval_seconds = 5", "either cron_expression or interval_seconds"),
        (f"{JOB}start_date = 2030-01-31", "start_date: 2030-01-31 has no zone; write it like"),
        (f"{JOB}end_date = 2030-01-31T09:00:00", "has no zone; write it like"),
        (f"{JOB}sla_seconds = nan", "sla_seconds: nan is not a number in JSON"),
        (f"{JOB}payload_template = {{a = [1, inf]}}", "payload_template.a.1: inf is not"),
        (f"{JOB}payload_template = {{a = {2**64}}}", "does not fit into 64 bits"),
        (f"{JOB}payload_template = {{a = '{{{{ now }}}}'}}", "payload_template.a: 'now' is not"),
        ("[[job]]\ntask_type = 'x'", "job number 1: Object missing required"),
        ("[[job]]\nname = 'x'\ncron_expression = '@daily'", "job 'x': say what to call: callback"),
        (JOB.replace("0 9 *", "0 25 *"), "cron_expression: hour 25 is out of range"),
        (JOB.replace("http:", "ftp:"), "callback_url: url must start with http"),
        (JOB + JOB, "'report' is declared 2 times"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(text: str, message: str) -> None:
    (problem,) = problems(text)
    assert message in problem


def test_everything_that_is_wrong_is_told_at_once() -> None:
    found = problems(
        JOB.replace("report", "one") + "tag = 'x'\n" + JOB.replace("report", "two") + "dst = 1\n"
    )
    assert [problem.partition(":")[0] for problem in found] == ["job 'one'", "job 'two'"]


@pytest.mark.parametrize(
    ("renames", "message"),
    [
        ({"a": "a"}, "renamed_from 'a' names a job that the file still declares"),
        ({"a": "b", "b": "a"}, "names a job that the file still declares"),
        ({"a": "b", "b": "c"}, "renamed_from 'b' names a job that the file still declares"),
        ({"a": "x", "b": "x"}, "2 jobs are renamed_from 'x'"),
    ],
    ids=["itself", "a loop", "a chain", "a split"],
)
def test_renames_that_a_second_sync_could_not_tell(renames: dict[str, str], message: str) -> None:
    text = "".join(
        JOB.replace('report"', new + '"') + f"renamed_from = '{old}'\n"
        for new, old in renames.items()
    )
    assert any(message in problem for problem in problems(text))


def test_renames_come_first_and_removals_last() -> None:
    steps = [
        SyncStep(change=JobChange.REMOVED, name="gone"),
        SyncStep(change=JobChange.UNCHANGED, name="same"),
        SyncStep(change=JobChange.LEFT, name="other"),
        SyncStep(change=JobChange.CREATED, name="new"),
        SyncStep(change=JobChange.RENAMED, name="moved", fields={"tags": {}}, renamed_from="old"),
        SyncStep(change=JobChange.RENAMED, name="only moved", renamed_from="older"),
    ]
    assert [(act.verb, act.step.name) for act in acts_of(steps)] == [
        (Verb.RENAME, "moved"),
        (Verb.RENAME, "only moved"),
        (Verb.PUT, "new"),
        (Verb.PUT, "moved"),
        (Verb.REMOVE, "gone"),
    ]
