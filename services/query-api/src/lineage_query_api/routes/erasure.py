"""What rows of a person went into: plans to erase, and answers of access requests, over all applications."""

from __future__ import annotations

import json

from fastapi import APIRouter
from fastapi.responses import Response

from lineage_query.erasure.plan import Plan
from lineage_query_api.dependencies import Accessor, Eraser
from lineage_query_api.erasure_models import PlanModel, SubjectRequest, subject_query

router = APIRouter(prefix="/v1", tags=["erasure"])


@router.post("/erasure-plans", response_model=PlanModel)
def plan_erasure(body: SubjectRequest, eraser: Eraser) -> Response:
    """Find what is to be erased with rows of a source: as `lineage erase --plan --json`. Nothing is changed."""
    lineages, caller = eraser
    return _document(lineages.plan("erase", subject_query(body), rows=caller.rows))


@router.post("/access-reports", response_model=PlanModel)
def report_access(body: SubjectRequest, accessor: Accessor) -> Response:
    """Answer an access request: as `lineage access --json`, with what the rows hold."""
    lineages, caller = accessor
    return _document(lineages.plan("access", subject_query(body), rows=caller.rows))


def _document(plan: Plan) -> Response:
    # All signs as ASCII: names of files may be no UTF-8, and the digest is over the very names.
    return Response(json.dumps(plan.to_json()), media_type="application/json")
