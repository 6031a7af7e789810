"""Audit records of commands that ask where a person's rows went, or erase them."""

from __future__ import annotations

import getpass
import json
import os
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from lineage.servers import SERVER_SCHEMES
from lineage_core.environment.shown_address import shown_address
from lineage_core.errors import LineageError

if TYPE_CHECKING:
    from lineage_query.erasure.finding import SubjectQuery

Answered = Callable[[Mapping[str, Any]], None]
"""Records what a command is about to answer."""


class NotAuditedError(LineageError):
    """A record could not be kept, so nothing is done, or nothing is answered."""


@contextmanager
def audited(command: str, url: str, query: SubjectQuery) -> Iterator[Answered]:
    """Record a command before it begins, and what it answers before it does, where `LINEAGE_API_AUDIT` names a log.

    The record is the one that a server keeps of a request, by the user of this machine. Commands that ask a server are
    recorded there.

    Args:
        command: with the option that says what it does: ``erase --apply``.
        url: the store.
        query: whose rows.

    Yields:
        To be called with what is answered, once, before it is printed.

    Raises:
        NotAuditedError: a record can't be kept.
        SettingsError: the setting is no destination.
    """
    destination = os.environ.get("LINEAGE_API_AUDIT", "")
    if not destination or url.startswith(SERVER_SCHEMES):
        yield lambda _: None
        return
    from lineage_query_api.audit_fields import question_fields
    from lineage_query_api.audit_log import AuditError, open_audit
    from lineage_query_api.settings import read_settings

    log = open_audit(destination, read_settings().api_audit_days)
    assert log is not None
    question = json.dumps(asdict(query)).encode()
    fields = {
        "id": uuid.uuid4().hex,
        "from": socket.gethostname(),
        "caller": {"name": _user(), "identity": f"uid:{os.getuid()}", "by": "command line"},
        "command": command,
        "store": shown_address(url),
        **question_fields(question),
    }

    def record(event: str, more: Mapping[str, Any]) -> None:
        at = datetime.now(timezone.utc).isoformat()
        try:
            log.write_record(json.dumps({"at": at, "event": event, **more, **fields}))
        except AuditError as error:
            raise NotAuditedError(
                f"the audit log (LINEAGE_API_AUDIT) can't be written, so nothing is "
                f"{'done' if event == 'request' else 'answered'}: {error}"
            ) from error

    def answer(what: Mapping[str, Any]) -> None:
        record("response", {"status": "answered", **what})

    try:
        record("request", {})
        try:
            yield answer
        except NotAuditedError:
            raise
        except BaseException as error:
            record("response", {"status": "failed", "error": type(error).__name__})
            raise
    finally:
        log.close()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container's user without a name.
        return ""
