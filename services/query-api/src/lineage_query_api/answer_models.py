"""What the answers of the command line hold over HTTP: the same keys as its ``--json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field

from lineage_core.contract.graph import LinkRecord, NodeRecord
from lineage_core.contract.verdict import Verdict
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer
from lineage_query.comparing import Difference
from lineage_query.run_difference import RunDifference
from lineage_query.suspects.answer import Suspects
from lineage_query.suspects.spectrum import Formula
from lineage_query_api.models import (
    STANDING,
    DirectionText,
    FrozenModel,
    ItemModel,
    PairsModel,
    RefusalModel,
    StandingText,
)
from lineage_store.port import ApplicationRecord

if TYPE_CHECKING:
    from lineage_dataframes.trace.ranked_influence import InfluenceAnswer

RequestedPlaces: TypeAlias = Annotated[
    list[str], Field(alias="from", description="the requested places")
]


class NextJobModel(FrozenModel):
    """Another application that wrote files of the rows of a group (backward), or read them (forward)."""

    app: str = Field(description="empty: which it is, is not known")
    job: str = Field(description="the name of the application")
    path: str = Field(description="the first of the files")
    files: int = Field(description="how many of the files it used")
    same_version: bool = Field(
        description="it wrote exactly the version that was read, or read the one that was written"
    )
    place: str = Field(
        description="the row from which a trace with this `app` goes on; empty: none does, except with `all_jobs`"
    )
    reason: str = Field(
        description="why the version is not the same, or not known to be, or that the file is a copy; else empty"
    )


class AnswerGroup(FrozenModel):
    """Items of one node: all are counted, the first are listed."""

    node: str
    name: str = Field(description="as commands call the node, such as read or 4")
    what: str
    path: str | None
    count: int
    changed: bool
    gone: bool
    standing: StandingText = STANDING
    items: list[ItemModel]
    app: str = Field(description="the application of the node; empty: that of the answer")
    next_jobs: list[NextJobModel] = Field(
        [],
        description="other applications that wrote the files of the rows (sources), or read them (sinks); not looked up with `all_jobs`",
    )


class ContainerModel(FrozenModel):
    """What rows of an answer lie in, at the level of the query."""

    name: str
    rows: int = Field(description="rows of the answer that lie in it, each once")
    app: str = Field(description="the application that a task or node is of; else empty")


class RowsOutsideModel(FrozenModel):
    """Rows of a node that lie in no container of the level."""

    node: str = Field(description="as commands call the node")
    rows: int
    app: str


class NotQueriedModel(FrozenModel):
    """An application, or one node of it (else empty), that takes part but could not be queried."""

    app: str
    node: str
    reason: str


class _TraceAnswer(FrozenModel):
    app: str = Field(description="the queried application, the latest of several")
    apps: list[str] = Field(description="all queried applications")
    not_asked: list[NotQueriedModel]
    places: RequestedPlaces
    start: list[AnswerGroup]
    exact: bool
    reasons: list[str] = Field(description="why it is not exact")
    complete: bool
    changed: bool
    warnings: list[str]
    by: str = Field(description="the level; above rows groups have counts and no items")
    containers: list[ContainerModel] = Field(
        description="those of most rows first; none where the level is row"
    )
    containers_total: int
    outside: list[RowsOutsideModel]
    pairs: PairsModel | None = Field(
        None,
        description="rows of sources that were joined with each other; null: not known for such a trace",
    )


class BackwardAnswer(_TraceAnswer):
    """As `lineage back --json`: the rows that the requested ones were made from."""

    direction: Literal["backward"]
    sources: list[AnswerGroup]


class ForwardAnswer(_TraceAnswer):
    """As `lineage forward --json`: the rows that the requested ones went into."""

    direction: Literal["forward"]
    sinks: list[AnswerGroup]


TraceAnswer: TypeAlias = Annotated[BackwardAnswer | ForwardAnswer, Field(discriminator="direction")]


class ComparedTraceModel(FrozenModel):
    """One of two traces that are compared."""

    places: RequestedPlaces
    count: int
    start: list[AnswerGroup]


class NodeDifferenceModel(FrozenModel):
    """Items of one node that one trace has and the other lacks; ``both``: how many both have."""

    only_left: AnswerGroup
    only_right: AnswerGroup
    both: int


class DifferenceModel(FrozenModel):
    """As `lineage diff --json`."""

    app: str
    direction: DirectionText
    left: ComparedTraceModel
    right: ComparedTraceModel
    exact: bool
    reasons: list[str] = Field(description="why it is not exact")
    complete: bool
    changed: bool
    groups: list[NodeDifferenceModel]
    warnings: list[str]


class SourceDifferenceModel(FrozenModel):
    """Rows of one source (forward: one output) in the traces of two runs."""

    only_left: AnswerGroup
    only_right: AnswerGroup
    both: int = Field(description="rows of both: same_places and same_texts together")
    same_places: int = Field(description="rows of one version of a file that both runs read")
    same_texts: int = Field(description="rows of other versions or files, of equal texts")
    undecided_left: AnswerGroup = Field(
        description="rows of which it is not known whether the other run has them"
    )
    undecided_right: AnswerGroup
    reason: str = Field(description="why it is not known; empty: there are no such rows")


class RunDifferenceModel(FrozenModel):
    """As `lineage diff --runs --json`."""

    apps: list[str] = Field(description="the two applications", min_length=2, max_length=2)
    direction: DirectionText
    left: ComparedTraceModel
    right: ComparedTraceModel
    exact: bool
    reasons: list[str] = Field(description="why it is not exact")
    complete: bool
    changed: bool
    groups: list[SourceDifferenceModel]
    warnings: list[str]


class RankModel(FrozenModel):
    rank: int
    tied: int = Field(description="how many share the rank")
    score: float | None = Field(description="null: it has no bound")


class RankedInput(RankModel, ItemModel):
    node: str
    name: str = Field(description="as commands call the node")
    outputs: int = Field(description="how many of the bad outputs it went into")
    good_outputs: int = Field(description="how many of the good outputs it went into")


class DeviationModel(FrozenModel):
    """How a figure of a task or key stands out among others."""

    measure: str
    value: float
    of: str = Field(description="what it is compared with")
    count: int = Field(description="how many these are")
    median: float
    distance: float = Field(description="from the median, in robust standard deviations")
    tests: list[str] = Field(description="those by which it is an outlier")
    step: tuple[str, str] = Field(description="the operators between which it was measured")
    reason: str


class RankedTask(RankModel):
    node: str
    name: str
    partition: int
    operators: str
    outputs: int
    good_outputs: int
    deviations: list[DeviationModel]


class DeviatingKeyModel(FrozenModel):
    """A key of a shuffle, with the first rows of outputs that it went into."""

    node: str
    name: str
    address: str
    deviation: DeviationModel
    rows: list[ItemModel]
    rows_total: int


class RankedInputs(FrozenModel):
    """As `lineage suspects --json`."""

    app: str
    places: RequestedPlaces
    outputs: int
    items: list[RankedInput]
    total: int = Field(description="inputs of any of the bad outputs")
    exact: bool
    reasons: list[str] = Field(description="why it is not exact")
    complete: bool
    changed: bool
    warnings: list[str]
    good: list[str] = Field(description="places of the good outputs")
    formula: Formula
    suspected: int = Field(
        description="those of a greater share of the bad outputs than of the good ones"
    )
    tasks: list[RankedTask]
    tasks_total: int
    keys: list[DeviatingKeyModel]
    keys_total: int


class InfluenceOfRow(FrozenModel):
    """A row of a source, and what the output's row would be without it."""

    location: str
    text: str
    after: str | None = Field(description="as JSON text; null: it would not be there")
    changed: list[str] = Field(description="columns that would have other values")
    unsure: list[str] = Field(description="those of them that Spark may round otherwise")
    rank: int
    tied: int = Field(description="how many share the rank")


class InfluenceModel(FrozenModel):
    """What a row would be without each row that it was made from, in closed form; those first that change it most."""

    app: str
    node: str
    before: str = Field(description="the row as it is, as JSON text")
    rows: list[InfluenceOfRow]
    witnesses: int = Field(description="rows that it was made from")
    warnings: list[str]


class ApplicationRecords(FrozenModel):
    """As `lineage apps --json`."""

    applications: list[ApplicationRecord]


class NodeRecords(FrozenModel):
    """Nodes and links as they are stored, as `lineage graph --json` without folding."""

    app: str
    nodes: list[NodeRecord]
    links: list[LinkRecord]


class TaskCounts(FrozenModel):
    expected: int
    committed: int


class BlockCounts(FrozenModel):
    expected: int
    written: int
    received: int
    linked: int
    stubs: int


class RecipeCounts(FrozenModel):
    expected: int
    received: int


class LimitedNode(FrozenModel):
    """Records of a node where rules limit capture: ``share`` of those that were seen have lineage."""

    seen: int
    captured: int
    share: float


class StreamProgressModel(FrozenModel):
    """A run of a streaming query."""

    query: str
    run: str
    state: str = Field(description="running, over, or lost: what comes of it is not recorded")
    committed: int = Field(description="the last batch that is known to be committed; -1: none")
    complete_to: int | None = Field(
        description="all batches of the run up to this one are complete; -1: none; null: not known"
    )
    reason: str = Field(description="why it is lost")


class VerdictModel(FrozenModel):
    """As `lineage verify --json`: whether all lineage is there and rows can be traced, and why not."""

    app: str
    complete: bool
    received: bool = Field(description="the same as complete")
    answerable: bool | None = Field(
        description="whether rows of all captured outputs can be traced; null: not known here"
    )
    refusals: list[RefusalModel]
    unchecked: int = Field(description="outputs that were not checked for that")
    status: str
    final: bool = Field(description="no more lineage is on its way")
    tasks: TaskCounts
    blocks: BlockCounts
    recipes: RecipeCounts
    flows: int
    unmatched: int
    collisions: int
    dead_letters: int
    unknown: list[str]
    superset: dict[str, list[str]] = Field(description="reasons by node")
    limited: dict[str, LimitedNode]
    set_aside: dict[str, int] = Field(
        description="records that functions failed on and that were set aside, by node"
    )
    repaired: dict[str, int] = Field(
        description="records that functions failed on and that others were given in the place of, by node"
    )
    reasons: list[str] = Field(description="why the lineage is incomplete")
    earlier: list[str] = Field(
        description="applications that the same run of the program captured before"
    )
    streams: list[StreamProgressModel] = Field(
        description="how far its streaming queries are complete, while they run, too"
    )


def trace_answer(answer: Answer) -> TraceAnswer:
    """The answer to a query."""
    kind = BackwardAnswer if answer.direction is Direction.BACKWARD else ForwardAnswer
    return kind.model_validate(answer.to_json())


def difference(compared: Difference) -> DifferenceModel:
    """What two traces do not share."""
    return DifferenceModel.model_validate(compared.to_json())


def run_difference(compared: RunDifference) -> RunDifferenceModel:
    """What the traces of two runs do not share."""
    return RunDifferenceModel.model_validate(compared.to_json())


def ranked_inputs(ranked: Suspects) -> RankedInputs:
    """Inputs of several outputs, those of most outputs first."""
    return RankedInputs.model_validate(ranked.to_json())


def influence_model(answer: InfluenceAnswer) -> InfluenceModel:
    """The influence of rows on a row."""
    return InfluenceModel(
        app=answer.app,
        node=answer.node,
        before=answer.before_text,
        rows=[
            InfluenceOfRow(
                location=row.place,
                text=row.text,
                after=answer.after_text(row.influence),
                changed=list(answer.changed(row.influence)),
                unsure=list(answer.unsure(row.influence)),
                rank=row.rank,
                tied=row.tied,
            )
            for row in answer.rows
        ],
        witnesses=answer.found.witnesses,
        warnings=list(answer.warnings),
    )


def verdict_model(app: str, verdict: Verdict) -> VerdictModel:
    """The verdict on an application."""
    return VerdictModel.model_validate({"app": app, **verdict.to_json()})
