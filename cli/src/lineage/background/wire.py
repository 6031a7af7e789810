"""Messages between a command and the background session: JSON of known types, each with its length in front."""

from __future__ import annotations

import json
import socket
import struct
import time
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeAlias, get_type_hints

from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer
from lineage_query.trace_query import TraceQuery

REQUEST_BYTES_MAX = 1 << 20
"""Maximum size of a request in bytes: its places are typed by a person."""
REPLY_BYTES_MAX = 256 << 20
"""Maximum size of a reply in bytes; a command that lists more uses its own Spark."""
MESSAGE_S = 60.0
"""Seconds within which a message must be complete, once its first byte has arrived."""
_LENGTH = struct.Struct(">Q")


class WireError(LineageError):
    """A message is invalid, too large, or missing."""


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A query of a command. ``folder``: the command's working directory, for relative paths; ``where``: see `TraceQuery`."""

    folder: str
    direction: str
    places: list[str]
    app: str | None
    until: str | None
    steps: int | None
    limit: int | None
    texts: bool
    as_now: bool
    where: str
    all_jobs: bool
    way: bool

    @classmethod
    def of(cls, question: TraceQuery, folder: str) -> QueryRequest:
        """The request for a query that has no regions."""
        return cls(
            folder,
            question.direction.value,
            list(question.places),
            question.app,
            question.until,
            question.steps,
            question.limit,
            question.texts,
            question.as_now,
            question.where,
            question.all_jobs,
            question.way,
        )

    def question(self) -> TraceQuery:
        """The query in this request.

        Raises:
            WireError: the direction is unknown.
        """
        try:
            direction = Direction(self.direction)
        except ValueError as error:
            raise WireError(str(error)) from error
        return TraceQuery(
            direction,
            tuple(self.places),
            self.app,
            self.until,
            self.steps,
            self.limit,
            self.texts,
            as_now=self.as_now,
            where=self.where,
            all_jobs=self.all_jobs,
            way=self.way,
        )


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply: the answer as `Answer.to_json` gives it."""

    answer: dict[str, Any]

    def read(self) -> Answer:
        """The answer.

        Raises:
            WireError: it is none.
        """
        try:
            return Answer.from_json(self.answer)
        except (KeyError, TypeError, ValueError) as error:
            raise WireError(f"an answer that can't be read: {error!r}") from error


@dataclass(frozen=True, slots=True)
class Refused:
    """A reply: the query has no answer, in any process. ``error``: the type of the error; ``message``: its text.

    ``no_such_row``: the session searched all rows, and none matches the query.
    """

    error: str
    message: str
    no_such_row: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """A reply: the session could not answer; another Spark may be able to."""

    why: str


Message: TypeAlias = QueryRequest | Answered | Refused | Failed
_TYPES: dict[str, type[Message]] = {
    "asked": QueryRequest,
    "answered": Answered,
    "refused": Refused,
    "failed": Failed,
}
_NAMES = {kind: name for name, kind in _TYPES.items()}


def encoded(message: Message) -> bytes:
    """A message as it is sent."""
    body = json.dumps({"type": _NAMES[type(message)], **asdict(message)}).encode("ascii")
    return _LENGTH.pack(len(body)) + body


def send(connection: socket.socket, message: bytes) -> None:
    """Send an encoded message.

    Raises:
        OSError: the other side does not accept it.
    """
    connection.settimeout(MESSAGE_S)
    connection.sendall(message)


def receive(connection: socket.socket, bytes_max: int, begins_s: float | None) -> Message:
    """The next message. ``begins_s``: seconds to wait for its first byte; None: without limit.

    Raises:
        WireError: it does not arrive, is too large, or is invalid.
        OSError: the connection broke.
    """
    connection.settimeout(begins_s)
    try:
        first = connection.recv(1)
        due = time.monotonic() + MESSAGE_S
        head = first + _read(connection, _LENGTH.size - len(first), due) if first else b""
        if not head:
            raise WireError("the other side closed the connection without a reply")
        (length,) = _LENGTH.unpack(head)
        if length > bytes_max:
            raise WireError(f"a message of {length:,} bytes is too large")
        return _decoded(_read(connection, length, due))
    except TimeoutError as error:
        raise WireError("the other side sends nothing") from error


def _read(connection: socket.socket, length: int, due: float) -> bytes:
    parts: list[bytes] = []
    while length:
        connection.settimeout(max(0.001, due - time.monotonic()))
        part = connection.recv(min(length, 1 << 20))
        if not part:
            raise WireError("the other side ended within a message")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _decoded(body: bytes) -> Message:
    """A message of a known type, every field of which is there and of its type.

    Raises:
        WireError: it is none.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise WireError("a message that is no JSON") from error
    if not isinstance(document, dict) or document.get("type") not in _TYPES:
        raise WireError("a message of no known type")
    kind = _TYPES[document.pop("type")]
    hints = get_type_hints(kind)
    if set(document) != {field.name for field in fields(kind)}:
        raise WireError(f"a message {_NAMES[kind]!r} with other fields")
    for name, value in document.items():
        if not _is_of(value, hints[name]):
            raise WireError(f"a message {_NAMES[kind]!r} whose {name} is of another type")
    return kind(**document)


def _is_of(value: Any, hint: Any) -> bool:
    if hint == list[str]:
        return isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    if hint == dict[str, Any]:
        return isinstance(value, dict)
    # bool is an int for Python.
    return isinstance(value, hint) and not (isinstance(value, bool) and hint is not bool)
