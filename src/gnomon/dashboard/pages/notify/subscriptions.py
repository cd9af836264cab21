"""Subscriptions: who is told of which events, by which channel, and how that goes. Of a tenant for
its people, of the installation for operators."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from urllib.parse import quote

import msgspec
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from gnomon.access.principal import Operator, Requester, Role
from gnomon.api.context import Request, context_of
from gnomon.api.http.document.operation import PageRoute
from gnomon.api.http.requests.reading import decoded, read_form
from gnomon.api.notify.documents import MuteSubscription, subscription_view
from gnomon.dashboard.forms import subscription_form
from gnomon.dashboard.forms.local_time import zone_names
from gnomon.dashboard.forms.values import Refusal, number
from gnomon.dashboard.rendering import page, redirect
from gnomon.dashboard.text.event_words import KINDS
from gnomon.model.errors import GnomonError, InvalidTask
from gnomon.model.insight.severity import Severity
from gnomon.model.subscription_errors import SubscriptionNotFound
from gnomon.notify.subscription import Subscription
from gnomon.settings import OVERHEAD_BYTES
from gnomon.usecases.notify import subscriptions

_FINE = Refusal(200, {})


class SubscriptionPages(msgspec.Struct, frozen=True):
    """The pages of the subscriptions of a tenant, or of the installation."""

    path: str
    reads: Role
    changes: Role
    title: str

    def routes(self) -> tuple[HTTPRouteHandler, ...]:
        """Its list, one of it, and what can be done with it."""

        @PageRoute("GET", self.path, role=self.reads)
        async def show_all(request: Request) -> ASGIResponse:
            return await self._all(request, subscription_form.EMPTY, _FINE)

        @PageRoute("GET", f"{self.path}/{{name:str}}", role=self.reads)
        async def show_one(request: Request) -> ASGIResponse:
            return await self._one(request, None, _FINE)

        @PageRoute("POST", self.path, role=self.changes, grows=True)
        async def create(request: Request) -> ASGIResponse:
            form = subscription_form.EMPTY | await read_form(request, OVERHEAD_BYTES)
            name = form["name"].strip()
            try:
                await _check_free(request, name)
                await _put(request, name, form)
            except GnomonError as error:
                reasons = subscription_form.refusal_beside(error)
                return await self._all(request, subscription_form.without_secrets(form), reasons)
            return redirect(f"{self._at(name)}?done=subscription_created")

        @PageRoute("POST", f"{self.path}/{{name:str}}", role=self.changes, grows=True)
        async def change(request: Request) -> ASGIResponse:
            # A box that is not ticked is not sent.
            blank = dict.fromkeys(subscription_form.EMPTY, "")
            form, name = blank | await read_form(request, OVERHEAD_BYTES), _name(request)
            await subscriptions.get(context_of(request).subscriptions, _requester(request), name)
            try:
                await _put(request, name, form)
            except GnomonError as error:
                reasons = subscription_form.refusal_beside(error)
                return await self._one(request, subscription_form.without_secrets(form), reasons)
            return redirect(f"{self._at(name)}?done=subscription_changed")

        return show_all, show_one, create, change, *self._actions()

    def _actions(self) -> tuple[HTTPRouteHandler, ...]:
        @PageRoute("POST", f"{self.path}/{{name:str}}/test", role=self.changes, grows=True)
        async def send_test(request: Request) -> ASGIResponse:
            await read_form(request, OVERHEAD_BYTES)
            desk, name = context_of(request).subscriptions, _name(request)
            await subscriptions.send_test(desk, _requester(request), name)
            return redirect(f"{self._at(name)}?done=test_sent")

        @PageRoute("POST", f"{self.path}/{{name:str}}/mute", role=self.changes)
        async def mute(request: Request) -> ASGIResponse:
            form = await read_form(request, OVERHEAD_BYTES)
            hours = number(form.get("hours", "")) or 1
            seconds = hours if isinstance(hours, str) else hours * 3600
            asked = decoded(msgspec.json.encode({"seconds": seconds}), MuteSubscription)
            until = context_of(request).clock.now() + timedelta(seconds=asked.seconds or 0)
            return await self._muted(request, until, "muted")

        @PageRoute("POST", f"{self.path}/{{name:str}}/unmute", role=self.changes)
        async def unmute(request: Request) -> ASGIResponse:
            await read_form(request, OVERHEAD_BYTES)
            return await self._muted(request, None, "unmuted")

        @PageRoute("POST", f"{self.path}/{{name:str}}/delete", role=self.changes)
        async def delete(request: Request) -> ASGIResponse:
            await read_form(request, OVERHEAD_BYTES)
            desk = context_of(request).subscriptions
            await subscriptions.delete(desk, _requester(request), _name(request))
            return redirect(f"{self.path}?done=subscription_deleted")

        return send_test, mute, unmute, delete

    async def _muted(self, request: Request, until: datetime | None, done: str) -> ASGIResponse:
        desk, name = context_of(request).subscriptions, _name(request)
        await subscriptions.mute(desk, _requester(request), name, until)
        return redirect(f"{self._at(name)}?done={done}")

    def _at(self, name: str) -> str:
        return f"{self.path}/{quote(name, safe='')}"

    async def _all(
        self, request: Request, form: Mapping[str, str], refusal: Refusal
    ) -> ASGIResponse:
        context, by = context_of(request), _requester(request)
        found = await context.subscriptions.store.list(subscriptions.owner_of(by))
        now = context.clock.now()
        return self._page(
            request,
            "subscriptions.html",
            form,
            refusal,
            subscriptions=[(subscription_view(each), state_of(each, now)) for each in found],
        )

    async def _one(
        self, request: Request, form: Mapping[str, str] | None, refusal: Refusal
    ) -> ASGIResponse:
        context, by, name = context_of(request), _requester(request), _name(request)
        found = await subscriptions.get(context.subscriptions, by, name)
        return self._page(
            request,
            "subscription.html",
            subscription_form.form_of(found.rules) if form is None else form,
            refusal,
            each=subscription_view(found),
            state=state_of(found, context.clock.now()),
            here=self._at(name),
            sent=await subscriptions.notifications(context.subscriptions, by, name),
        )

    def _page(
        self,
        request: Request,
        template: str,
        form: Mapping[str, str],
        refusal: Refusal,
        **values: object,
    ) -> ASGIResponse:
        of_operators = isinstance(_requester(request), Operator)
        return page(
            request,
            template,
            refusal.status,
            path=self.path,
            title=self.title,
            of_operators=of_operators,
            channels=[
                each
                for each in subscription_form.CHANNELS.items()
                if of_operators or each[0] != "apprise"
            ],
            severities=[(str(each), str(each)) for each in Severity],
            kinds=KINDS,
            zones=zone_names(),
            form=form,
            reasons=refusal.reasons,
            **values,
        )


def state_of(subscription: Subscription, now: datetime) -> str:
    """Whether it is told of anything, in a word."""
    if not subscription.rules.enabled:
        return "disabled"
    if not subscription.may_be_sent:
        return "unconfirmed"
    if subscription.muted_until is not None and subscription.muted_until > now:
        return "muted"
    return "failing" if subscription.failing_since is not None else "live"


async def _put(request: Request, name: str, form: Mapping[str, str]) -> None:
    desk, by = context_of(request).subscriptions, _requester(request)
    asked = subscription_form.asked_of(form)
    await subscriptions.put(desk, by, name, asked.channel, asked.rules())


async def _check_free(request: Request, name: str) -> None:
    """Raises InvalidTask where there is a subscription of this name: it is changed on its page."""
    with suppress(SubscriptionNotFound):
        desk = context_of(request).subscriptions
        await subscriptions.get(desk, _requester(request), name)
        detail = "is the name of another subscription; choose another, or change that one"
        raise InvalidTask(detail, "/name")


def _requester(request: Request) -> Requester:
    requester: Requester = request.scope["auth"]
    return requester


def _name(request: Request) -> str:
    name: str = request.path_params["name"]
    return name


ROUTES = (
    *SubscriptionPages("/subscriptions", Role.READ, Role.ADMIN, "Notifications").routes(),
    *SubscriptionPages(
        "/operator-subscriptions", Role.OPERATOR, Role.OPERATOR, "Operator notifications"
    ).routes(),
)
