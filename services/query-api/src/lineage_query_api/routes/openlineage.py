"""Applications as OpenLineage knows them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from lineage_openlineage.facts import facts_of
from lineage_openlineage.naming import Naming
from lineage_openlineage.sending import run_of
from lineage_query_api.dependencies import AppName, Caller, Store
from lineage_query_api.entity_tags import NOT_MODIFIED, TaggedRoute
from lineage_query_api.models import OpenLineageEvents

router = APIRouter(prefix="/v1/applications/{app}", tags=["openlineage"], route_class=TaggedRoute)
Name = Annotated[str, Query(max_length=2_000)]


@router.get("/openlineage", responses=NOT_MODIFIED)
def get_openlineage(
    app: AppName,
    store: Store,
    _: Caller,
    namespace: Annotated[Name, Query(description="of the job (default: lineage-master)")] = "",
    link: Annotated[
        Name, Query(description="where people look at lineage: the id is put behind it")
    ] = "",
    producer: Annotated[Name, Query(description="URI of who tells it")] = "",
    schemas: Annotated[Name, Query(description="URI below which our facet's schema is")] = "",
    lineage_facet: Annotated[
        bool, Query(description="with the experimental facet `lineage`: each output's own inputs")
    ] = False,
) -> OpenLineageEvents:
    """The events that `lineage openlineage` sends: START, and COMPLETE, FAIL or ABORT."""
    naming = Naming(namespace, link, producer, schemas, lineage_facet)
    run = run_of(facts_of(store.store, store.find(app), naming=naming))
    return OpenLineageEvents.model_validate(run.to_json())
