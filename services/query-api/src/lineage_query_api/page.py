"""The web page: its files, and its frame for every address that is none of the API."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse

from lineage_query_api import problems
from lineage_query_api.errors import PageMissingError

FOLDER = Path(str(files("lineage_query_api") / "web" / "static"))
LASTING = {"Cache-Control": "public, max-age=31536000, immutable"}
"""Cache header of assets, whose names contain a hash of their content."""
FRESH = {"Cache-Control": "no-cache"}


def is_built() -> bool:
    """Whether the page is there: packages bring it, a checkout has to build it."""
    return (FOLDER / "index.html").is_file()


def require_page() -> None:
    """Refuse to go on without the page.

    Raises:
        PageMissingError: it was not built.
    """
    if not is_built():
        raise PageMissingError(
            "the web page is not built: run `make page` in the checkout, then try again "
            "(packages of lineage-query-api bring it with them)"
        )


def serve_page(app: FastAPI) -> None:
    """Serve the page for all paths without a route; to be called last."""

    @app.api_route("/{path:path}", methods=["GET", "HEAD"], include_in_schema=False)
    def page(path: str, request: Request) -> Response:
        if path.startswith("v1/") or not is_built():
            return problems.problem(
                problems.request_id_of(request),
                404,
                f"there is nothing at /{path}",
                hint="/openapi.json describes the API; `make page` builds the page",
            )
        file = _file_of(path)
        if file is not None:
            return FileResponse(file, headers=LASTING if "/assets/" in f"/{path}" else FRESH)
        return FileResponse(FOLDER / "index.html", headers=FRESH)


def _file_of(path: str) -> Path | None:
    """The file of the page that a path names; None: there is none."""
    if "\0" in path:
        return None
    try:
        file = (FOLDER / path).resolve()
        return file if file.is_relative_to(FOLDER.resolve()) and file.is_file() else None
    except OSError:
        # A name that is too long for the file system.
        return None
