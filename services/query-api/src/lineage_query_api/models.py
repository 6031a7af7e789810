"""What requests and answers hold. Keys are only ever added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from lineage_core.contract.times import JsonTime
from lineage_query.conditions import ACCEPTED_SYNTAX, CHARACTERS_MAX
from lineage_query.exports.options import DERIVED_ITEMS_MAX
from lineage_query.job_neighbours import JobGraphLink, JobGraphNode
from lineage_query.jobs import Dataset, DatasetRun, Job, Run
from lineage_query.record_flows import FLOWS_MAX
from lineage_query.suspects.spectrum import Formula

if TYPE_CHECKING:
    from typing_extensions import Self

PLACES_MAX = 1_000
PLACE_MAX = 4_096
REGIONS_MAX = 10_000
RANGES_MAX = 1 << 19

VIEW_FLOWS_MAX = 1_000_000
"""Flows of a view that a server makes: it holds them in memory while it does."""

NO_NUL = r"^[^\x00]*$"
PlaceText = Annotated[str, StringConstraints(min_length=1, max_length=PLACE_MAX, pattern=NO_NUL)]
NodeText = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=NO_NUL)]
NameText = Annotated[str, StringConstraints(min_length=1, max_length=PLACE_MAX, pattern=NO_NUL)]
"""The name of a job, or of a dataset."""
SearchText = Annotated[str, StringConstraints(max_length=1_000)]
ConditionText = Annotated[
    str, StringConstraints(min_length=1, max_length=CHARACTERS_MAX, pattern=NO_NUL)
]
LevelText = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=NO_NUL)]
DirectionText = Literal["backward", "forward"]
FormatName = Literal["csv", "arrow", "parquet", "prov", "graphml", "mermaid"]


class FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True)


class RequestModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Me(FrozenModel):
    """Who the caller is, and what they may."""

    name: str
    role: Literal["reader", "admin"]
    rows: bool = Field(description="may read the text of rows")
    delete: bool = Field(description="may delete applications")
    erase: bool = Field(description="may make plans of what is to be erased")
    access: bool = Field(description="may have access requests answered, with the right to rows")
    watch: bool = Field(description="may watch records of running jobs, with the right to rows")
    auth: Literal["none", "token", "oidc"]
    version: str
    store: str | None = Field(
        None, description="the store that is served, shown only to the one user of a local server"
    )


class OidcClient(FrozenModel):
    """The page's public client at an issuer (OpenID Connect Core 1.0)."""

    issuer: str
    client_id: str
    scopes: str = Field(description="with spaces")


class SignIn(FrozenModel):
    """How people sign in on the page, beside a token."""

    oidc: OidcClient | None = Field(
        description="at this issuer, by authorization code with PKCE; null: by a token alone"
    )


StandingText = Literal["same", "touched", "changed", "gone", "unknown"]
BindingText = Literal["checksum", "state", "now"]
STANDING: Any = Field(
    "same",
    description="files now: touched: just their time is another, by checksums; unknown: this server can't tell",
)
AS_NOW = (
    "trace DataFrames over their files as they are now, where these have changed: the answer is then neither exact "
    "nor complete, and its reasons say which files changed"
)
BINDING: Any = Field(
    None,
    description="what binds the text to the row that the job saw: checksum of the rows around it, state (size and "
    "time of the file), or now: the text stands there now and may be another row's; null: kept with the lineage",
)


class ItemModel(FrozenModel):
    """One item. ``text`` is null where it is unknown, or may not be read by the caller."""

    address: str
    location: str | None
    text: str | None
    binding: BindingText | None = BINDING


class ApplicationModel(FrozenModel):
    """One application."""

    app: str
    name: str
    status: Literal["running", "ok", "failed", "abandoned", "damaged"]
    started_at: JsonTime
    ended_at: JsonTime | None
    flows: int
    associations: int
    complete: bool
    final: bool
    exact: bool
    reasons: list[str] = Field(description="why the lineage is incomplete")


class ApplicationPage(FrozenModel):
    items: list[ApplicationModel]
    next: str | None
    total: int
    searched: int = Field(
        description="applications that were searched, the latest first; fewer than searched_of where the time was over"
    )
    searched_of: int
    withheld: int = Field(
        description="of those that were searched, how many say nothing: a dataset of theirs is hidden from the caller, "
        "or they said more than a list may hold"
    )


RUNS_WITHHELD: Any = Field(
    description="of the runs, how many say nothing of what they read and wrote: a dataset of theirs is hidden from "
    "the caller, or they said more than a list may hold"
)


class JobPage(FrozenModel):
    items: list[Job]
    next: str | None
    total: int


class RunPage(FrozenModel):
    items: list[Run]
    next: str | None
    total: int


class DatasetPage(FrozenModel):
    """Datasets by name, of the latest ``runs`` of ``runs_total``."""

    items: list[Dataset]
    next: str | None
    total: int
    runs: int
    runs_total: int
    runs_withheld: int = RUNS_WITHHELD


class DatasetRunPage(FrozenModel):
    """Runs of a dataset, among the latest ``runs`` of ``runs_total``."""

    items: list[DatasetRun]
    next: str | None
    total: int
    runs: int
    runs_total: int
    runs_withheld: int = RUNS_WITHHELD


class JobGraphModel(FrozenModel):
    """Jobs and datasets around the first of ``nodes``, and their links.

    Without nodes the server has not looked at the run that names the start yet: ``runs`` is less than ``runs_total`` then.
    """

    nodes: list[JobGraphNode]
    links: list[JobGraphLink] = Field(description="by places in the list of nodes")
    truncated: bool = Field(description="nodes within the depth are left out")
    runs: int = Field(description="runs that were looked at; the same request again looks at more")
    runs_total: int
    runs_withheld: int = RUNS_WITHHELD


class NodeRef(FrozenModel):
    node: str
    label: str
    what: str
    path: str | None


class RefusalModel(FrozenModel):
    """Why rows of an output can't be traced back, though its lineage is there."""

    node: str
    what: str
    operator: str
    reason: str


class ApplicationDetails(ApplicationModel):
    answerable: bool | None = Field(
        description="whether rows of all captured outputs can be traced; null: not known here"
    )
    refusals: list[RefusalModel]
    nodes: int
    sources: list[NodeRef]
    sinks: list[NodeRef]
    unknown_parts: list[str]
    arrays: int = Field(description="arrays with names, whose cells can be traced")


class GraphNode(NodeRef):
    """A node, or nodes that a loop made by the same call (``members``).

    ``stage``: equal for nodes whose records pass no shuffle between them.
    """

    kind: str
    op: str
    name: str
    description: str
    call_site: str
    exact: bool
    reason: str
    partitions: int | None
    blocks: int
    flows: int
    associations: int
    members: list[str]
    stage: str
    has_items: bool


class GraphLink(FrozenModel):
    src: str
    dest: str


class GraphModel(FrozenModel):
    app: str
    nodes: list[GraphNode]
    links: list[GraphLink]


class ItemPage(FrozenModel):
    """Items of a node, or rows of a DataFrame's files.

    ``next``: cursor of the following page; a page may be empty and have one.
    ``count``: of all items; null for rows of a DataFrame, which nobody has counted.
    ``scanned``: items looked at. ``cut``: of those that were not found, how many have a text too long to be searched to
    its end.
    """

    node: str
    label: str
    what: str
    path: str | None
    count: int | None
    items: list[ItemModel]
    next: str | None
    scanned: int
    cut: int = 0
    changed: bool
    standing: StandingText = STANDING


class RegionModel(RequestModel):
    space: NodeText = Field(description="such as 4#0", examples=["4#0"])
    ranges: Annotated[str, StringConstraints(max_length=RANGES_MAX)] = Field(
        description="positions as ranges", examples=["0-3 7 12"]
    )


class ColumnValue(RequestModel):
    """A column of a DataFrame and its value as text, which the column's type reads; null is NULL."""

    column: Annotated[str, StringConstraints(min_length=1, max_length=1_000, pattern=NO_NUL)]
    value: Annotated[str, StringConstraints(max_length=PLACE_MAX, pattern=NO_NUL)] | None


class StartModel(RequestModel):
    """Where a trace begins: places, regions, or a node's items whose text holds something.

    Of a DataFrame: its node with the values that some columns have.
    """

    places: list[PlaceText] = Field(default=[], max_length=PLACES_MAX, examples=[["write#0#1"]])
    regions: list[RegionModel] = Field(default=[], max_length=REGIONS_MAX)
    node: NodeText | None = None
    contains: SearchText | None = None
    values: list[ColumnValue] = Field(default=[], max_length=100)


class TraceRequest(RequestModel):
    direction: DirectionText
    start: StartModel
    until: NodeText = Field("ends", description="ends, or a node whose items are wanted")
    steps: int | None = Field(None, ge=0, le=10_000, description="so many steps instead")
    as_now: bool = Field(False, description=AS_NOW)


class OutputColumn(FrozenModel):
    name: str
    type: str = Field(description="as Spark SQL writes it")


class OutputColumns(FrozenModel):
    """What rows of a DataFrame's node may be asked for by."""

    node: str
    label: str
    columns: list[OutputColumn]
    traced: bool = Field(description="this server has a Spark that traces them")
    missing: str = Field("", description="what it lacks for that")


class FailedCallModel(FrozenModel):
    """A call of a Python function that failed, and whose rows a job set aside."""

    number: int = Field(description="value of `lineage_call` in the rows of its node")
    function: str = Field(description="`outer(inner)` where one gets the value of the other")
    action: str = Field(description="which called it, with its call site")
    values: list[str] = Field(description="of its arguments")
    error: str


class FailedCallList(FrozenModel):
    """Calls of Python functions whose rows a node holds."""

    node: str
    label: str
    items: list[FailedCallModel]
    total: int
    more: bool = Field(description="more calls failed than `total`, and are not named")


class SparkModel(FrozenModel):
    """What the server's Spark does, which traces rows of DataFrames. The first query that needs it starts it."""

    state: Literal["off", "idle", "starting", "ready"] = Field(
        description="off: this server has none"
    )
    tasks: int = Field(0, description="tasks of the stages that run now, for whichever query")
    tasks_done: int = Field(0, description="those of them that have ended")


class GroupModel(FrozenModel):
    """Items of one node: all are counted, the first are listed."""

    node: str
    label: str
    what: str
    path: str | None
    count: int
    changed: bool
    gone: bool
    standing: StandingText = STANDING
    items: list[ItemModel]


class Passed(FrozenModel):
    node: str
    label: str
    count: int


class PairedRowModel(FrozenModel):
    """A row that was joined with others."""

    node: str
    name: str = Field(description="of the node")
    address: str
    location: str | None


class PairsModel(FrozenModel):
    """Rows of sources that were joined into one row on the way. None is listed that did not take part."""

    rows: list[list[PairedRowModel]] = Field(description="rows that belong together, a list each")
    unknown: list[str] = Field(description="why others may be missing; empty: these are all")


class TraceModel(FrozenModel):
    trace: str = Field(description="has the trace again, from any server of this store")
    app: str
    direction: DirectionText
    request: TraceRequest
    exact: bool
    complete: bool
    changed: bool
    reasons: list[str]
    warnings: list[str]
    start: list[GroupModel]
    groups: list[GroupModel]
    computed: bool = Field(
        description="by a query over a DataFrame's recipe: there are no steps, and no items on the way"
    )
    through: bool = Field(
        description="an RDD's records whose trace goes on, by such a query, through DataFrames: all the way alone"
    )
    passed: list[Passed] = Field(description="items on the way, the start and the found included")
    count: int
    pairs: PairsModel | None = Field(
        None,
        description="rows of sources that were joined with each other; null: not known for such a trace",
    )


class TracePage(FrozenModel):
    node: str
    label: str
    count: int
    items: list[ItemModel]
    next: str | None
    changed: bool
    standing: StandingText = STANDING


class RowModel(FrozenModel):
    number: int = Field(description="line from 1, or record from 0")
    location: str
    text: str | None
    asked: bool
    address: str
    binding: BindingText | None = BINDING


class RowsModel(FrozenModel):
    path: str
    unit: Literal["line", "record", "file", "byte"]
    changed: bool
    standing: StandingText = STANDING
    note: str
    rows: list[RowModel]


class DiffRequest(RequestModel):
    left: TraceRequest
    right: TraceRequest


class DiffSide(FrozenModel):
    trace: str
    count: int
    start: list[GroupModel] = Field(description="what was asked for, with locations and texts")


class CountedItems(FrozenModel):
    """The first of ``count`` items."""

    count: int
    items: list[ItemModel]


class DiffGroup(FrozenModel):
    node: str
    label: str
    path: str | None
    only_left: CountedItems
    only_right: CountedItems
    both: int


class DiffModel(FrozenModel):
    left: DiffSide
    right: DiffSide
    exact: bool
    complete: bool
    reasons: list[str] = Field(description="why it is not exact")
    groups: list[DiffGroup]
    changed: bool
    warnings: list[str]


class SuspectsRequest(RequestModel):
    places: list[PlaceText] = Field(min_length=1, max_length=200, description="bad outputs")
    limit: int = Field(50, ge=1, le=1_000)
    good: list[PlaceText] = Field(default=[], max_length=200, description="good outputs")
    formula: Formula = Field("ochiai", description="what suspects are ranked by")


class Suspect(ItemModel):
    node: str
    label: str
    outputs: int = Field(description="how many of the bad outputs it went into")
    good_outputs: int = Field(description="how many of the good outputs it went into")
    rank: int
    tied: int = Field(description="how many share the rank")
    score: float | None = Field(description="the value of the formula; null: it has no bound")


class SuspectsModel(FrozenModel):
    outputs: int = Field(description="bad outputs, each once")
    good: int = Field(description="good outputs, each once")
    items: list[Suspect]
    total: int = Field(description="inputs of any of the bad outputs")
    suspected: int = Field(
        description="those of a greater share of the bad outputs than of the good ones"
    )
    exact: bool
    complete: bool
    reasons: list[str] = Field(description="why it is not exact")
    changed: bool
    warnings: list[str]


class CaptureProgress(FrozenModel):
    tasks: int
    tasks_expected: int


class LinkProgress(FrozenModel):
    blocks_expected: int
    blocks_received: int
    blocks_linked: int


class WriteProgress(FrozenModel):
    blocks: int
    flows: int


class ProgressModel(FrozenModel):
    """How far capture, linking and writing are."""

    app: str
    status: str
    final: bool
    complete: bool
    capture: CaptureProgress
    link: LinkProgress
    write: WriteProgress
    updated_at: JsonTime


class _PlacesRequest(RequestModel):
    direction: DirectionText
    places: list[PlaceText] = Field(min_length=1, max_length=PLACES_MAX)
    app: NodeText | None = Field(
        None,
        description="ask this application alone; without it all that read a source are asked forward, and all that "
        "wrote an output by its values. Who could not be asked is in not_asked",
    )
    until: NodeText | None = None
    steps: int | None = Field(None, ge=0, le=10_000)
    where: ConditionText | None = Field(
        None,
        description="places names one output of DataFrames (its path, table or node): trace all of its rows that fulfil "
        f"this; {ACCEPTED_SYNTAX}",
        examples=["city = 'Oslo' AND total > 4"],
    )
    all_jobs: bool = Field(
        False,
        description="go on through the applications that wrote what was read, or read what was written",
    )


class AnswerRequest(_PlacesRequest):
    """What the command line asks: places as people type them."""

    limit: int | None = Field(20, ge=0, description="items listed of each node")
    as_now: bool = Field(False, description=AS_NOW)
    way: bool = Field(
        False,
        description="with `all_jobs`: also list the rows on the way, at which one application goes on from another",
    )
    by: LevelText = Field(
        "row",
        description="the level of the answer; above rows it counts the rows of each container: split, file, dataset, task, "
        "stage, node, application, job, or a type of containers that the program registered",
    )


class ExportRequest(_PlacesRequest):
    """A question whose answer is to be a file."""

    format: FormatName = "csv"
    way: bool = Field(False, description="tables: also the rows asked for and items in between")
    texts: bool = Field(True, description="with what rows look like")
    items_max: int = Field(
        DERIVED_ITEMS_MAX,
        ge=1,
        description="most items of prov and graphml, which are built in memory",
    )
    asked: list[PlaceText] | None = Field(
        None, max_length=PLACES_MAX, description="the places as the file is to call them"
    )

    @model_validator(mode="after")
    def _as_many(self) -> Self:
        if self.asked is not None and len(self.asked) != len(self.places):
            raise ValueError("asked names as many places as places")
        return self


class CompareRequest(RequestModel):
    """Two traces of records, each from places as people type them."""

    direction: DirectionText = "backward"
    left: list[PlaceText] = Field(min_length=1, max_length=PLACES_MAX)
    right: list[PlaceText] = Field(min_length=1, max_length=PLACES_MAX)
    app: NodeText | None = Field(
        None, description="the application; without it the latest that fits"
    )
    limit: int | None = Field(20, ge=0, description="items listed of each node and side")


class RunPlaces(RequestModel):
    """Places as people type them, in one run of a job."""

    app: NodeText = Field(description="the application, or the beginning of its id")
    places: list[PlaceText] = Field(min_length=1, max_length=PLACES_MAX)


class CompareRunsRequest(RequestModel):
    """The traces of places in two runs of a job."""

    direction: DirectionText = "backward"
    left: RunPlaces
    right: RunPlaces
    limit: int | None = Field(20, ge=0, description="rows listed of each source and side")


class RankRequest(SuspectsRequest):
    """Bad and good outputs, as people type their places; without any, an application."""

    places: list[PlaceText] = Field(default=[], max_length=200, description="bad outputs")
    tasks: bool = Field(False, description="rank tasks, too, and keys where there are no outputs")
    app: NodeText | None = Field(
        None, description="the application; without it the latest that fits"
    )


class InfluenceRequest(RequestModel):
    """A row of a DataFrame, as people type its place."""

    place: PlaceText
    app: NodeText | None = Field(
        None, description="the application; without it the one that has the row"
    )
    limit: int = Field(50, ge=1, le=1_000, description="rows that are listed")


class ViewRequest(RequestModel):
    """What a record-level view is to hold: what traces go along, or (no places) all flows."""

    places: list[PlaceText] = Field(default=[], max_length=PLACES_MAX)
    direction: DirectionText = "backward"
    limit: int = Field(FLOWS_MAX, ge=1, le=VIEW_FLOWS_MAX, description="most flows")
    texts: bool = Field(True, description="with what items look like")


class ViewRemoved(FrozenModel):
    app: str
    removed: int = Field(description="flows that the view had")


class OpenLineageEvent(BaseModel):
    """A RunEvent; what its run, job and datasets hold, the specification at ``schemaURL`` says."""

    model_config = ConfigDict(extra="allow")

    eventTime: str
    eventType: str
    run: dict[str, Any]
    job: dict[str, Any]
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    producer: str
    schemaURL: str


class OpenLineageEvents(FrozenModel):
    """The events of an application for OpenLineage; ``run``: the id of its run."""

    app: str
    run: str
    events: list[OpenLineageEvent]


class DeadLetterModel(FrozenModel):
    """A record that could not be used; ``size`` in bytes."""

    letter: str
    place: str
    app: str | None
    service: str
    reason: str
    at: JsonTime
    size: int
    cut: bool


class DeadLetterList(FrozenModel):
    items: list[DeadLetterModel]
    total: int


TripleMethod = Literal["rq", "ccprov", "csprov", "auto"]


class TripleDataSet(FrozenModel):
    name: str
    sources: int = Field(description="files that were imported")
    rows: int = Field(description="rows of these files")
    stored_bytes: int
    is_indexed: bool = Field(
        description="false: something waits to be indexed, so there are no traces"
    )
    damaged: str = Field(
        description="which files that say of its sources are damaged, so that these are not all counted; empty: none"
    )


class TripleDataSets(FrozenModel):
    items: list[TripleDataSet]


class TripleModel(FrozenModel):
    src: str
    dst: str
    op: str


class TripleTraceModel(FrozenModel):
    data_set: str
    direction: DirectionText
    item: str
    items: list[str] = Field(description="the first of those found, in order")
    items_count: int
    triples: list[TripleModel] = Field(description="the first of those on the way")
    count: int = Field(description="of all triples on the way")
    method: TripleMethod = Field(description="the one that was used")
    reason: str = Field(
        description="why it was chosen, and what others would have read; empty: it was named"
    )
    component_triples: int = Field(description="of all that is connected with the item")
