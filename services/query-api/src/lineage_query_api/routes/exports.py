"""Traces as files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, Annotated, Literal, cast

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from lineage_query_api.dependencies import Caller, Store
from lineage_query_api.errors import too_much
from lineage_query_api.routes.traces import TraceName, had
from lineage_store.exports import FORMATS, Options, export, format_of

router = APIRouter(prefix="/v1", tags=["traces"])
FormatName = Literal["csv", "arrow", "parquet", "prov", "graphml", "mermaid"]
IN_MEMORY = 1 << 20
READ_BYTES = 1 << 16


@router.get(
    "/traces/{trace}/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The file, of the format's media type",
            "content": {
                one.media_type: {"schema": {"type": "string", "format": "binary"}}
                for one in FORMATS.values()
            },
        }
    },
)
def export_trace(
    trace: TraceName,
    store: Store,
    caller: Caller,
    format_name: Annotated[FormatName, Query(alias="format")] = "csv",
    way: Annotated[
        bool, Query(description="tables: also the rows asked for and items in between")
    ] = False,
) -> StreamingResponse:
    """A trace as CSV, Arrow, Parquet, PROV-JSON, GraphML or Mermaid."""
    made = had(store, trace)
    count = made.traced.result.count
    if count > store.settings.api_export_items and format_name != "mermaid":
        raise too_much(
            f"the trace found {count:,} items; a file holds at most "
            f"{store.settings.api_export_items:,}",
            "begin at fewer rows, or export on the command line",
        )
    chosen = format_of(format_name)
    # Whole before the first byte is sent: an error is still an error then.
    with ExitStack() as open_files:
        spooled = open_files.enter_context(tempfile.SpooledTemporaryFile(max_size=IN_MEMORY))
        file = cast(IO[bytes], spooled)
        export(made.traced, format_name, file, Options(way=way, texts=caller.rows))
        file.seek(0)
        open_files.pop_all()
    name = f"lineage-{made.opened.app}.{chosen.extension}"
    headers = {"Content-Disposition": f'attachment; filename="{_safe(name)}"'}
    return StreamingResponse(_parts(file), media_type=chosen.media_type, headers=headers)


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while part := file.read(READ_BYTES):
            yield part


def _safe(name: str) -> str:
    return "".join(
        sign if (sign.isalnum() and sign.isascii()) or sign in "._-" else "_" for sign in name
    )
