"""Who the caller is."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter

from lineage_query_api.dependencies import Caller
from lineage_query_api.models import Me

router = APIRouter(prefix="/v1", tags=["caller"])


@router.get("/me")
def me(caller: Caller) -> Me:
    """Who the caller is, and what they may."""
    return Me(
        name=caller.name,
        role=caller.role,
        rows=caller.rows,
        delete=caller.delete,
        auth=caller.auth,
        version=version("lineage-query-api"),
    )
