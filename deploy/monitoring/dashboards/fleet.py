"""The fleet: is it well, how much runs, how late, what is busy, and are objectives kept."""

from deploy.monitoring.expressions import mean, quantile, quantiles, rate
from deploy.monitoring.objectives import OBJECTIVES, RATIO, TARGET
from deploy.monitoring.panels import WINDOW, Dashboard, Panel, Row

_FIRING = 'count(ALERTS{alertname=~"Gnomon.+",alertstate="firing"}) or vector(0)'
_PROMISES = "; ".join(f"{each.name}: {each.promise}" for each in OBJECTIVES)


def _busiest(counter: str) -> str:
    return f"topk(10, {rate(counter, 'task_type')})"


NOW = Row(
    "Now",
    [
        Panel(
            "Alerts",
            "Alerts of Gnomon that fire. The page that each links to says what to do.",
            "short",
            {"firing": _FIRING},
            "stat",
            4,
            steps=(1, 1),
        ),
        Panel(
            "Nodes alive",
            "Nodes whose lease is valid.",
            "short",
            {"alive": 'max(gnomon_nodes{state="alive"})'},
            "stat",
            4,
            steps=(2, 1),
        ),
        Panel(
            "Due and waiting",
            "Tasks that are due and have not started. Counted up to a bound.",
            "short",
            {"ready": 'max(gnomon_tasks{state="ready"})'},
            "stat",
            4,
            steps=(500, 1000),
        ),
        Panel(
            "Running",
            "Tasks that run, on all nodes.",
            "short",
            {"running": "sum(gnomon_slots_busy)"},
            "stat",
            4,
        ),
        Panel(
            "Slots busy",
            "The share of all slots that run something.",
            "percentunit",
            {"busy": "sum(gnomon_slots_busy) / sum(gnomon_slots)"},
            "stat",
            4,
            steps=(0.6, 0.8),
            most=1,
        ),
        Panel(
            "Dead letters",
            "Tasks that failed for good and wait for somebody. Counted up to a bound.",
            "short",
            {"dead": 'max(gnomon_tasks{state="dead_lettered"})'},
            "stat",
            4,
            steps=(1, 100),
        ),
    ],
)

SERVICE = Row(
    "Objectives",
    [
        Panel(
            "Kept over three days",
            f"The share that was as promised. {_PROMISES}.",
            "percentunit",
            {"{{objective}}": f"1 - {RATIO}3d"},
            "bargauge",
            most=1,
        ),
        Panel(
            "Pace at which budgets go, of an hour",
            "1: the budget of 30 days lasts 30 days. Above 14.4 somebody is woken.",
            "short",
            {"{{objective}}": f"{RATIO}1h / on (objective) (1 - {TARGET})"},
            steps=(6, 14.4),
        ),
        Panel(
            "Left of the budget, at the pace of three days",
            "What would be left of a budget of 30 days if it went on like this. At 0 it is spent.",
            "percentunit",
            {"{{objective}}": f"1 - {RATIO}3d / on (objective) (1 - {TARGET})"},
            "bargauge",
            steps=(0.5, 0.1),
            most=1,
        ),
    ],
)

WORK = Row(
    "Work",
    [
        Panel(
            "Tasks a second",
            "Submitted through the API, started, completed.",
            "ops",
            {
                "submitted": rate("gnomon_submissions_total"),
                "started": rate("gnomon_executions_started_total"),
                "completed": rate("gnomon_tasks_completed_total"),
            },
        ),
        Panel(
            "Executions by outcome",
            "How executions ended, a second.",
            "ops",
            {"{{outcome}}": rate("gnomon_executions_ended_total", "outcome")},
            stacked=True,
        ),
        Panel(
            "Failures",
            "Retries and dead letters a second, and whose fault executions fail by.",
            "ops",
            {
                "retries": rate("gnomon_retries_total"),
                "dead letters": rate("gnomon_dead_letters_total"),
                "fault of {{fault}}": rate("gnomon_failures_total", "fault"),
            },
        ),
        Panel(
            "Start delay",
            "From when a task was due to its claim.",
            "s",
            quantiles("gnomon_start_delay_seconds"),
            steps=(5, 10),
        ),
        Panel(
            "Start delay by priority (p95)",
            "The same by lane.",
            "s",
            {"{{lane}}": quantile(0.95, "gnomon_start_delay_seconds", "lane")},
        ),
        Panel(
            "Run time",
            "How long executions ran.",
            "s",
            quantiles("gnomon_run_seconds"),
            steps=(10, 30),
        ),
        Panel(
            "Due and waiting by priority",
            "Due tasks in the windows of nodes.",
            "short",
            {"{{lane}}": "sum by (lane) (gnomon_ready_tasks)"},
            stacked=True,
        ),
        Panel(
            "Oldest due",
            "How long the first due task has waited, by priority.",
            "s",
            {"{{lane}}": "max by (lane) (gnomon_oldest_due_seconds)"},
        ),
        Panel(
            "Tasks by state",
            "Tasks that are not finished. Counted up to a bound.",
            "short",
            {"{{state}}": "max by (state) (gnomon_tasks)"},
        ),
    ],
)

NODES = Row(
    "Nodes",
    [
        Panel(
            "Slots busy by node",
            "The share of a node's slots that run something.",
            "percentunit",
            {"{{instance}}": "gnomon_slots_busy / gnomon_slots"},
            steps=(0.6, 0.8),
            most=1,
        ),
        Panel(
            "Shards",
            "How many of the 256 shards each node serves.",
            "short",
            {"{{instance}}": "gnomon_shards"},
            stacked=True,
        ),
        Panel(
            "Nodes",
            "In the roster: alive, or silent because the lease has run out.",
            "short",
            {"{{state}}": "max by (state) (gnomon_nodes)"},
        ),
        Panel(
            "Recoveries",
            "Running tasks taken over a second, and renewals of leases that failed.",
            "ops",
            {
                "{{reason}}": rate("gnomon_recoveries_total", "reason"),
                "renewals failed": rate('gnomon_lease_renewals_total{result="failed"}'),
            },
        ),
        Panel(
            "Breakers open",
            "Hosts and tenants whose calls wait, because most of them failed.",
            "short",
            {"of a {{of}}": "sum by (of) (gnomon_breakers_open)"},
        ),
        Panel(
            "Held up",
            "Limiters at their limit, kinds of work that no node serves, handlers that hang.",
            "short",
            {
                "limiters full": "max(gnomon_limiters_full)",
                "kinds unserved": "max(gnomon_work_unserved)",
                "handlers hung": "sum(gnomon_handlers_hung)",
            },
        ),
    ],
)

TYPES = Row(
    "Task types",
    [
        Panel(
            "Executions by type",
            "The ten busiest. Beyond the types that a process counts by name, `other`.",
            "ops",
            {"{{task_type}}": _busiest("gnomon_type_executions_total")},
            width=12,
        ),
        Panel(
            "Slots by type",
            "How many slots the ten busiest take: seconds of run time in a second.",
            "short",
            {"{{task_type}}": _busiest("gnomon_type_run_seconds_total")},
            width=12,
        ),
    ],
)

API = Row(
    "API",
    [
        Panel(
            "Requests",
            "Requests a second, by the class of their status.",
            "reqps",
            {"{{code}}": rate("gnomon_requests_total", "code")},
            width=6,
            stacked=True,
        ),
        Panel(
            "Time to answer",
            "Without requests that wait for a task, and streams.",
            "s",
            quantiles("gnomon_request_seconds"),
            width=6,
            steps=(0.05, 0.1),
        ),
        Panel(
            "Time to submit",
            "Of requests that submit tasks, alone.",
            "s",
            {**quantiles("gnomon_submit_seconds"), "mean": mean("gnomon_submit_seconds")},
            width=6,
        ),
        Panel(
            "Refused and under way",
            "Requests beyond the limit of an address, key or process; and those being answered.",
            "short",
            {
                "refused a second: {{limit}}": rate("gnomon_requests_refused_total", "limit"),
                "under way": "sum(gnomon_requests_under_way)",
            },
            width=6,
        ),
    ],
)

PROCESSES = Row(
    "Processes",
    [
        Panel(
            "CPU",
            "Cores that a process uses.",
            "short",
            {"{{instance}}": f'rate(process_cpu_seconds_total{{job="gnomon"}}[{WINDOW}])'},
            width=12,
        ),
        Panel(
            "Memory",
            "That a process holds.",
            "bytes",
            {"{{instance}}": 'process_resident_memory_bytes{job="gnomon"}'},
            width=12,
        ),
    ],
)

FLEET = Dashboard(
    "gnomon-fleet",
    "Gnomon fleet",
    "Is it well, how much runs, how late, what is busy, and are objectives kept.",
    [NOW, SERVICE, WORK, NODES, TYPES, API, PROCESSES],
)
