"""Errors of the query API, as RFC 9457 problems.

LineageError
├── SettingsError     a setting that can't be used
├── PageMissingError  the web page was not built
└── ProblemError      a request that is refused; carries its HTTP status and how to go on
"""

from __future__ import annotations

from http import HTTPStatus

from lineage_core.errors import LineageError


class SettingsError(LineageError):
    """An invalid setting; the message names it and what to do."""


class PageMissingError(LineageError):
    """The web page was not built; the message has the command that builds it."""


class ProblemError(LineageError):
    """A request that is refused. ``hint``: what the caller can do."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        *,
        hint: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.hint = hint
        self.headers = headers or {}


class SparkStartingError(ProblemError):
    """Spark takes long to start: what was asked may be asked again."""

    def __init__(self) -> None:
        super().__init__(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "Spark, which traces rows of DataFrames, is still starting",
            hint="try again in some seconds",
            headers={"Retry-After": "10"},
        )


def rows_refused_error() -> ProblemError:
    """A request that needs the right to read the text of rows."""
    return ProblemError(
        HTTPStatus.FORBIDDEN,
        "the text of rows is not for this caller",
        hint="ask for a token with the right to read rows",
    )


def hidden_parts_error() -> ProblemError:
    """A request whose response may reveal what grants hide from a caller, or mask."""
    return ProblemError(
        HTTPStatus.FORBIDDEN,
        "the answer may tell what is hidden from you of this application, or masked",
        hint="trace rows by their places, one application at a time; or ask for a grant of all of its datasets",
    )


def partly_granted_error() -> ProblemError:
    """A request whose answer is about all applications, by a caller who may not see all of them."""
    return ProblemError(
        HTTPStatus.FORBIDDEN,
        "this covers all applications, with all of their datasets and rows, and some may not be seen by this caller",
        hint='ask for a grant of applications = ["*"], with rows = true for an access request, and for no other grant, hide or '
        "mask that narrows datasets",
    )


def too_costly_error(detail: str, hint: str) -> ProblemError:
    """A request that costs more than the server allows."""
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, detail, hint=hint)


def busy_error(questions: str) -> ProblemError:
    """A request that got no turn in time; ``questions``: the kind of requests that hold the turns."""
    return ProblemError(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"too many {questions} are being answered",
        hint="try again in some seconds",
        headers={"Retry-After": "5"},
    )
