"""Gnomon: a distributed task scheduler you run yourself.

What is listed here is what programs may import; everything below it may change at any time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gnomon.version import VERSION

if TYPE_CHECKING:
    from gnomon.access.principal import Role
    from gnomon.access.webhook_secret import Scheme
    from gnomon.client.call import ListedItems
    from gnomon.client.client import Client, SyncClient
    from gnomon.client.errors import (
        ApiProblem,
        ApiUnreachable,
        ClientError,
        Conflict,
        Forbidden,
        InvalidField,
        InvalidRequest,
        NotConnected,
        NotFound,
        QuotaReached,
        RateLimited,
        Unauthorized,
        Unavailable,
        WaitTimeout,
    )
    from gnomon.client.exchange import BatchProgress
    from gnomon.client.signature import verify as verify_webhook
    from gnomon.client.types.access import (
        KeyInfo,
        KeySpec,
        NewKeyInfo,
        OperatorKeySpec,
        WebhookKeyInfo,
        WebhookSecretInfo,
        WebhookSecretSpec,
    )
    from gnomon.client.types.activity import (
        ActivityInfo,
        ActivityStepInfo,
        ActivitySumsInfo,
        StartDelayInfo,
        TenantActivityInfo,
        TenantStepsInfo,
        TypeActivityInfo,
        UpcomingHourInfo,
    )
    from gnomon.client.types.administration import (
        DayInfo,
        LimiterInfo,
        LimiterSpec,
        NodeInfo,
        NodesInfo,
        OwnTenantInfo,
        PlanInfo,
        QuotasInfo,
        QuotasSpec,
        TaskTypeInfo,
        TaskTypeItemInfo,
        TenantDayInfo,
        TenantEdit,
        TenantInfo,
        TenantSpec,
        TypeDefaultsSpec,
        UsageInfo,
    )
    from gnomon.client.types.bulk import (
        BegunBulkOperation,
        BulkOperationInfo,
        BulkRefusalInfo,
        BulkSpec,
    )
    from gnomon.client.types.cron import (
        BackfillInfo,
        BackfillSpec,
        CronJobEdit,
        CronJobInfo,
        CronJobSpec,
        DeclaredJob,
        DeclaredPut,
        FireInfo,
        PreviewInfo,
        PutInfo,
        RunInfo,
        ScheduleSpec,
    )
    from gnomon.client.types.dead_letters import DeadGroupInfo, DeadLetterInfo
    from gnomon.client.types.saved_views import SavedViewInfo
    from gnomon.client.types.subscriptions import (
        ChannelInfo,
        ConfirmationInfo,
        NotificationInfo,
        QuietHoursInfo,
        SubscriptionInfo,
        SubscriptionSpec,
    )
    from gnomon.client.types.tasks import (
        CountInfo,
        EventInfo,
        EventReceiptInfo,
        ExecutionInfo,
        ExplanationInfo,
        HoldInfo,
        LaneLoadInfo,
        QueueLoadInfo,
        RelatedTaskInfo,
        RelatedTasksInfo,
        SubmittedTask,
        TaskEdit,
        TaskInfo,
        TaskLabelsInfo,
        TaskSpec,
        TaskStatsInfo,
        TypeLoadInfo,
    )
    from gnomon.cron.dst import Dst, Fold, Gap
    from gnomon.cron.job import Missed, Overlap
    from gnomon.model.errors import GnomonError
    from gnomon.model.lifecycle import Status
    from gnomon.model.priority import Priority
    from gnomon.model.retry import Backoff, RetryPolicy
    from gnomon.model.target import HttpTarget, PythonTarget
    from gnomon.model.task import DeliveryMode, KeepPayload
    from gnomon.sdk.app import CallNext, Gnomon
    from gnomon.sdk.context import TaskContext
    from gnomon.sdk.dependencies import Depends
    from gnomon.sdk.errors import (
        AppNotLoaded,
        ExecutionLost,
        InvalidArguments,
        InvalidHandler,
        InvalidOption,
        InvalidResult,
        NoTransaction,
        UnknownHandler,
    )
    from gnomon.sdk.handle import Handle, ResultUnavailable, TaskCancelled, TaskExpired, TaskFailed
    from gnomon.sdk.handler import Handler
    from gnomon.sdk.loading import load_app
    from gnomon.sdk.prepared import Prepared
    from gnomon.sdk.signals import Reject, Retry, Snooze

__version__ = VERSION

__all__ = [
    "ActivityInfo",
    "ActivityStepInfo",
    "ActivitySumsInfo",
    "ApiProblem",
    "ApiUnreachable",
    "AppNotLoaded",
    "BackfillInfo",
    "BackfillSpec",
    "Backoff",
    "BatchProgress",
    "BegunBulkOperation",
    "BulkOperationInfo",
    "BulkRefusalInfo",
    "BulkSpec",
    "CallNext",
    "ChannelInfo",
    "Client",
    "ClientError",
    "ConfirmationInfo",
    "Conflict",
    "CountInfo",
    "CronJobEdit",
    "CronJobInfo",
    "CronJobSpec",
    "DayInfo",
    "DeadGroupInfo",
    "DeadLetterInfo",
    "DeclaredJob",
    "DeclaredPut",
    "DeliveryMode",
    "Depends",
    "Dst",
    "EventInfo",
    "EventReceiptInfo",
    "ExecutionInfo",
    "ExecutionLost",
    "ExplanationInfo",
    "FireInfo",
    "Fold",
    "Forbidden",
    "Gap",
    "Gnomon",
    "GnomonError",
    "Handle",
    "Handler",
    "HoldInfo",
    "HttpTarget",
    "InvalidArguments",
    "InvalidField",
    "InvalidHandler",
    "InvalidOption",
    "InvalidRequest",
    "InvalidResult",
    "KeepPayload",
    "KeyInfo",
    "KeySpec",
    "LaneLoadInfo",
    "LimiterInfo",
    "LimiterSpec",
    "ListedItems",
    "Missed",
    "NewKeyInfo",
    "NoTransaction",
    "NodeInfo",
    "NodesInfo",
    "NotConnected",
    "NotFound",
    "NotificationInfo",
    "OperatorKeySpec",
    "Overlap",
    "OwnTenantInfo",
    "PlanInfo",
    "Prepared",
    "PreviewInfo",
    "Priority",
    "PutInfo",
    "PythonTarget",
    "QueueLoadInfo",
    "QuietHoursInfo",
    "QuotaReached",
    "QuotasInfo",
    "QuotasSpec",
    "RateLimited",
    "Reject",
    "RelatedTaskInfo",
    "RelatedTasksInfo",
    "ResultUnavailable",
    "Retry",
    "RetryPolicy",
    "Role",
    "RunInfo",
    "SavedViewInfo",
    "ScheduleSpec",
    "Scheme",
    "Snooze",
    "StartDelayInfo",
    "Status",
    "SubmittedTask",
    "SubscriptionInfo",
    "SubscriptionSpec",
    "SyncClient",
    "TaskCancelled",
    "TaskContext",
    "TaskEdit",
    "TaskExpired",
    "TaskFailed",
    "TaskInfo",
    "TaskLabelsInfo",
    "TaskSpec",
    "TaskStatsInfo",
    "TaskTypeInfo",
    "TaskTypeItemInfo",
    "TenantActivityInfo",
    "TenantDayInfo",
    "TenantEdit",
    "TenantInfo",
    "TenantSpec",
    "TenantStepsInfo",
    "TypeActivityInfo",
    "TypeDefaultsSpec",
    "TypeLoadInfo",
    "Unauthorized",
    "Unavailable",
    "UnknownHandler",
    "UpcomingHourInfo",
    "UsageInfo",
    "WaitTimeout",
    "WebhookKeyInfo",
    "WebhookSecretInfo",
    "WebhookSecretSpec",
    "__version__",
    "load_app",
    "verify_webhook",
]

# Imported when first asked for: `gnomon --help` and a program that only submits need few of them.
_MODULES = {
    "gnomon.access.principal": ("Role",),
    "gnomon.access.webhook_secret": ("Scheme",),
    "gnomon.client.call": ("ListedItems",),
    "gnomon.client.client": (
        "Client",
        "SyncClient",
    ),
    "gnomon.client.errors": (
        "ApiProblem",
        "ApiUnreachable",
        "ClientError",
        "Conflict",
        "Forbidden",
        "InvalidField",
        "InvalidRequest",
        "NotConnected",
        "NotFound",
        "QuotaReached",
        "RateLimited",
        "Unauthorized",
        "Unavailable",
        "WaitTimeout",
    ),
    "gnomon.client.exchange": ("BatchProgress",),
    "gnomon.client.types.access": (
        "KeyInfo",
        "KeySpec",
        "NewKeyInfo",
        "OperatorKeySpec",
        "WebhookKeyInfo",
        "WebhookSecretInfo",
        "WebhookSecretSpec",
    ),
    "gnomon.client.types.activity": (
        "ActivityInfo",
        "ActivityStepInfo",
        "ActivitySumsInfo",
        "StartDelayInfo",
        "TenantActivityInfo",
        "TenantStepsInfo",
        "TypeActivityInfo",
        "UpcomingHourInfo",
    ),
    "gnomon.client.types.administration": (
        "DayInfo",
        "LimiterInfo",
        "LimiterSpec",
        "NodeInfo",
        "NodesInfo",
        "OwnTenantInfo",
        "PlanInfo",
        "QuotasInfo",
        "QuotasSpec",
        "TaskTypeInfo",
        "TaskTypeItemInfo",
        "TenantDayInfo",
        "TenantEdit",
        "TenantInfo",
        "TenantSpec",
        "TypeDefaultsSpec",
        "UsageInfo",
    ),
    "gnomon.client.types.bulk": (
        "BegunBulkOperation",
        "BulkOperationInfo",
        "BulkSpec",
        "BulkRefusalInfo",
    ),
    "gnomon.client.types.cron": (
        "BackfillInfo",
        "BackfillSpec",
        "CronJobEdit",
        "CronJobInfo",
        "CronJobSpec",
        "DeclaredJob",
        "DeclaredPut",
        "FireInfo",
        "PreviewInfo",
        "PutInfo",
        "RunInfo",
        "ScheduleSpec",
    ),
    "gnomon.client.types.saved_views": ("SavedViewInfo",),
    "gnomon.client.types.subscriptions": (
        "ChannelInfo",
        "ConfirmationInfo",
        "NotificationInfo",
        "QuietHoursInfo",
        "SubscriptionInfo",
        "SubscriptionSpec",
    ),
    "gnomon.client.types.dead_letters": ("DeadGroupInfo", "DeadLetterInfo"),
    "gnomon.client.types.tasks": (
        "CountInfo",
        "EventInfo",
        "EventReceiptInfo",
        "ExecutionInfo",
        "ExplanationInfo",
        "HoldInfo",
        "LaneLoadInfo",
        "QueueLoadInfo",
        "RelatedTaskInfo",
        "RelatedTasksInfo",
        "SubmittedTask",
        "TaskEdit",
        "TaskInfo",
        "TaskSpec",
        "TaskLabelsInfo",
        "TaskStatsInfo",
        "TypeLoadInfo",
    ),
    "gnomon.cron.dst": (
        "Dst",
        "Fold",
        "Gap",
    ),
    "gnomon.cron.job": (
        "Missed",
        "Overlap",
    ),
    "gnomon.model.errors": ("GnomonError",),
    "gnomon.model.lifecycle": ("Status",),
    "gnomon.model.priority": ("Priority",),
    "gnomon.model.retry": (
        "Backoff",
        "RetryPolicy",
    ),
    "gnomon.model.target": (
        "HttpTarget",
        "PythonTarget",
    ),
    "gnomon.model.task": (
        "DeliveryMode",
        "KeepPayload",
    ),
    "gnomon.sdk.app": (
        "CallNext",
        "Gnomon",
    ),
    "gnomon.sdk.context": ("TaskContext",),
    "gnomon.sdk.dependencies": ("Depends",),
    "gnomon.sdk.errors": (
        "AppNotLoaded",
        "ExecutionLost",
        "InvalidArguments",
        "InvalidHandler",
        "InvalidOption",
        "InvalidResult",
        "NoTransaction",
        "UnknownHandler",
    ),
    "gnomon.sdk.handle": (
        "Handle",
        "ResultUnavailable",
        "TaskCancelled",
        "TaskExpired",
        "TaskFailed",
    ),
    "gnomon.sdk.handler": ("Handler",),
    "gnomon.sdk.loading": ("load_app",),
    "gnomon.sdk.prepared": ("Prepared",),
    "gnomon.sdk.signals": (
        "Reject",
        "Retry",
        "Snooze",
    ),
}
_HOMES = {name: (module, name) for module, names in _MODULES.items() for name in names}
_HOMES["verify_webhook"] = ("gnomon.client.signature", "verify")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gnomon' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
