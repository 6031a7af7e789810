"""The budget of every request: it ends with its time, and when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lineage_core.tracing.budget import Budget, use_budget
from lineage_query_api.problems import budget_problem

GRACE_S = 2.0
"""Seconds after its time limit in which a request may still respond itself that it takes too long."""

CHECK_EVERY_S = 5.0
"""Seconds after which it is seen whether the time has become another."""


class Budgeted:
    """ASGI middleware: answers each request below ``/v1/`` within a budget.

    Work for it stops at checks of :func:`lineage_core.tracing.budget.current_budget`. A request that reaches none, because a
    store hangs for example, gets a response without it. ``new``: creates a budget.
    """

    def __init__(self, app: ASGIApp, *, new: Callable[[], Budget]) -> None:
        self._app = app
        self._new = new
        self._abandoned: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith("/v1/"):
            # A request that was sent behind another on its connection starts in the context of that one.
            with use_budget(Budget()):
                await self._app(scope, receive, send)
            return
        with use_budget(self._new()) as budget:
            await self._answer(budget, scope, receive, send)

    async def _answer(self, budget: Budget, scope: Scope, receive: Receive, send: Send) -> None:
        client = _Client(budget, receive, send)
        reading = asyncio.create_task(client.read())
        answering = asyncio.create_task(self._run(scope, client))
        try:
            await _wait_for(answering, budget)
            if answering.done():
                _raise_failure(answering, budget, client)
                return
            client.is_closed = True
            if client.has_started:
                raise budget.time_up_error()
            refusal = budget_problem(scope["state"].get("request_id", ""), budget.time_up_error())
            await refusal(scope, receive, send)
        finally:
            reading.cancel()
            if not answering.done():
                self._abandon(budget, answering)

    async def _run(self, scope: Scope, client: _Client) -> None:
        await self._app(scope, client.receive, client.send)

    def _abandon(self, budget: Budget, task: asyncio.Task[None]) -> None:
        """Cancel an abandoned request; its thread ends at the next check."""
        budget.abandon()
        task.cancel()
        self._abandoned.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled():
            # The client has disconnected: there is no recipient for the error.
            task.exception()


class _Client:
    """The two ways to a client. It is listened to from the beginning, so that it is known when it leaves."""

    def __init__(self, budget: Budget, receive: Receive, send: Send) -> None:
        self._budget = budget
        self._receive, self._send = receive, send
        self._messages: asyncio.Queue[Message | HTTPException] = asyncio.Queue()
        self.has_started = self.is_closed = False

    async def read(self) -> None:
        """Receive from the client (the size of bodies is limited) until it disconnects."""
        while True:
            try:
                message = await self._receive()
            except HTTPException as error:
                self._messages.put_nowait(error)
                return
            if message["type"] == "http.disconnect":
                self._budget.abandon()
            self._messages.put_nowait(message)
            if message["type"] == "http.disconnect":
                return

    async def receive(self) -> Message:
        message = await self._messages.get()
        if isinstance(message, HTTPException):
            raise message
        return message

    async def send(self, message: Message) -> None:
        if self.is_closed:
            return
        self.has_started = True
        await self._send(message)


def _raise_failure(answering: asyncio.Task[None], budget: Budget, client: _Client) -> None:
    """The outcome of a response.

    Raises:
        BudgetError: it aborted a stream. Other errors raised meanwhile are irrelevant, and costly to log.
        Exception: the response raised it.
    """
    problem = answering.exception()
    if problem is not None and client.has_started:
        budget.check()
    if problem is not None:
        raise problem


async def _wait_for(task: asyncio.Task[None], budget: Budget) -> None:
    """Wait for a task as long as a budget lasts, which it may make longer."""
    while not task.done() and budget.left_s > 0:
        await asyncio.wait({task}, timeout=min(budget.left_s, CHECK_EVERY_S))
    if not task.done():
        await asyncio.wait({task}, timeout=GRACE_S)
