"""The planted bugs of the way to remote workers: most of them lie in gateways."""

from typing import Any

from proof.campaigns.planting import planted, sql, swap


@planted("grant-not-asked")
def _grant_not_asked() -> None:
    """A worker is told to begin, and the store is not asked."""

    def make(_original: Any) -> Any:
        def ask(_self: Any, session: Any, claimed: Any) -> None:
            session.grants[claimed] = True
            session.unsaid_grants = True

        return ask

    swap("gnomon.node.remote.conversation:Conversation._ask", make)


@planted("adopted-and-released")
def _adopted_and_released() -> None:
    """A gateway that adopts a session releases all that runs on it, whatever its worker holds."""

    def make(original: Any) -> Any:
        def order(self: Any, session: Any, unheld: Any) -> None:
            from gnomon.pipe.envelope import Report

            for execution in [e for e in session.held.values() if e.adopted and not e.begun]:
                if execution.delivery.start_by < 0:  # it came with the session
                    self.pipe.drop(session, execution)
                    self.pipe.report(Report(execution.delivery))
            original(self, session, unheld)

        return order

    swap("gnomon.node.remote.conversation:Conversation._order_stops", make)


@planted("receipt-before-commit")
def _receipt_before_commit() -> None:
    """Reports are acknowledged when they come, and written afterwards."""

    def make(original: Any) -> Any:
        def report(self: Any, report: Any) -> None:
            original(self, report)
            self.acknowledge([report], accepted=True)

        return report

    swap("gnomon.pipe.http.http_pipe:HttpPipe.report", make)


@planted("ack-late")
def _ack_late() -> None:
    """A worker tells of a delivery only once it has run it."""

    def make(_original: Any) -> Any:
        def claims(self: Any) -> tuple[Any, ...]:
            return tuple(held.claim for held in self._held.values() if held.report is not None)

        return claims

    swap("gnomon.remote.held:HeldDeliveries.claims", make)


@planted("answer-to-another")
def _answer_to_another() -> None:
    """Some answers go to another worker that waits."""
    import msgspec

    def make(original: Any) -> Any:
        async def answer(self: Any, link: Any, call: Any, made: Any) -> None:
            others = [each for each in self._calls if each != call.answer_to]
            if others and call.number % 7 == 0:
                call = msgspec.structs.replace(call, answer_to=others[0])
            await original(self, link, call, made)

        return answer

    swap("gnomon.api.workers.pipe_listener:PipeListener._answer", make)


@planted("grant-skipped")
def _grant_skipped() -> None:
    """A worker begins what asks, and does not wait for the answer."""

    def make(_original: Any) -> Any:
        async def begin(_self: Any, deliveries: Any) -> Any:
            return {(delivery.key, delivery.fence) for delivery in deliveries}

        return begin

    swap("gnomon.remote.grants:StartGrants.begin", make)


@planted("credit-leak")
def _credit_leak() -> None:
    """Every fourth poll costs its session a slot, for ever."""

    def make(original: Any) -> Any:
        def offer(self: Any, session: Any, slots: int) -> None:
            original(self, session, max(0, slots - session.sequence // 4))

        return offer

    swap("gnomon.pipe.http.http_pipe:HttpPipe.offer", make)


@planted("envelope-without-fence")
def _envelope_without_fence() -> None:
    """A delivery does not say under which fence it was claimed, and its report is taken by the task
    alone."""
    import msgspec

    def make(original: Any) -> Any:
        def delivered_task(delivery: Any, now: float) -> Any:
            return msgspec.structs.replace(original(delivery, now), fence=0)

        return delivered_task

    swap("gnomon.node.remote.conversation:delivered_task", make)


@planted("session-resurrects")
def _session_resurrects() -> None:
    sql(
        {
            "renew_worker_sessions": [
                (" AND NOT dead", ""),
                ("beat = beat + 1", "beat = beat + 1, dead = false"),
            ],
            "worker_session": [("gateway, dead,", "gateway, false AS dead,")],
        }
    )
