"""`/subscriptions` of a tenant, and `/installation/subscriptions` of operators: who is told of
which events."""

from datetime import timedelta
from uuid import UUID

from litestar import Router
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Requester, Role
from gnomon.api.context import Request, context_of
from gnomon.api.http.idempotency import answer, respond
from gnomon.api.http.operation import Operation
from gnomon.api.http.reading import decoded, queried, read_body
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


def _requester_of(request: Request) -> Requester:
    requester: Requester = request.scope["auth"]
    return requester


def _name_of(request: Request) -> str:
    name: str = request.path_params["name"]
    return name


def _of(name: str, *, operators: bool) -> str:
    """The name of an operation: put_subscription, put_installation_subscription."""
    verb, _, noun = name.partition("_")
    return f"{verb}_installation_{noun}" if operators else name


def _reading(*, operators: bool) -> list[HTTPRouteHandler]:
    role = Role.OPERATOR if operators else Role.READ
    whose = "of the installation" if operators else "of the tenant"

    @Operation(
        "GET",
        "/",
        name=_of("list_subscriptions", operators=operators),
        role=role,
        summary=f"List the subscriptions {whose}",
        query=NoQuery,
        answers={200: SubscriptionList},
    )
    async def list_subscriptions(request: Request) -> ASGIResponse:
        queried(request, NoQuery)
        owner = subscriptions.owner_of(_requester_of(request))
        found = await context_of(request).subscriptions.store.list(owner)
        return respond(answer(200, SubscriptionList([subscription_view(each) for each in found])))

    @Operation(
        "GET",
        "/{name:str}",
        name=_of("get_subscription", operators=operators),
        role=role,
        summary=f"Read a subscription {whose}",
        query=NoQuery,
        answers={200: SubscriptionView},
        errors=(404,),
    )
    async def get_subscription(request: Request) -> ASGIResponse:
        queried(request, NoQuery)
        desk, by = context_of(request).subscriptions, _requester_of(request)
        found = await subscriptions.get(desk, by, _name_of(request))
        return respond(answer(200, subscription_view(found)))

    @Operation(
        "GET",
        "/{name:str}/notifications",
        name=_of("list_notifications", operators=operators),
        role=role,
        summary=f"List the last notifications of a subscription {whose}, newest first",
        query=NoQuery,
        answers={200: NotificationList},
        errors=(404,),
    )
    async def list_notifications(request: Request) -> ASGIResponse:
        queried(request, NoQuery)
        desk, by = context_of(request).subscriptions, _requester_of(request)
        found = await subscriptions.notifications(desk, by, _name_of(request))
        return respond(answer(200, NotificationList([notification_view(each) for each in found])))

    @Operation(
        "GET",
        "/{name:str}/notifications/{notification_id:str}",
        name=_of("get_notification", operators=operators),
        role=role,
        summary=f"Read one of the last notifications of a subscription {whose}",
        query=NoQuery,
        answers={200: NotificationView},
        errors=(404,),
    )
    async def get_notification(request: Request) -> ASGIResponse:
        queried(request, NoQuery)
        desk, by = context_of(request).subscriptions, _requester_of(request)
        text: str = request.path_params["notification_id"]
        try:
            notification_id = UUID(text)
        except ValueError:
            raise NotificationNotFound(text) from None
        found = await subscriptions.notification(desk, by, _name_of(request), notification_id)
        return respond(answer(200, notification_view(found)))

    return [list_subscriptions, get_subscription, list_notifications, get_notification]


def _changing(*, operators: bool) -> list[HTTPRouteHandler]:
    role = Role.OPERATOR if operators else Role.ADMIN
    whose = "of the installation" if operators else "of the tenant"

    @Operation(
        "PUT",
        "/{name:str}",
        name=_of("put_subscription", operators=operators),
        role=role,
        summary=f"Create or replace a subscription {whose}; a new address is asked for its consent",
        body=PutSubscription,
        body_required=True,
        answers={200: SubscriptionView, 201: SubscriptionView},
        errors=(409,),
        grows=True,
    )
    async def put_subscription(request: Request) -> ASGIResponse:
        desk, by = context_of(request).subscriptions, _requester_of(request)
        asked = decoded(await read_body(request, OVERHEAD_BYTES), PutSubscription)
        found, created = await subscriptions.put(
            desk, by, _name_of(request), asked.channel, asked.rules()
        )
        return respond(answer(201 if created else 200, subscription_view(found)))

    @Operation(
        "DELETE",
        "/{name:str}",
        name=_of("delete_subscription", operators=operators),
        role=role,
        summary=f"Remove a subscription {whose}",
        answers={204: None},
        errors=(404,),
    )
    async def delete_subscription(request: Request) -> ASGIResponse:
        desk, by = context_of(request).subscriptions, _requester_of(request)
        await subscriptions.delete(desk, by, _name_of(request))
        return respond(answer(204))

    return [put_subscription, delete_subscription, *_muting(role, whose, operators=operators)]


def _muting(role: Role, whose: str, *, operators: bool) -> list[HTTPRouteHandler]:
    @Operation(
        "POST",
        "/{name:str}/mute",
        name=_of("mute_subscription", operators=operators),
        role=role,
        summary=f"Tell a subscription {whose} of nothing for a while",
        body=MuteSubscription,
        body_required=True,
        answers={200: SubscriptionView},
        errors=(404,),
    )
    async def mute_subscription(request: Request) -> ASGIResponse:
        context, by = context_of(request), _requester_of(request)
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
        name=_of("unmute_subscription", operators=operators),
        role=role,
        summary=f"Tell a subscription {whose} of everything again",
        answers={200: SubscriptionView},
        errors=(404,),
    )
    async def unmute_subscription(request: Request) -> ASGIResponse:
        desk, by = context_of(request).subscriptions, _requester_of(request)
        found = await subscriptions.mute(desk, by, _name_of(request), None)
        return respond(answer(200, subscription_view(found)))

    @Operation(
        "POST",
        "/{name:str}/test",
        name=_of("send_test", operators=operators),
        role=role,
        summary=f"Send a test to a subscription {whose} now",
        answers={202: NotificationView},
        errors=(404, 409),
        grows=True,
    )
    async def send_test(request: Request) -> ASGIResponse:
        desk, by = context_of(request).subscriptions, _requester_of(request)
        sent = await subscriptions.send_test(desk, by, _name_of(request))
        return respond(answer(202, notification_view(sent)))

    return [mute_subscription, unmute_subscription, send_test]


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


router = Router(
    "/api/v1/subscriptions",
    route_handlers=[
        *_reading(operators=False),
        *_changing(operators=False),
        confirm_subscription,
    ],
)
installation_router = Router(
    "/api/v1/installation/subscriptions",
    route_handlers=[*_reading(operators=True), *_changing(operators=True)],
)
