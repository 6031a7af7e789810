"""What a caller asks for who watches a running job, and what can be watched."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from lineage_core.contract.record_conditions import CHARACTERS_MAX
from lineage_query_api.models import NO_NUL, FrozenModel, NodeText, RequestModel
from lineage_store.watch_folder import WatchableNode

RECORDS_MAX = 1_000
ConditionText = Annotated[str, StringConstraints(max_length=CHARACTERS_MAX, pattern=NO_NUL)]


class WatchModel(RequestModel):
    """What records are watched for: just one of ``condition``, ``must``, ``slower_than`` and ``latency``."""

    node: NodeText = Field(
        description="operators: a node's number, an operator's name (map), or a line of the program (job.py:14)"
    )
    condition: ConditionText = Field(
        "", description="records that fulfil it: record[1] > 100; it is read as data, and never run"
    )
    must: ConditionText = Field("", description="records that do not fulfil it")
    slower_than: Annotated[str, StringConstraints(max_length=30, pattern=NO_NUL)] = Field(
        "", description="records that the operator's function takes as long with: 200ms, 1.5s, 2min"
    )
    latency: bool = Field(
        False,
        description="how long the function takes with the records of each task, and its slowest ones",
    )
    limit: int = Field(
        RECORDS_MAX,
        ge=1,
        le=RECORDS_MAX,
        description="records (or tasks) after which the watch ends",
    )


class WatchableOperator(FrozenModel):
    """An operator of a running job that can be watched."""

    node: str
    name: str
    op: str
    call_site: str

    @classmethod
    def of(cls, facts: WatchableNode) -> WatchableOperator:
        """As the job names it."""
        return cls(node=facts.node, name=facts.name, op=facts.op, call_site=facts.call_site)


class WatchableJob(FrozenModel):
    """Whether the records of a job can be watched now."""

    app: str
    refusal: str | None = Field(description="why they can't be; null: they can")
    operators: list[WatchableOperator] = Field(
        description="those that the program has made so far, up to 1,000"
    )
