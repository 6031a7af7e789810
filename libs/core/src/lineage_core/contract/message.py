"""Messages of the driver: the begin and end of an application, its graph, commits and failures.

One message is one JSON object on one line. Every message has ``v`` (the version of the contract),
``type`` and ``app``. Readers ignore unknown fields, and refuse unknown versions and types. Models are frozen; :func:`dump_message` and :func:`parse_message` are inverse.

Spark workers must not import this module: pydantic costs them start-up time.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticSerializationError, from_json

from lineage_core.contract.row_sums import BLOCKS_MAX, DIGITS
from lineage_core.errors import MessageError, VersionError

MESSAGE_VERSION = 1
MESSAGE_VERSIONS = frozenset({MESSAGE_VERSION})
"""Versions that are read: the current one and the one before (there is none yet)."""
MESSAGE_BYTES_MAX = 64 * 2**20
"""Longest message in bytes: a commit may list every sink row that holds a newline."""
TEXT_MAX = 2**16
"""Longest text of a field in characters."""
CONTAINERS_MAX = 100
"""Maximum number of containers that a node is in: the handle of the innermost names them all, in 200 characters."""
RECIPE_BYTES_MAX = 2 * 2**20
"""Longest recipe in bytes of UTF-8: as JSON inside a message, which may double it, it fits a record."""
ARRAYS_TEXT_MAX = 2**20
"""Longest part of a recording of arrays in characters: it fits a record."""
ARRAYS_PARTS_MAX = 512
"""Maximum number of parts of a recording of arrays."""


def _without_surrogates(text: object) -> object:
    """Replace what JSON can't carry (lone surrogates of undecodable arguments) by ``?``."""
    if isinstance(text, str) and not text.isascii():
        return text.encode("utf-8", "replace").decode()
    return text


Text: TypeAlias = Annotated[str, BeforeValidator(_without_surrogates), Field(max_length=TEXT_MAX)]
Name: TypeAlias = Annotated[
    str, BeforeValidator(_without_surrogates), Field(min_length=1, max_length=512)
]
Count: TypeAlias = Annotated[int, Field(ge=0)]
"""A count; no upper bound, for associations of wide regions pass 64 bits."""
Natural: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]
Partition: TypeAlias = Annotated[int, Field(ge=0, lt=2**31)]
UnixTime: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
"""Seconds since 1970-01-01 00:00 UTC."""
CALENDAR_TIME_MIN, CALENDAR_TIME_MAX = -62_135_510_400.0, 253_402_214_400.0
"""Within the years 1 to 9999, in each zone."""
CalendarTime: TypeAlias = Annotated[
    UnixTime, AfterValidator(lambda at: min(max(at, CALENDAR_TIME_MIN), CALENDAR_TIME_MAX))
]
"""A time of a program's clock. A time outside the calendar, which can't be shown, becomes the first or the last."""
Sums: TypeAlias = Annotated[
    str, Field(max_length=BLOCKS_MAX * DIGITS, pattern=rf"^([0-9a-f]{{{DIGITS}}})*\z")
]
"""Checksums of blocks of rows, in hexadecimal digits."""
NodeKind: TypeAlias = Literal[
    "source", "operator", "shuffle", "sink", "unknown", "frame-source", "frame"
]
"""``frame``: what an action on a DataFrame gave or wrote, ``frame-source`` what it read: their rows
are not in blocks but traced by a recipe."""
TOPICS_MAX = 100
"""Topics of the streams of a query that are named; of more, that they are any."""
TOPIC_PARTITIONS_MAX = 1_000
"""Partitions of a topic whose first offsets are named."""
EndStatus: TypeAlias = Literal["ok", "failed"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Message(_Record):
    v: Literal[1] = 1
    app: Name


class Begin(_Message):
    """An application starts. ``started_at`` in unix seconds.

    ``earlier``: applications that the same run of the program captured before, into the same store.
    """

    type: Literal["begin"] = "begin"
    name: Text
    started_at: CalendarTime
    spark_version: Text = ""
    user: Text = ""
    cwd: Text = ""
    argv: tuple[Text, ...] = ()
    earlier: tuple[Name, ...] = ()


class Register(_Message):
    """A node of the coarse-grained graph. ``reason``: why ``exact`` is False.

    ``call_path`` identifies all calls that led to the node: nodes with the same one were made by
    the same call, in a loop. ``inputs``: how many links lead to it, where that is known already.
    ``containers``: those that the node is in, from the outermost to the innermost, by their handles;
    ``container_types``: their types, in the same order. Nothing where the sender names none, as older ones do.
    """

    type: Literal["register"] = "register"
    node: Name
    kind: NodeKind
    op: Text
    name: Text = ""
    description: Text = ""
    call_site: Text = ""
    alias: Text | None = None
    exact: bool = True
    reason: Text = ""
    partitions: Partition | None = None
    path: Text | None = None
    call_path: Text = ""
    inputs: Natural | None = None
    containers: tuple[Name, ...] = Field((), max_length=CONTAINERS_MAX)
    container_types: tuple[Name, ...] = Field((), max_length=CONTAINERS_MAX)


class Link(_Message):
    """Node ``src`` sends to node ``dest``."""

    type: Literal["link"] = "link"
    src: Name
    dest: Name


class Split(_Record):
    """Source partition ``partition`` is ``length`` bytes of ``path`` from byte ``start``.

    ``checksum``: of the whole file, where one was taken while its size and time were these; as ``sha256:...``.
    """

    partition: Partition
    path: Text
    start: Natural
    length: Natural
    file_size: Natural
    mtime: UnixTime
    compressed: bool = False
    checksum: Text = ""


class Splits(_Message):
    """How the partitions of a source lie in files."""

    type: Literal["splits"] = "splits"
    node: Name
    splits: tuple[Split, ...]


class RecordSplit(_Record):
    """Source partition ``partition`` holds records of ``path`` from its ordinal ``row`` on.

    They are those of ``length`` bytes from byte ``start``. ``first``: the number (from 0) in the
    file of the first of them, where it is known without counting. ``checksum``: as a :class:`Split` has it.
    """

    partition: Partition
    path: Text
    row: Natural = 0
    start: Natural
    length: Natural
    first: Natural | None = None
    file_size: Natural
    mtime: UnixTime
    checksum: Text = ""


class RecordSplits(_Message):
    """How the partitions of a source lie in files whose records are no lines.

    ``whole``: each record is a file as a whole. A type of its own, because who takes such records
    for lines names wrong ones. ``version``: of a table with versions, the one that was read; empty: not known, or none.
    """

    type: Literal["record_splits"] = "record_splits"
    node: Name
    whole: bool
    splits: tuple[RecordSplit, ...]
    version: Text = ""


class Read(_Record):
    """A segment read ``rows`` rows of ``space``; ``exhausted``: it met the end.

    ``sums``: checksums of the rows as they were read, where they are lines (:mod:`lineage_core.contract.row_sums`).
    """

    space: Name
    rows: Natural
    exhausted: bool
    sums: Sums = ""


class Limited(_Record):
    """By the user's choice ``captured`` of the ``seen`` records of ``node`` have lineage."""

    node: Name
    seen: Natural
    captured: Natural


class SetAside(_Record):
    """Of ``records`` records the function of ``node`` failed; they were set aside, or others were given in their place, instead of ending the job."""

    node: Name
    records: Natural


class Commit(_Message):
    """A task attempt ended and all of its blocks are in ``file``.

    ``rows``: rows put out. ``keep``: how many of them reached the user (``take`` reads ahead of what
    it gives): the blocks are cut to the first ``keep`` items of ``node#partition``; None: all did.
    ``digest`` identifies the output, to distinguish recomputations; with ``attempts_named`` the blocks that
    read its keys name the attempt (``attempts_read`` of a block), so that there is nothing to distinguish.
    ``undelivered`` counts lost blocks, ``failed``: why capture ended early.
    ``newlines``: (row ordinal, newlines inside the record) of sink rows that hold any.
    ``collisions``: keys that share their position with another key.
    ``spooled``: how many of the blocks could not be sent and wait in ``file`` (HOST:PATH) until they
    are, and ``spooled_reason`` why. ``limited``: where rules limit capture to some records.
    ``set_aside``: records that functions failed on, which the attempt went on without; ``repaired``: with others in their place.
    ``stage``: Spark's stage that the task was of; None: not known, as of older senders and other engines.
    """

    type: Literal["commit"] = "commit"
    node: Name
    partition: Partition
    attempt: Natural
    file: Text = ""
    blocks: Natural = 0
    flows: Natural = 0
    associations: Count = 0
    bytes: Natural = 0
    rows: Natural = 0
    keep: Natural | None = None
    digest: Text = ""
    attempts_named: bool = False
    undelivered: Natural = 0
    failed: Text = ""
    reads: tuple[Read, ...] = ()
    superset_reasons: tuple[Text, ...] = ()
    newlines: tuple[tuple[Natural, Natural], ...] = ()
    collisions: Natural = 0
    spooled: Natural = 0
    spooled_reason: Text = ""
    limited: tuple[Limited, ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    repaired: tuple[SetAside, ...] = ()
    stage: Natural | None = None


class Fail(_Message):
    """A task attempt failed; what it sent counts for nothing."""

    type: Literal["fail"] = "fail"
    node: Name
    partition: Partition
    attempt: Natural
    reason: Text = ""


class Expected(_Record):
    """Partitions of ``node`` whose commits a complete lineage needs."""

    node: Name
    partitions: tuple[Partition, ...]


class Job(_Message):
    """An action returned. Expectations of several jobs merge."""

    type: Literal["job"] = "job"
    job: Natural
    action: Text
    sink: Name | None = None
    call_site: Text = ""
    expected: tuple[Expected, ...] = ()


class SinkFile(_Record):
    """One file of a sink, as it was when it had been committed. ``checksum``: as a :class:`Split` has it."""

    partition: Partition
    path: Text
    size: Natural
    mtime: UnixTime
    rows: Natural | None = None
    checksum: Text = ""


class SinkFiles(_Message):
    """Files that a sink wrote under ``path``."""

    type: Literal["sink_files"] = "sink_files"
    node: Name
    path: Text
    files: tuple[SinkFile, ...]


class RecordFiles(_Message):
    """Files that a sink wrote under ``path``, whose records are no lines. ``version``: of a table with versions, the one that was made."""

    type: Literal["record_files"] = "record_files"
    node: Name
    path: Text
    files: tuple[SinkFile, ...]
    version: Text = ""


class Unknown(_Message):
    """A part of the program that capture can't follow; the lineage is not complete."""

    type: Literal["unknown"] = "unknown"
    node: Name | None = None
    what: Text
    reason: Text = ""
    call_site: Text = ""


def _checked_recipe(text: str) -> str:
    """A recipe is a JSON object with a version; its other fields are defined in :mod:`lineage_core.recipe.document`."""
    if len(text.encode("utf-8", "surrogatepass")) > RECIPE_BYTES_MAX:
        raise ValueError(f"longer than {RECIPE_BYTES_MAX} bytes")
    document = from_json(text)
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise ValueError("has no version")
    return text


class Recipe(_Message):
    """How the rows of a ``frame`` node are computed: the plan of a DataFrame and what it read.

    ``recipe``: the document as JSON (see :mod:`lineage_core.recipe.document`), at most ``RECIPE_BYTES_MAX``.
    A node has one.
    """

    type: Literal["recipe"] = "recipe"
    node: Name
    recipe: Annotated[str, AfterValidator(_checked_recipe)]


class TopicOfStream(_Record):
    """A topic of Kafka that a stream of a query reads.

    Args:
        topic: Its name; empty: any, by a pattern say.
        id: What Kafka calls it; empty: not known.
        firsts: By partition the first offset that the query reads, where it has begun; None: not known.
        assigned: It reads no other partitions than these, nor those that come later.
    """

    topic: Text = ""
    id: Text = ""
    firsts: Annotated[
        dict[Annotated[int, Field(ge=0, lt=2**31)], Annotated[int, Field(ge=0, lt=2**63)]] | None,
        Field(max_length=TOPIC_PARTITIONS_MAX),
    ] = None
    assigned: bool = False


class Stream(_Message):
    """How far a run of a streaming query has come; what was recorded of its batches goes before.

    Args:
        query: The query's id, which its restarts keep.
        run: The run's id.
        state: ``started`` goes first, ``begun`` when it is known what it reads, ``over`` last; ``lost``: what comes of it is not recorded.
        number: The last batch that is committed, and recorded where it can be; -1: none.
        reason: Why it is lost.
        reads: The folders of its streams of files, as the program named them; empty texts for other streams. Of ``begun``.
        beside: The folders that it reads beside its streams; an empty text: what it reads is not known. Of ``begun``.
        topics: Of each stream of topics of Kafka, which it reads; None: not known. Of ``begun``.
        keeps: What its rows may be made of: those of their batch, those of windows of time, or what else. Of ``begun``.
        late_by_before: Rows are late by the watermark of the batch before theirs. Of ``begun``.
        function: Its batches go to a function, which may keep rows. Of ``begun``.
        watermark: The event time by which the batch gave windows, in ms since 1970; None: not known, or the query has none.
        windows: The recipe that gives the ends of the windows of each row, in microseconds since 1970; it is sent once a run.
        complete_to: All that the run did since capture began, up to this batch, is recorded and known; -1: up to none; None: not known. Of ``batch``, ``over`` and ``lost``.
    """

    type: Literal["stream"] = "stream"
    query: Name
    run: Name
    state: Literal["started", "begun", "batch", "over", "lost"]
    number: Annotated[int, Field(ge=-1, lt=2**63)] = -1
    reason: Text = ""
    reads: tuple[Text, ...] = ()
    beside: tuple[Text, ...] = ()
    topics: Annotated[tuple[TopicOfStream, ...], Field(max_length=TOPICS_MAX)] | None = None
    keeps: Literal["nothing", "windows", "more"] = "nothing"
    late_by_before: bool = False
    function: bool = False
    watermark: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    windows: Annotated[str, AfterValidator(_checked_recipe)] | None = None
    complete_to: Annotated[int, Field(ge=-1, lt=2**63)] | None = None


class Arrays(_Message):
    """A part of a recorded workflow of arrays, whose cells are traced by it (see ``lineage_arrays.saved``).

    ``part``: its number, from 0, of ``parts``. ``recording``: its bytes in Base64. The parts in order are one zstd frame.
    """

    type: Literal["arrays"] = "arrays"
    part: Annotated[int, Field(ge=0, lt=ARRAYS_PARTS_MAX)]
    parts: Annotated[int, Field(ge=1, le=ARRAYS_PARTS_MAX)]
    recording: Annotated[str, Field(max_length=ARRAYS_TEXT_MAX, pattern=r"^[A-Za-z0-9+/]*={0,2}\z")]


class DeadLetter(_Message):
    """A record of the pipeline could not be used; ``place`` is its topic/partition/offset.

    ``resolved``: it was replayed and is no longer a problem.
    """

    type: Literal["dead_letter"] = "dead_letter"
    place: Text
    reason: Text = ""
    resolved: bool = False


class Erased(_Message):
    """Texts of the application, or constants of its recipes, were erased with a person's rows, by the plan of that digest."""

    type: Literal["erased"] = "erased"
    plan: Text


class Heartbeat(_Message):
    """The application is alive at ``at``, by the clock of its driver.

    ``beat`` counts them, from 1: that clock may be set back. 0: an emitter that does not count.
    """

    type: Literal["heartbeat"] = "heartbeat"
    at: CalendarTime
    beat: Natural = 0


class Totals(_Record):
    """What the application delivered over all nodes.

    ``nodes``: how many were registered; ``unknown``: how many different parts were reported to have no lineage.
    0 where the sender counted none.
    """

    blocks: Natural = 0
    flows: Natural = 0
    tasks: Natural = 0
    recipes: Natural = 0
    nodes: Natural = 0
    unknown: Natural = 0


class End(_Message):
    """The application ended."""

    type: Literal["end"] = "end"
    ended_at: CalendarTime
    status: EndStatus
    totals: Totals = Totals()


Message: TypeAlias = (
    Begin
    | Register
    | Link
    | Splits
    | RecordSplits
    | Commit
    | Fail
    | Job
    | SinkFiles
    | RecordFiles
    | Unknown
    | Recipe
    | Stream
    | Arrays
    | DeadLetter
    | Erased
    | Heartbeat
    | End
)

_MODELS: dict[str, type[_Message]] = {
    model.model_fields["type"].default: model for model in get_args(Message)
}


def parse_message(line: str | bytes) -> Message:
    """Read one message.

    Raises:
        VersionError: the message is of a version that this reader does not support.
        MessageError: anything else is wrong; ``where`` names the field.
    """
    if len(line) > MESSAGE_BYTES_MAX:
        raise MessageError(f"longer than {MESSAGE_BYTES_MAX} bytes", where="message")
    try:
        fields = from_json(line, allow_inf_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise MessageError(f"not JSON: {error}", where="message") from error
    if not isinstance(fields, dict):
        raise MessageError("not a JSON object", where="message")
    version = fields.get("v")
    if type(version) is not int:
        raise MessageError("must be a whole number", where="v")
    if version not in MESSAGE_VERSIONS:
        readable = ", ".join(map(str, sorted(MESSAGE_VERSIONS)))
        raise VersionError(f"version {version} is not known (known: {readable})", where="v")
    kind = fields.get("type")
    model = _MODELS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise MessageError(f"{kind!r:.80} is not a type of message", where="type")
    # Long lists take some 50 times as much memory as text: not twice at once.
    del fields
    try:
        return model.model_validate_json(line, strict=True)  # type: ignore[return-value]
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field_path = ".".join(map(str, first["loc"])) or "message"
        raise MessageError(f"{kind}: {first['msg']}", where=field_path) from error


def dump_message(message: Message) -> str:
    """Write a message as one line of JSON, without the line end.

    Raises:
        MessageError: the message is longer than ``MESSAGE_BYTES_MAX`` or not serialisable.
    """
    try:
        text = message.model_dump_json()
    except PydanticSerializationError as error:
        raise MessageError(str(error), where="message") from error
    if len(text) > MESSAGE_BYTES_MAX:
        raise MessageError(f"longer than {MESSAGE_BYTES_MAX} bytes", where="message")
    return text
