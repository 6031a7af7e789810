"""Answers of a server: ``LINEAGE_STORE=https://lineage.example.org``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Self
from urllib.parse import quote

import httpx

from lineage.credentials import token_for
from lineage_core.graph import LinkRecord, NodeRecord
from lineage_core.verdict import Verdict
from lineage_store.answers import Answer, respelled
from lineage_store.asking import Question
from lineage_store.errors import StoreError, StoreUnavailableError
from lineage_store.paths import canonical, plain_path
from lineage_store.port import ApplicationRecord

TIMEOUT_S = 60.0


class ServerError(StoreError):
    """A server refused what was asked; the message and ``kind`` are its own."""

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind or "ServerError"


class ServedAccess:
    """Implements :class:`lineage.access.Access` over the HTTP API of a server."""

    def __init__(self, url: str, token: str | None = None) -> None:
        """``token``: None for that of the environment, or the one that is kept."""
        self._url = url.rstrip("/")
        headers = {"Accept": "application/json"}
        token = token_for(self._url) if token is None else token
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._client = httpx.Client(base_url=self._url, headers=headers, timeout=TIMEOUT_S)

    def applications(self) -> Sequence[ApplicationRecord]:
        return [ApplicationRecord(**one) for one in self._get("/v1/records")["applications"]]

    def find(self, name: str) -> str:
        return str(self._get(f"/v1/applications/{_part(name)}/progress")["app"])

    def graph(self, name: str) -> tuple[str, Sequence[NodeRecord], Sequence[LinkRecord]]:
        found = self._get(f"/v1/applications/{_part(name)}/nodes")
        nodes = [NodeRecord(**node) for node in found["nodes"]]
        return found["app"], nodes, [LinkRecord(**link) for link in found["links"]]

    def verdict(self, app: str) -> Verdict:
        return Verdict.from_json(self._get(f"/v1/applications/{_part(app)}/completeness"))

    def ask(self, question: Question) -> Answer:
        places = [_seen_from_anywhere(place) for place in question.places]
        body: dict[str, Any] = {
            "direction": question.direction.value,
            "places": places,
            "app": question.app,
            "until": question.until,
            "steps": question.steps,
            "limit": question.limit,
        }
        try:
            told = self._send("POST", "/v1/answers", json=body)
        except ServerError as error:
            spelled = dict(zip(places, question.places, strict=True))
            raise ServerError(respelled(str(error), spelled), error.kind) from error
        return Answer.from_json(told).asked_as(question.places)

    def dump(self, name: str) -> Iterator[str]:
        path = f"/v1/applications/{_part(name)}/dump"
        try:
            with self._client.stream("GET", path) as answer:
                if answer.status_code != httpx.codes.OK:
                    answer.read()
                    _refuse(answer)
                yield from answer.iter_lines()
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def delete(self, app: str) -> None:
        self._send("DELETE", f"/v1/applications/{_part(app)}")

    def me(self) -> dict[str, Any]:
        """Who the server takes the caller for."""
        return self._get("/v1/me")

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _get(self, path: str) -> dict[str, Any]:
        return self._send("GET", path)

    def _send(self, method: str, path: str, **given: Any) -> dict[str, Any]:
        try:
            answer = self._client.request(method, path, **given)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if not answer.is_success:
            _refuse(answer)
        if not answer.content:
            return {}
        try:
            found = answer.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ServerError(f"{self._url} is no lineage server: it answers something else")
        return found

    def _unreachable(self, error: httpx.HTTPError) -> StoreUnavailableError:
        return StoreUnavailableError(f"the server at {self._url} does not answer: {error}")


def _refuse(answer: httpx.Response) -> None:
    """Raise what a problem says.

    Raises:
        StoreUnavailableError: not now.
        ServerError: anything else.
    """
    problem: dict[str, Any] = {}
    try:
        problem = answer.json()
        said, hint = str(problem["detail"]), str(problem.get("hint", ""))
    except (ValueError, KeyError, TypeError):
        said, hint = f"the server answered {answer.status_code}", ""
    message = f"{said}; {hint}" if hint else said
    if answer.status_code in (httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.TOO_MANY_REQUESTS):
        raise StoreUnavailableError(message)
    raise ServerError(message, str(problem.get("error", "")) if problem else "")


def _part(name: str) -> str:
    return quote(name, safe="")


def _seen_from_anywhere(place: str) -> str:
    """A place whose file is one of this machine, by its whole path: a server has another folder."""
    for mark in (":", "#", ""):
        path, sign, number = place.rpartition(mark) if mark else (place, "", "")
        if path and (not mark or number.isdecimal()) and os.path.exists(plain_path(path)):
            return canonical(path) + sign + number
    return place
