"""Ids of traces: the encoded query itself, so that every server can compute the trace again.

A shared link outlives the server that created it, and needs no stored state.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from http import HTTPStatus

from pydantic import ValidationError

from lineage_query_api.errors import ProblemError, too_costly_error
from lineage_query_api.models import NodeText, RequestModel, TraceRequest

PACKED_MAX = 12_000
"""Characters; longer paths are refused by many proxies."""
UNPACKED_MAX = 1 << 20


class TraceId(RequestModel):
    """An application and the query of it."""

    app: NodeText
    request: TraceRequest


def pack(app: str, request: TraceRequest) -> str:
    """The id of a trace.

    Raises:
        ProblemError: the start of the trace does not fit in an id.
    """
    text = TraceId(app=app, request=request).model_dump_json(exclude_defaults=True)
    packed = base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")
    if len(packed) > PACKED_MAX:
        raise too_costly_error(
            "the trace begins at more places than one link can hold",
            "begin at fewer, or at a node with a search text that fewer rows hold",
        )
    return packed


def unpack(packed: str) -> TraceId:
    """Decode an id.

    Raises:
        ProblemError: 404, it is none.
    """
    try:
        if len(packed) > PACKED_MAX:
            raise ValueError(packed[:20])
        raw = base64.b64decode(packed + "=" * (-len(packed) % 4), altchars=b"-_", validate=True)
        reader = zlib.decompressobj()
        text = reader.decompress(raw, UNPACKED_MAX)
        if not reader.eof:
            raise ValueError("too long")
        return TraceId.model_validate_json(text)
    except (ValueError, binascii.Error, zlib.error, ValidationError) as error:
        raise ProblemError(HTTPStatus.NOT_FOUND, "there is no such trace") from error
