"""Who the caller is, and how one signs in."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request

from lineage_core.release import __version__
from lineage_query_api.dependencies import CallerScope, refuse_unknown_parameters
from lineage_query_api.models import Me, SignIn, SparkModel

router = APIRouter(prefix="/v1", tags=["caller"])


@router.get("/me")
def me(request: Request, scope: CallerScope) -> Me:
    """Who the caller is, and what they may."""
    caller = scope.caller
    return Me(
        name=caller.name,
        role=caller.role,
        rows=caller.rows,
        delete=caller.delete,
        erase=caller.erase,
        access=caller.access,
        watch=caller.watch,
        auth=caller.auth,
        version=__version__,
        store=request.app.state.local_store,
    )


@router.get("/spark")
def spark(scope: CallerScope) -> SparkModel:
    """What the server's Spark does: a client that waits for a trace of a DataFrame's rows shows it."""
    progress = scope.listed.recipe_traces.progress()
    if progress is None:
        return SparkModel(state="off")
    return SparkModel(state=progress.state, tasks=progress.tasks, tasks_done=progress.tasks_done)


@router.get("/sign-in", dependencies=[Depends(refuse_unknown_parameters)])
async def sign_in(request: Request) -> SignIn:
    """How the page signs people in. It asks for no token, and tells nothing that is secret."""
    configured: SignIn = request.app.state.sign_in
    return configured
