"""`/subscriptions` of a tenant, and `/installation/subscriptions` of operators: who is told of
which events."""

from datetime import timedelta
from uuid import UUID

from litestar import Router
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Role
from gnomon.api.context import Request, context_of, requester_of
from gnomon.api.http.document.operation import Operation, for_operators
from gnomon.api.http.requests.idempotency import answer, respond
from gnomon.api.http.requests.reading import decoded, queried, read_body
from gnomon.api.notify.documents import (
    ConfirmedSubscription,
    ConfirmSubscription,
    MuteSubscription,
    NotificationList,
    NotificationLog,
    NotificationView,
    PutSubscription,
    SubscriptionList,
    SubscriptionView,
    notification_view,
    subscription_view,
)
from gnomon.api.tasks.schemas import NoQuery
from gnomon.model.subscription_errors import NotificationNotFound
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.notify import subscriptions


def _name_of(request: Request) -> str:
    name: str = request.path_params["name"]
    return name


@Operation(
    "GET",
    "/",
    name="list_subscriptions",
    role=Role.READ,
    summary="List the subscriptions of the tenant",
    query=NoQuery,
    answers={200: SubscriptionList},
)
async def list_subscriptions(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    owner = subscriptions.owner_of(requester_of(request))
    found = await context_of(request).subscriptions.store.list(owner)
    return respond(answer(200, SubscriptionList([subscription_view(each) for each in found])))


@Operation(
    "GET",
    "/{name:str}",
    name="get_subscription",
    role=Role.READ,
    summary="Read a subscription of the tenant",
    query=NoQuery,
    answers={200: SubscriptionView},
    errors=(404,),
)
async def get_subscription(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    desk, by = context_of(request).subscriptions, requester_of(request)
    found = await subscriptions.get(desk, by, _name_of(request))
    return respond(answer(200, subscription_view(found)))


@Operation(
    "GET",
    "/{name:str}/notifications",
    name="list_notifications",
    role=Role.READ,
    summary="List the last notifications of a subscription of the tenant, newest first",
    query=NoQuery,
    answers={200: NotificationList},
    errors=(404,),
)
async def list_notifications(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    desk, by = context_of(request).subscriptions, requester_of(request)
    found = await subscriptions.notifications(desk, by, _name_of(request))
    return respond(answer(200, NotificationList([notification_view(each) for each in found])))


@Operation(
    "GET",
    "/{name:str}/notifications/{notification_id:str}",
    name="get_notification",
    role=Role.READ,
    summary="Read one of the last notifications of a subscription of the tenant",
    query=NoQuery,
    answers={200: NotificationView},
    errors=(404,),
)
async def get_notification(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    desk, by = context_of(request).subscriptions, requester_of(request)
    text: str = request.path_params["notification_id"]
    try:
        notification_id = UUID(text)
    except ValueError:
        raise NotificationNotFound(text) from None
    found = await subscriptions.notification(desk, by, _name_of(request), notification_id)
    return respond(answer(200, notification_view(found)))


@Operation(
    "PUT",
    "/{name:str}",
    name="put_subscription",
    role=Role.ADMIN,
    summary="Create or replace a subscription of the tenant; a new address is asked to consent",
    body=PutSubscription,
    body_required=True,
    answers={200: SubscriptionView, 201: SubscriptionView},
    errors=(409,),
    grows=True,
)
async def put_subscription(request: Request) -> ASGIResponse:
    desk, by = context_of(request).subscriptions, requester_of(request)
    asked = decoded(await read_body(request, OVERHEAD_BYTES), PutSubscription)
    found, created = await subscriptions.put(
        desk, by, _name_of(request), asked.channel, asked.rules()
    )
    return respond(answer(201 if created else 200, subscription_view(found)))


@Operation(
    "DELETE",
    "/{name:str}",
    name="delete_subscription",
    role=Role.ADMIN,
    summary="Remove a subscription of the tenant",
    answers={204: None},
    errors=(404,),
)
async def delete_subscription(request: Request) -> ASGIResponse:
    desk, by = context_of(request).subscriptions, requester_of(request)
    await subscriptions.delete(desk, by, _name_of(request))
    return respond(answer(204))


@Operation(
    "POST",
    "/{name:str}/mute",
    name="mute_subscription",
    role=Role.ADMIN,
    summary="Tell a subscription of the tenant of nothing for a while",
    body=MuteSubscription,
    body_required=True,
    answers={200: SubscriptionView},
    errors=(404,),
)
async def mute_subscription(request: Request) -> ASGIResponse:
    context, by = context_of(request), requester_of(request)
    asked = decoded(await read_body(request, OVERHEAD_BYTES), MuteSubscription)
    asked.check()
    until = asked.until
    if asked.seconds is not None:
        until = context.clock.now() + timedelta(seconds=asked.seconds)
    found = await subscriptions.mute(context.subscriptions, by, _name_of(request), until)
    return respond(answer(200, subscription_view(found)))


@Operation(
    "POST",
    "/{name:str}/unmute",
    name="unmute_subscription",
    role=Role.ADMIN,
    summary="Tell a subscription of the tenant of everything again",
    answers={200: SubscriptionView},
    errors=(404,),
)
async def unmute_subscription(request: Request) -> ASGIResponse:
    desk, by = context_of(request).subscriptions, requester_of(request)
    found = await subscriptions.mute(desk, by, _name_of(request), None)
    return respond(answer(200, subscription_view(found)))


@Operation(
    "POST",
    "/{name:str}/test",
    name="send_test",
    role=Role.ADMIN,
    summary="Send a test to a subscription of the tenant now",
    answers={202: NotificationView},
    errors=(404, 409),
    grows=True,
)
async def send_test(request: Request) -> ASGIResponse:
    desk, by = context_of(request).subscriptions, requester_of(request)
    sent = await subscriptions.send_test(desk, by, _name_of(request))
    return respond(answer(202, notification_view(sent)))


@Operation(
    "POST",
    "/confirm",
    name="confirm_subscription",
    role=None,
    summary="Agree to notifications by e-mail, with the token that was sent to the address",
    body=ConfirmSubscription,
    body_required=True,
    answers={200: ConfirmedSubscription},
    errors=(404,),
)
async def confirm_subscription(request: Request) -> ASGIResponse:
    asked = decoded(await read_body(request, OVERHEAD_BYTES), ConfirmSubscription)
    found = await subscriptions.confirm(context_of(request).subscriptions, asked.token)
    return respond(answer(200, ConfirmedSubscription(found.name)))


@Operation(
    "GET",
    "/api/v1/installation/notifications",
    name="list_all_notifications",
    role=Role.OPERATOR,
    summary="List the newest notifications of all subscriptions",
    query=NoQuery,
    answers={200: NotificationLog},
)
async def list_all_notifications(request: Request) -> ASGIResponse:
    queried(request, NoQuery)
    found = await context_of(request).subscriptions.store.log()
    return respond(answer(200, NotificationLog([*found])))


_HANDLERS = (
    list_subscriptions,
    get_subscription,
    list_notifications,
    get_notification,
    put_subscription,
    delete_subscription,
    mute_subscription,
    unmute_subscription,
    send_test,
)
router = Router("/api/v1/subscriptions", route_handlers=[*_HANDLERS, confirm_subscription])
installation_router = Router(
    "/api/v1/installation/subscriptions",
    route_handlers=[for_operators(each) for each in _HANDLERS],
)
