"""Records that the pipeline could not use."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query

from lineage_kafka.dead_letters import DeadLetterError, DeadLetterTopic, read_kafka_settings
from lineage_query_api.dependencies import CallerScope, PageSize
from lineage_query_api.errors import ProblemError
from lineage_query_api.models import DeadLetterList, DeadLetterModel

router = APIRouter(prefix="/v1", tags=["dead letters"])
LETTERS_MAX = 100_000
"""That are held for one request: some 100 MB."""


@router.get("/dead-letters")
def list_dead_letters(
    scope: CallerScope,
    app: Annotated[str, Query(max_length=512, description="of one application")] = "",
    limit: PageSize = 100,
) -> DeadLetterList:
    """Dead letters that were not replayed, with reasons; `lineage dlq` shows and replays them."""
    try:
        settings = read_kafka_settings()
    except DeadLetterError as error:
        raise ProblemError(
            HTTPStatus.NOT_FOUND,
            "this server knows no Kafka, so there are no dead letters",
            hint="the operator sets LINEAGE_KAFKA",
        ) from error
    topic = DeadLetterTopic(settings)
    try:
        letters = topic.unresolved(LETTERS_MAX)
    except DeadLetterError as error:
        raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from error
    finally:
        topic.close()
    # Reasons may tell what is hidden of an application.
    store, _ = scope.within(None)
    letters = store.granted(letters, lambda letter: letter.dead.app)
    selected = [letter for letter in letters if not app or letter.dead.app == app]
    items = [DeadLetterModel(**letter.to_json()) for letter in selected[:limit]]
    return DeadLetterList(items=items, total=len(selected))
