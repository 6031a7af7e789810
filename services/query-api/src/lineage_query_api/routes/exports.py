"""Traces as files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, Annotated, cast

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from lineage_query.exports import (
    FORMATS,
    Exported,
    ExportOptions,
    exported,
    format_of,
)
from lineage_query.trace import Trace
from lineage_query_api.dependencies import Caller, Store
from lineage_query_api.lineages import Lineages
from lineage_query_api.models import FormatName
from lineage_query_api.routes.traces import TraceName, check_not_cut, trace_of_id

router = APIRouter(prefix="/v1", tags=["traces"])
IN_MEMORY = 1 << 20
READ_BYTES = 1 << 16


@router.get(
    "/traces/{trace}/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The file, of the format's media type",
            "content": {
                export.media_type: {"schema": {"type": "string", "format": "binary"}}
                for export in FORMATS.values()
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
    cached = trace_of_id(store, trace, caller)
    chosen = format_of(format_name)
    options = ExportOptions(in_between=way, texts=caller.rows)
    file, _ = write_export(store, cached.traced, format_name, options)
    name = f"lineage-{cached.opened.app}.{chosen.extension}"
    headers = {"Content-Disposition": f'attachment; filename="{_safe(name)}"'}
    return StreamingResponse(parts_of(file), media_type=chosen.media_type, headers=headers)


def write_export(
    store: Lineages, traced: Trace, format_name: str, options: ExportOptions
) -> tuple[IO[bytes], Exported]:
    """A file of a trace, and what was written; it is whole: an error is still an error then.

    Raises:
        ProblemError: more items than a file may hold, or not all are known.
        LineageError: what the format does not take.
    """
    check_not_cut(cut=traced.missing)
    if format_name != "mermaid":
        hint = "begin at fewer rows, or export from the store itself"
        store.check_listed(traced.items_exported(in_between=options.in_between), hint)
    store.allow_stream()
    with store.turn(), ExitStack() as open_files:
        spooled = open_files.enter_context(tempfile.SpooledTemporaryFile(max_size=IN_MEMORY))
        file = cast(IO[bytes], spooled)
        exported_trace = exported(traced, format_name, file, options)
        open_files.pop_all()
    return file, exported_trace


def parts_of(file: IO[bytes]) -> Iterator[bytes]:
    """A file from its beginning; it is closed behind the last part."""
    with file:
        file.seek(0)
        while part := file.read(READ_BYTES):
            yield part


def _safe(name: str) -> str:
    return "".join(
        sign if (sign.isalnum() and sign.isascii()) or sign in "._-" else "_" for sign in name
    )
