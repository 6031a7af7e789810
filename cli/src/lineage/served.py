"""Answers of a server: ``LINEAGE_STORE=https://lineage.example.org``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter

from lineage.credentials import token_for
from lineage_core.contract.graph import ContainerRecord, LinkRecord, NodeRecord
from lineage_core.contract.times import time_text
from lineage_core.contract.verdict import Verdict
from lineage_core.environment.shown_address import shown_address
from lineage_core.tracing.trace_result import TraceError
from lineage_query.answers import Answer, respelled
from lineage_query.rows.places import parse_place, parse_valued
from lineage_query.trace_query import TraceQuery
from lineage_service.local_servers import running_at
from lineage_store.errors import StoreError, StoreUnavailableError
from lineage_store.paths import canonical, plain_path
from lineage_store.port import ApplicationRecord

if TYPE_CHECKING:
    from typing_extensions import Self

    from lineage.access import Output
    from lineage_openlineage.naming import Naming
    from lineage_openlineage.sending import OpenLineageRun
    from lineage_query.application_search import ApplicationSearch, FoundApplications
    from lineage_query.comparing import Difference
    from lineage_query.erasure.finding import SubjectQuery
    from lineage_query.erasure.plan import Plan, Purpose
    from lineage_query.exports import Exported, ExportOptions
    from lineage_query.jobs import DatasetRuns, Datasets, Job, Run
    from lineage_query.record_views import ViewSelection, ViewSummary
    from lineage_query.run_difference import RunDifference
    from lineage_query.suspects.answer import Suspects
    from lineage_query.suspects.query import SuspectsQuery

PAGE_MAX = 1_000
"""Items that a server lists at once."""
UNREADABLE = "the server's answer can't be read: is it of another version?"
TIMEOUT_S = 60.0
STREAM_TIMEOUT_S = 600.0
"""The server completes files and views before it sends their first byte."""


class ServerError(StoreError):
    """A server refused a request; the message and ``kind`` are the server's."""

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind or "ServerError"


class ServedAccess:
    """Implements :class:`lineage.access.Access` over the HTTP API of a server."""

    def __init__(self, url: str, token: str | None = None) -> None:
        """``token``: None for that of the environment, or the stored one."""
        local = running_at(url)
        # Use the address that the server listens on: another user may listen on another address of the same name.
        self._url = (url if local is None else local.url).rstrip("/")
        headers = {"Accept": "application/json"}
        token = token_for(self._url) if token is None else token
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._client = httpx.Client(base_url=self._url, headers=headers, timeout=TIMEOUT_S)

    def applications(self) -> Sequence[ApplicationRecord]:
        # A newer service may send more fields, which are left out.
        records = self._get("/v1/records")["applications"]
        return TypeAdapter(list[ApplicationRecord]).validate_python(records)

    def search_applications(self, search: ApplicationSearch) -> FoundApplications:
        from lineage_query.application_search import FoundApplications

        times = {"since": search.since, "until": search.until}
        query = {
            "search": search.text,
            "dataset": search.dataset,
            "call_site": search.call_site,
            "column": search.column,
            **{name: time_text(at) for name, at in times.items() if at is not None},
        }
        items, page = self._listed("/v1/applications", query)
        found = {item["app"] for item in items}
        records = tuple(record for record in self.applications() if record.app in found)
        return FoundApplications(records, page["searched"], page["searched_of"], page["withheld"])

    def jobs(self, limit: int | None) -> Sequence[Job]:
        from lineage_query.jobs import Job

        items, _ = self._listed("/v1/jobs", {}, limit)
        return TypeAdapter(list[Job]).validate_python(items)

    def runs(self, job: str, limit: int | None) -> Sequence[Run]:
        from lineage_query.jobs import Run

        items, _ = self._listed("/v1/runs", {"job": job}, limit)
        return TypeAdapter(list[Run]).validate_python(items)

    def datasets(self, text: str) -> Datasets:
        from lineage_query.jobs import Dataset, Datasets

        items, page = self._listed("/v1/datasets", {"search": text})
        return Datasets(
            TypeAdapter(tuple[Dataset, ...]).validate_python(items),
            page["runs"],
            page["runs_total"],
            page["runs_withheld"],
        )

    def dataset_runs(self, namespace: str, name: str) -> DatasetRuns:
        from lineage_query.jobs import DatasetRun, DatasetRuns

        named = {"namespace": namespace, "name": name}
        items, page = self._listed("/v1/datasets/runs", named)
        return DatasetRuns(
            TypeAdapter(tuple[DatasetRun, ...]).validate_python(items),
            page["runs"],
            page["runs_total"],
            page["runs_withheld"],
        )

    def _listed(
        self, path: str, parameters: dict[str, str], limit: int | None = None
    ) -> tuple[list[Any], dict[str, Any]]:
        """Items of all pages of a list, and the last page."""
        items: list[Any] = []
        cursor: str | None = None
        while True:
            left = PAGE_MAX if limit is None else min(PAGE_MAX, limit - len(items))
            query = parameters | {"limit": str(left)} | ({"cursor": cursor} if cursor else {})
            page = self._get(path, params=query)
            items += page["items"]
            cursor = page["next"]
            if cursor is None or (limit is not None and len(items) >= limit):
                return items, page

    def find(self, name: str) -> str:
        return str(self._get(f"/v1/applications/{_part(name)}/progress")["app"])

    def graph(self, name: str) -> tuple[str, Sequence[NodeRecord], Sequence[LinkRecord]]:
        document = self._get(f"/v1/applications/{_part(name)}/nodes")
        nodes = [_node_of(node) for node in document["nodes"]]
        return document["app"], nodes, [LinkRecord(**link) for link in document["links"]]

    def verdict(self, app: str) -> Verdict:
        return Verdict.from_json(self._get(f"/v1/applications/{_part(app)}/completeness"))

    def files_read(self, app: str, verdict: Verdict) -> Verdict:
        # The server reads what its verdict needs, and no more.
        return verdict

    def answerable(self, app: str, verdict: Verdict, most_s: float | None = None) -> Verdict:
        # The server's verdict includes this already, where the server can determine it.
        return verdict

    def probed(self, app: str, verdict: Verdict, rows: int) -> Verdict:
        raise TraceError("--probe runs queries of Spark: use the store itself, not a server")

    def ask(self, question: TraceQuery) -> Answer:
        places = [_seen_from_anywhere(place) for place in question.places]
        body = _query_body(question, places) | {"limit": question.limit}
        if question.as_now:
            # Sent only when set: an older server, which does not know the field, refuses the request.
            body["as_now"] = True
        if question.all_jobs:
            body["all_jobs"] = True
        if question.way:
            body["way"] = True
        if question.by != "row":
            body["by"] = question.by
        with _spelled(places, question.places):
            document = self._send("POST", "/v1/answers", json=body)
        return Answer.from_json(document).with_typed_places(question.places)

    def compare(self, left: TraceQuery, right: TraceQuery) -> Difference:
        from lineage_query.comparing import Difference

        typed = (*left.places, *right.places)
        places = [_seen_from_anywhere(place) for place in typed]
        body = {
            "direction": left.direction.value,
            "left": places[: len(left.places)],
            "right": places[len(left.places) :],
            "app": left.app,
            "limit": left.limit,
        }
        with _spelled(places, typed):
            difference = Difference.from_json(self._send("POST", "/v1/answers/diff", json=body))
        spelled = dict(zip(places, typed, strict=True))
        return replace(
            difference,
            left=replace(difference.left, requested_places=left.places),
            right=replace(difference.right, requested_places=right.places),
            warnings=tuple(respelled(warning, spelled) for warning in difference.warnings),
        )

    def compare_runs(
        self, query: TraceQuery, places: tuple[str, str], runs: tuple[str, str]
    ) -> RunDifference:
        from lineage_query.run_difference import RunDifference

        sent = [_seen_from_anywhere(place) for place in places]
        body = {
            "direction": query.direction.value,
            "left": {"app": runs[0], "places": sent[:1]},
            "right": {"app": runs[1], "places": sent[1:]},
            "limit": query.limit,
        }
        with _spelled(sent, places):
            document = self._send("POST", "/v1/answers/runs-diff", json=body)
        difference = RunDifference.from_json(document)
        spelled = dict(zip(sent, places, strict=True))
        return replace(
            difference,
            left=replace(difference.left, requested_places=places[:1]),
            right=replace(difference.right, requested_places=places[1:]),
            warnings=tuple(respelled(warning, spelled) for warning in difference.warnings),
        )

    def plan(self, purpose: Purpose, query: SubjectQuery) -> Plan:
        from lineage_query.erasure.plan import Plan

        route = "/v1/erasure-plans" if purpose == "erase" else "/v1/access-reports"
        document = self._send("POST", route, json=_subject_body(query), timeout=STREAM_TIMEOUT_S)
        try:
            plan = Plan.from_json(document)
        except (KeyError, TypeError) as error:
            raise ServerError(UNREADABLE) from error
        if plan.digest != document.get("digest"):
            # What can't be read would be left out of what is approved.
            raise ServerError(UNREADABLE)
        return plan

    def suspects(self, query: SuspectsQuery) -> Suspects:
        from lineage_query.suspects.answer import Suspects

        typed = (*query.bad, *query.good)
        sent = [_seen_from_anywhere(place) for place in typed]
        body: dict[str, Any] = {
            "places": sent[: len(query.bad)],
            "app": query.app,
            "limit": query.limit,
            "good": sent[len(query.bad) :],
            "formula": query.formula,
            "tasks": query.with_tasks,
        }
        with _spelled(sent, typed):
            ranked = Suspects.from_json(self._send("POST", "/v1/answers/suspects", json=body))
        # As it was typed first.
        spelled = dict(zip(reversed(sent), reversed(typed), strict=True))
        return replace(
            ranked,
            requested_places=tuple(spelled[place] for place in ranked.requested_places),
            good_places=tuple(spelled[place] for place in ranked.good_places),
            warnings=tuple(respelled(warning, spelled) for warning in ranked.warnings),
        )

    def dump(self, name: str) -> Iterator[str]:
        with self._streamed("GET", f"/v1/applications/{_part(name)}/dump") as answer:
            yield from answer.iter_lines()

    def delete(self, app: str) -> None:
        self._send("DELETE", f"/v1/applications/{_part(app)}")

    def export(
        self, question: TraceQuery, name: str, output: Output, options: ExportOptions
    ) -> Exported:
        from lineage_query.exports import Exported

        places = [_seen_from_anywhere(place) for place in question.places]
        body = _query_body(question, places) | {
            "asked": list(question.places),
            "format": name,
            "way": options.in_between,
            "texts": options.texts,
            "items_max": options.items_max,
        }
        if question.all_jobs:
            body["all_jobs"] = True
        with (
            _spelled(places, question.places),
            self._streamed("POST", "/v1/answers/file", json=body) as answer,
        ):
            parts = answer.iter_bytes()
            head, rest = _first_line(parts)
            size = len(rest)
            with output() as stream:
                stream.write(rest)
                for part in parts:
                    size += stream.write(part)
                if size != head["bytes"]:
                    raise StoreUnavailableError(
                        f"{shown_address(self._url)} broke off after {size:,} of {head['bytes']:,} bytes"
                    )
        return Exported.from_json(head)

    def openlineage(self, name: str, naming: Naming) -> OpenLineageRun:
        from lineage_openlineage.sending import OpenLineageRun

        parameters = {key: value for key, value in asdict(naming).items() if value}
        document = self._get(f"/v1/applications/{_part(name)}/openlineage", params=parameters)
        return OpenLineageRun(document["app"], document["run"], document["events"])

    def create_view(
        self, name: str, selection: ViewSelection, report: Callable[[int, int], None] | None
    ) -> ViewSummary:
        from lineage_query.record_views import ViewSummary

        places = [_seen_from_anywhere(place) for place in selection.places]
        body = {
            "places": places,
            "direction": selection.direction.value,
            "limit": selection.limit,
            "texts": selection.texts,
        }
        path = f"/v1/applications/{_part(name)}/record-view"
        spelled = dict(zip(places, selection.places, strict=True))
        with (
            _spelled(places, selection.places),
            self._streamed("POST", path, json=body) as answer,
        ):
            for line in answer.iter_lines():
                event = json.loads(line)
                if "problem" in event:
                    _refuse(event["problem"]["status"], event["problem"])
                if "made" in event:
                    summary = ViewSummary.from_json(event["made"])
                    warnings = tuple(respelled(warning, spelled) for warning in summary.warnings)
                    return replace(summary, warnings=warnings)
                if report is not None:
                    report(event["done"], event["total"])
        raise StoreUnavailableError(
            f"{shown_address(self._url)} broke off; the same command goes on from there"
        )

    def remove_view(self, name: str) -> tuple[str, int]:
        document = self._send("DELETE", f"/v1/applications/{_part(name)}/record-view")
        return document["app"], document["removed"]

    def array_applications(self, limit: int) -> dict[str, Any]:
        """The latest applications that recorded arrays, as the server lists them."""
        return self._get("/v1/arrays", params={"limit": limit})

    def trace_cells(self, question: dict[str, Any]) -> dict[str, Any]:
        """A trace of cells, as the server gives it."""
        return self._send("POST", "/v1/arrays/trace", json=question)

    def array_picture(self, app: str, array: str, plane: str, side: int) -> dict[str, Any]:
        """The values of a plane of an array as a picture, as :func:`lineage_arrays.pictures.draw_cells` has them."""
        path = f"/v1/applications/{_part(app)}/arrays/{_part(array)}/picture"
        return self._get(path, params={"plane": plane, "side": side, "robust": True})

    def me(self) -> dict[str, Any]:
        """Who the server takes the caller for."""
        return self._get("/v1/me")

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _get(self, path: str, **arguments: Any) -> dict[str, Any]:
        return self._send("GET", path, **arguments)

    @contextmanager
    def _streamed(self, method: str, path: str, **arguments: Any) -> Iterator[httpx.Response]:
        """An answer that is read as it comes."""
        try:
            with self._client.stream(method, path, timeout=STREAM_TIMEOUT_S, **arguments) as answer:
                if not answer.is_success:
                    answer.read()
                    _refuse(answer.status_code, _problem_of(answer))
                yield answer
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _send(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        try:
            answer = self._client.request(method, path, **arguments)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if not answer.is_success:
            _refuse(answer.status_code, _problem_of(answer))
        if not answer.content:
            return {}
        try:
            document = answer.json()
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise ServerError(
                f"{shown_address(self._url)} is no lineage server: it answers something else"
            )
        return document

    def _unreachable(self, error: httpx.HTTPError) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"the server at {shown_address(self._url)} does not answer: {error}"
        )


def _problem_of(answer: httpx.Response) -> dict[str, Any]:
    """The problem document of a response; empty where there is none that can be read."""
    try:
        problem = answer.json()
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) and "detail" in problem else {}


def _refuse(status: int, problem: dict[str, Any]) -> NoReturn:
    """Raise the error that a problem document describes.

    Raises:
        StoreUnavailableError: the server is unavailable or busy.
        ServerError: any other problem.
    """
    detail = str(problem.get("detail", f"the server answered {status}"))
    hint = str(problem.get("hint", ""))
    message = f"{detail}; {hint}" if hint else detail
    if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        raise StoreUnavailableError(message)
    raise ServerError(message, str(problem.get("error", "")))


@contextmanager
def _spelled(places: Sequence[str], typed: Sequence[str]) -> Iterator[None]:
    """In errors of the server, replace places by the form in which the user typed them."""
    try:
        yield
    except ServerError as error:
        spelled = dict(zip(places, typed, strict=True))
        raise ServerError(respelled(str(error), spelled), error.kind) from error


def _subject_body(query: SubjectQuery) -> dict[str, Any]:
    """A query for rows of a subject, its source by the whole path, as a server has another folder; or by the name of a table."""
    from lineage_query.erasure.named_sources import is_name

    query.check()
    is_path = "://" not in query.source and not (
        is_name(query.source) and not os.path.exists(query.source)
    )
    return {
        "source": canonical(query.source) if is_path else query.source,
        "where": query.where or None,
        "rows": list(query.rows),
        "subjects": asdict(query.subjects) if query.subjects.keys else None,
        "format": query.form.format or None,
        "columns": list(query.form.columns),
        "separator": query.form.separator,
        "expect": query.expected,
        "identity": list(query.identity),
    }


def _query_body(question: TraceQuery, places: Sequence[str]) -> dict[str, Any]:
    body = {
        "direction": question.direction.value,
        "places": list(places),
        "app": question.app,
        "until": question.until,
        "steps": question.steps,
    }
    # Sent only when set: an older server, which does not know the field, refuses the request.
    return body | ({"where": question.where} if question.where else {})


def _first_line(parts: Iterator[bytes]) -> tuple[dict[str, Any], bytes]:
    """The JSON object in the first line of a response, and the bytes that were read after it.

    Raises:
        ServerError: the response does not begin with one.
    """
    read = b""
    for part in parts:
        read += part
        if b"\n" in part:
            break
    line, _, rest = read.partition(b"\n")
    try:
        head = json.loads(line)
        head["bytes"] += 0
    except (ValueError, KeyError, TypeError) as error:
        raise ServerError(UNREADABLE) from error
    return head, rest


def _part(name: str) -> str:
    return quote(name, safe="")


def _is_here(path: str) -> bool:
    """Whether there is such a file, or was in a folder that there is."""
    return os.path.exists(path) or (os.sep in path and os.path.isdir(os.path.dirname(path)))


def _node_of(document: dict[str, Any]) -> NodeRecord:
    """A node as a server sends it; an older one sends no containers."""
    containers = tuple(ContainerRecord(**container) for container in document.get("containers", ()))
    return NodeRecord(**document | {"containers": containers})


def _seen_from_anywhere(place: str) -> str:
    """A place whose file is one of this machine, by its whole path: a server has another folder."""
    valued = parse_valued(place)
    if valued is not None:
        exists = os.path.exists(plain_path(valued.of))
        return str(replace(valued, of=canonical(valued.of))) if exists else place
    split_path, _, split = place.rpartition("@")
    if split_path and parse_place(place).split is not None and _is_here(plain_path(split_path)):
        return f"{canonical(split_path)}@{split}"
    for mark in (":", "#", ""):
        path, sign, number = place.rpartition(mark) if mark else (place, "", "")
        if path and (not mark or number.isdecimal()) and _is_here(plain_path(path)):
            return canonical(path) + sign + number
    return place
