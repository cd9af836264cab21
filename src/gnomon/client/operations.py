"""Methods of both clients, made from the calls: each is described once, and typed for each client.

A descriptor knows which client it is used on: `client.get_task` is a coroutine function on a
Client and a plain function on a SyncClient, with the parameters of `calls.tasks.get_task`.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

from gnomon.client.call import Call, ListedItems, Listing
from gnomon.client.calls import (
    access,
    activity,
    administration,
    batches,
    bulk,
    cron,
    dead_letters,
    events,
    feeds,
    installation_subscriptions,
    saved_views,
    subscriptions,
    tasks,
    workflows,
)

P = ParamSpec("P")
T = TypeVar("T")


class AsyncListed(Protocol[T]):
    """A list of the API for `async for`; further pages are fetched as they are needed."""

    def __aiter__(self) -> AsyncIterator[T]: ...

    def pages(self) -> AsyncIterator[ListedItems[T]]:
        """The list by pages, each with the cursor of the next."""
        ...


class Listed(Protocol[T]):
    """A list of the API for `for`; further pages are fetched as they are needed."""

    def __iter__(self) -> Iterator[T]: ...

    def pages(self) -> Iterator[ListedItems[T]]:
        """The list by pages, each with the cursor of the next."""
        ...


class AsyncCaller:
    """A client whose methods are coroutine functions."""

    async def call(self, call: Call[T]) -> T:
        """Performs a call."""
        raise NotImplementedError

    def listed(self, listing: Listing[T]) -> AsyncListed[T]:
        """The items of a list."""
        raise NotImplementedError

    def followed(self, call: Call[T]) -> AsyncGenerator[T, None]:
        """The events of a stream."""
        raise NotImplementedError


class SyncCaller:
    """A client whose methods block."""

    def call(self, call: Call[T]) -> T:
        """Performs a call."""
        raise NotImplementedError

    def listed(self, listing: Listing[T]) -> Listed[T]:
        """The items of a list."""
        raise NotImplementedError

    def followed(self, call: Call[T]) -> Iterator[T]:
        """The events of a stream."""
        raise NotImplementedError


class DocumentCaller(AsyncCaller):
    """A client whose methods take and return plain JSON documents."""


class CallMethod(Generic[P, T]):
    """A method that performs the call that `describe` describes."""

    def __init__(self, describe: Callable[P, Call[T]]) -> None:
        self.describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> "CallMethod[P, T]": ...
    @overload
    def __get__(
        self, client: DocumentCaller, owner: type
    ) -> Callable[..., Coroutine[Any, Any, Any]]: ...
    @overload
    def __get__(self, client: AsyncCaller, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, client: SyncCaller, owner: type) -> Callable[P, T]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self
        describe = self.describe

        @wraps(describe)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.call(describe(*args, **kwargs))

        return method


class ListMethod(Generic[P, T]):
    """A method that iterates over the list that `describe` describes."""

    def __init__(self, describe: Callable[P, Listing[T]]) -> None:
        self.describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> "ListMethod[P, T]": ...
    @overload
    def __get__(self, client: DocumentCaller, owner: type) -> Callable[..., AsyncListed[Any]]: ...
    @overload
    def __get__(self, client: AsyncCaller, owner: type) -> Callable[P, AsyncListed[T]]: ...
    @overload
    def __get__(self, client: SyncCaller, owner: type) -> Callable[P, Listed[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self
        describe = self.describe

        @wraps(describe)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.listed(describe(*args, **kwargs))

        return method


class StreamMethod(Generic[P, T]):
    """A method that iterates over the stream that `describe` describes."""

    def __init__(self, describe: Callable[P, Call[T]]) -> None:
        self.describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> "StreamMethod[P, T]": ...
    @overload
    def __get__(
        self, client: DocumentCaller, owner: type
    ) -> Callable[..., AsyncGenerator[Any, None]]: ...
    @overload
    def __get__(self, client: AsyncCaller, owner: type) -> Callable[P, AsyncGenerator[T, None]]: ...
    @overload
    def __get__(self, client: SyncCaller, owner: type) -> Callable[P, Iterator[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self
        describe = self.describe

        @wraps(describe)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.followed(describe(*args, **kwargs))

        return method


class Operations:
    """Every operation of the API, under its name in the OpenAPI document."""

    submit_task = CallMethod(tasks.submit_task)
    submit_batch = CallMethod(tasks.submit_batch)
    get_task = CallMethod(tasks.get_task)
    list_tasks = ListMethod(tasks.list_tasks)
    get_task_stats = CallMethod(tasks.get_task_stats)
    list_executions = ListMethod(tasks.list_executions)
    list_transitions = ListMethod(tasks.list_transitions)
    get_task_labels = CallMethod(tasks.get_task_labels)
    explain_task = CallMethod(tasks.explain_task)
    list_related_tasks = CallMethod(tasks.list_related_tasks)
    patch_task = CallMethod(tasks.patch_task)
    delete_task = CallMethod(tasks.delete_task)
    cancel_task = CallMethod(tasks.cancel_task)
    pause_task = CallMethod(tasks.pause_task)
    resume_task = CallMethod(tasks.resume_task)
    retry_task = CallMethod(tasks.retry_task)

    list_dead_letters = ListMethod(dead_letters.list_dead_letters)
    list_dead_letter_groups = ListMethod(dead_letters.list_dead_letter_groups)
    get_dead_letter = CallMethod(dead_letters.get_dead_letter)
    retry_dead_letter = CallMethod(dead_letters.retry_dead_letter)
    archive_dead_letter = CallMethod(dead_letters.archive_dead_letter)
    discard_dead_letter = CallMethod(dead_letters.discard_dead_letter)
    create_bulk_operation = CallMethod(bulk.create_bulk_operation)
    list_bulk_operations = ListMethod(bulk.list_bulk_operations)
    get_bulk_operation = CallMethod(bulk.get_bulk_operation)
    stop_bulk_operation = CallMethod(bulk.stop_bulk_operation)
    list_saved_views = CallMethod(saved_views.list_saved_views)
    put_saved_view = CallMethod(saved_views.put_saved_view)
    delete_saved_view = CallMethod(saved_views.delete_saved_view)
    list_subscriptions = CallMethod(subscriptions.list_subscriptions)
    get_subscription = CallMethod(subscriptions.get_subscription)
    put_subscription = CallMethod(subscriptions.put_subscription)
    delete_subscription = CallMethod(subscriptions.delete_subscription)
    mute_subscription = CallMethod(subscriptions.mute_subscription)
    unmute_subscription = CallMethod(subscriptions.unmute_subscription)
    send_test = CallMethod(subscriptions.send_test)
    confirm_subscription = CallMethod(subscriptions.confirm_subscription)
    list_notifications = CallMethod(subscriptions.list_notifications)
    get_notification = CallMethod(subscriptions.get_notification)
    list_all_notifications = CallMethod(installation_subscriptions.list_all_notifications)
    list_installation_subscriptions = CallMethod(
        installation_subscriptions.list_installation_subscriptions
    )
    get_installation_subscription = CallMethod(
        installation_subscriptions.get_installation_subscription
    )
    put_installation_subscription = CallMethod(
        installation_subscriptions.put_installation_subscription
    )
    delete_installation_subscription = CallMethod(
        installation_subscriptions.delete_installation_subscription
    )
    mute_installation_subscription = CallMethod(
        installation_subscriptions.mute_installation_subscription
    )
    unmute_installation_subscription = CallMethod(
        installation_subscriptions.unmute_installation_subscription
    )
    send_installation_test = CallMethod(installation_subscriptions.send_installation_test)
    list_installation_notifications = CallMethod(
        installation_subscriptions.list_installation_notifications
    )
    get_installation_notification = CallMethod(
        installation_subscriptions.get_installation_notification
    )
    list_events = ListMethod(events.list_events)
    list_installation_events = ListMethod(events.list_installation_events)
    follow_events = StreamMethod(events.follow_events)
    follow_transitions = StreamMethod(events.follow_transitions)
    get_activity = CallMethod(activity.get_activity)
    get_tenant_activity = CallMethod(activity.get_tenant_activity)
    get_upcoming_tasks = CallMethod(activity.get_upcoming_tasks)
    get_service_levels = CallMethod(activity.get_service_levels)
    acknowledge_event = CallMethod(events.acknowledge_event)
    acknowledge_events = CallMethod(events.acknowledge_events)
    acknowledge_installation_event = CallMethod(events.acknowledge_installation_event)
    acknowledge_installation_events = CallMethod(events.acknowledge_installation_events)

    create_cron_job = CallMethod(cron.create_cron_job)
    list_cron_jobs = ListMethod(cron.list_cron_jobs)
    get_cron_job = CallMethod(cron.get_cron_job)
    put_cron_job = CallMethod(cron.put_cron_job)
    patch_cron_job = CallMethod(cron.patch_cron_job)
    delete_cron_job = CallMethod(cron.delete_cron_job)
    pause_cron_job = CallMethod(cron.pause_cron_job)
    resume_cron_job = CallMethod(cron.resume_cron_job)
    trigger_cron_job = CallMethod(cron.trigger_cron_job)
    backfill_cron_job = CallMethod(cron.backfill_cron_job)
    list_cron_runs = ListMethod(cron.list_cron_runs)
    preview_cron_job = CallMethod(cron.preview_cron_job)

    put_workflow = CallMethod(workflows.put_workflow)
    list_workflows = CallMethod(workflows.list_workflows)
    get_workflow = CallMethod(workflows.get_workflow)
    delete_workflow = CallMethod(workflows.delete_workflow)
    start_workflow_run = CallMethod(workflows.start_workflow_run)
    start_ad_hoc_run = CallMethod(workflows.start_ad_hoc_run)
    list_workflow_runs = ListMethod(workflows.list_workflow_runs)
    get_workflow_run = CallMethod(workflows.get_workflow_run)
    cancel_workflow_run = CallMethod(workflows.cancel_workflow_run)
    pause_workflow_run = CallMethod(workflows.pause_workflow_run)
    resume_workflow_run = CallMethod(workflows.resume_workflow_run)
    retry_workflow_run = CallMethod(workflows.retry_workflow_run)
    roll_back_workflow_run = CallMethod(workflows.roll_back_workflow_run)
    signal_workflow_run = CallMethod(workflows.signal_workflow_run)
    get_node_output = CallMethod(workflows.get_node_output)

    open_batch = CallMethod(batches.open_batch)
    list_batches = ListMethod(batches.list_batches)
    get_batch = CallMethod(batches.get_batch)
    close_batch = CallMethod(batches.close_batch)
    cancel_batch = CallMethod(batches.cancel_batch)

    create_key = CallMethod(access.create_key)
    list_keys = ListMethod(access.list_keys)
    rotate_key = CallMethod(access.rotate_key)
    revoke_key = CallMethod(access.revoke_key)
    create_operator_key = CallMethod(access.create_operator_key)
    list_operator_keys = ListMethod(access.list_operator_keys)
    rotate_operator_key = CallMethod(access.rotate_operator_key)
    revoke_operator_key = CallMethod(access.revoke_operator_key)
    create_webhook_secret = CallMethod(access.create_webhook_secret)
    list_webhook_secrets = CallMethod(access.list_webhook_secrets)
    show_webhook_secret = CallMethod(access.show_webhook_secret)
    rotate_webhook_secret = CallMethod(access.rotate_webhook_secret)
    revoke_webhook_secret = CallMethod(access.revoke_webhook_secret)
    list_webhook_keys = CallMethod(access.list_webhook_keys)

    list_breakers = CallMethod(administration.list_breakers)
    list_limiters = CallMethod(administration.list_limiters)
    get_limiter = CallMethod(administration.get_limiter)
    put_limiter = CallMethod(administration.put_limiter)
    delete_limiter = CallMethod(administration.delete_limiter)
    list_feeds = CallMethod(feeds.list_feeds)
    get_feed = CallMethod(feeds.get_feed)
    put_feed = CallMethod(feeds.put_feed)
    delete_feed = CallMethod(feeds.delete_feed)
    list_task_types = CallMethod(administration.list_task_types)
    get_task_type = CallMethod(administration.get_task_type)
    put_task_type = CallMethod(administration.put_task_type)
    delete_task_type = CallMethod(administration.delete_task_type)
    get_usage = CallMethod(administration.get_usage)
    list_tenant_usage = ListMethod(administration.list_tenant_usage)
    get_tenant = CallMethod(administration.get_tenant)
    create_tenant = CallMethod(administration.create_tenant)
    list_tenants = ListMethod(administration.list_tenants)
    show_tenant = CallMethod(administration.show_tenant)
    patch_tenant = CallMethod(administration.patch_tenant)
    delete_tenant = CallMethod(administration.delete_tenant)
    list_plans = CallMethod(administration.list_plans)
    list_nodes = CallMethod(administration.list_nodes)
