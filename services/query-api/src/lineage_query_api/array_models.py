"""What requests and answers about cells of arrays hold. Keys are only ever added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, StringConstraints, model_validator

from lineage_query_api.answer_models import AnswerGroup
from lineage_query_api.models import (
    NO_NUL,
    STANDING,
    DirectionText,
    FrozenModel,
    NodeText,
    PlaceText,
    RequestModel,
    StandingText,
)

if TYPE_CHECKING:
    from typing_extensions import Self

SIDE_MAX = 1_024
"""Pixels of a picture each way."""
RANGES_MAX = 10_000
"""Runs of positions that an answer lists of one array."""
FOLLOWED_RANGES_MAX = 100_000
"""As `RANGES_MAX`, of a trace whose pages are each followed anew through all applications."""
VALUES_MAX = 1_000
OF_ARRAYS_MAX = 1_000
ArrayId = Annotated[str, StringConstraints(pattern=r"^(source|output)-[0-9]{1,7}$")]
FollowedId = Annotated[str, StringConstraints(pattern=r"^.{1,512}/(source|output)-[0-9]{1,7}$")]
IndexText = Annotated[str, StringConstraints(max_length=1_000, pattern=NO_NUL)]
PositionText = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,18}$")]
PNG: Any = Field(description="in Base64: grey with an alpha channel")
PLANE: Any = Field(
    description="what it shows: for each axis of the array a coordinate, or a range of at most two axes (rows, columns), as in 3,0:40,0:80"
)
SIZE: Any = Field(description="pixels: rows, columns")
STEPS: Any = Field(description="rows and columns of cells in a pixel")


class ArrayFileModel(FrozenModel):
    """A file of an array as it was read or written."""

    path: str
    member: str = Field(description="the array in a file of several; else empty")
    size: int
    mtime: float
    checksum: str
    standing: StandingText = STANDING


class ArrayModel(FrozenModel):
    """An array of a recording that has a name."""

    id: str
    name: str
    is_source: bool = Field(description="it came from outside; else it was saved, or named")
    shape: list[int]
    dtype: str
    call_site: str
    file: ArrayFileModel | None


class ArrayPage(FrozenModel):
    """Named arrays of an application, sources first."""

    app: str
    items: list[ArrayModel]
    next: str | None
    total: int


class MarksModel(FrozenModel):
    """Where cells lie in a plane of their array: a pixel is opaque where any of its cells is one of them."""

    plane: str = PLANE
    count: int = Field(description="cells that lie in the plane")
    size: list[int] = SIZE
    steps: list[int] = STEPS
    png: str = PNG


class CellsModel(FrozenModel):
    """Cells of an array."""

    array: ArrayModel
    count: int
    whole: bool = Field(description="all cells of the array")
    ranges: str = Field(
        description="positions (row-major indices) as in regions: 0-3 7 12; as many runs as were requested"
    )
    ranges_total: int
    next: str | None = Field(
        description="the position behind which further runs begin (`after`); null: these are the last ones"
    )
    picture: MarksModel | None


class CellTraceModel(FrozenModel):
    """Cells that some cells were made from, or went into, within one application."""

    app: str
    direction: DirectionText
    exact: bool
    complete: bool
    superset_reasons: list[str]
    incomplete_reasons: list[str]
    chosen_by: list[str] = Field(
        description="calls whose values chose among cells (a maximum, a sort, a mask): these are the chosen ones, with `choices` all that took part"
    )
    asked: CellsModel
    arrays: list[CellsModel] = Field(description="those with cells first")
    arrays_total: int


class CellTraceRequest(RequestModel):
    """A question about cells: at an address, or of an array by its id."""

    direction: DirectionText
    cells: PlaceText | None = Field(
        None, description="an address: image.npy[12,40], spectra.npz/flux[3,12:20,:]"
    )
    array: ArrayId | None = Field(None, description="instead: the id of an array")
    index: IndexText = Field(
        "", description="its cells: numbers, slices and ... as in an address; empty: all"
    )
    to: PlaceText | None = Field(None, description="forward: to outputs of this name alone")
    choices: bool = Field(
        False,
        description="where values chose among cells, all that took part, not the chosen ones alone",
    )
    limit: int = Field(100, ge=0, le=RANGES_MAX, description="runs of positions of each array")
    after: dict[ArrayId, PositionText] = Field(
        default_factory=dict,
        max_length=OF_ARRAYS_MAX,
        description="by id of an array the position behind which its runs begin",
    )
    only: list[ArrayId] = Field(
        default_factory=list,
        max_length=OF_ARRAYS_MAX,
        description="ids of the arrays that the answer has; empty: all",
    )
    side: int = Field(
        0, ge=0, le=SIDE_MAX, description="pixels of pictures each way; 0: no pictures"
    )
    planes: dict[ArrayId, IndexText] = Field(
        default_factory=dict,
        max_length=OF_ARRAYS_MAX,
        description="by id of an array the plane that its picture shows, as in 3,:,100:200; else the first one with a cell",
    )

    @model_validator(mode="after")
    def _has_one_start(self) -> Self:
        if (self.cells is None) == (self.array is None):
            raise ValueError("give cells (an address), or array with index")
        return self


class FollowedCellsModel(FrozenModel):
    """Cells of an array of an application."""

    app: str
    array: ArrayModel
    count: int
    whole: bool = Field(description="all cells of the array")
    ranges: str = Field(
        description="positions (row-major indices) as in regions: 0-3 7 12; as many runs as were requested"
    )
    ranges_total: int
    next: str | None = Field(
        description="the position behind which further runs begin (`after`); null: these are the last ones"
    )


class FollowedTraceModel(FrozenModel):
    """Cells that some cells were made from, or went into, also in other applications."""

    app: str
    direction: DirectionText
    exact: bool
    complete: bool
    superset_reasons: list[str]
    incomplete_reasons: list[str]
    chosen_by: list[str] = Field(description="as in a trace within an application")
    warnings: list[str]
    asked: FollowedCellsModel
    arrays: list[FollowedCellsModel] = Field(description="those with cells first")
    arrays_total: int
    rows: list[AnswerGroup] = Field(
        description="with `all_jobs`: where it goes on to from rows that arrays were made of, or written to; not the arrays above"
    )


class FollowRequest(RequestModel):
    """A question about cells over all applications, as the command line asks it."""

    direction: DirectionText
    cells: PlaceText = Field(description="an address: /data/image.npy[12,40], total[3]")
    app: NodeText | None = Field(
        None,
        description="the application; else the one that wrote (read) the file that lies there now, or the latest that has such an array",
    )
    to: PlaceText | None = Field(None, description="forward: to outputs of this name alone")
    all_jobs: bool = Field(
        False,
        description="go on through the programs that wrote what was read, or read what was written",
    )
    choices: bool = Field(
        False,
        description="where values chose among cells, all that took part, not the chosen ones alone",
    )
    limit: int = Field(
        100, ge=0, le=FOLLOWED_RANGES_MAX, description="runs of positions of each array"
    )
    after: dict[FollowedId, PositionText] = Field(
        default_factory=dict,
        max_length=OF_ARRAYS_MAX,
        description="by APP/ID of an array the position behind which its runs begin",
    )


class ListedArrayModel(FrozenModel):
    """A named array as lists show it."""

    name: str
    type: str
    path: str | None


class ArrayApplication(FrozenModel):
    """An application that recorded arrays."""

    app: str
    name: str
    started_at: float
    arrays: list[ListedArrayModel]


class ArrayApplications(FrozenModel):
    """Applications that recorded arrays, the latest first; ``left_out``: older applications that were not searched."""

    items: list[ArrayApplication]
    left_out: int


class PictureModel(FrozenModel):
    """A plane of an array, whose file is bytes for bytes the one that was recorded: each pixel the mean of its finite cells."""

    plane: str = PLANE
    low: float | None = Field(description="the value that is black; null: no cell has a finite one")
    high: float | None = Field(description="the value that is white")
    size: list[int] = SIZE
    steps: list[int] = STEPS
    png: str = PNG


class CellValue(FrozenModel):
    """The value of a cell."""

    position: str
    cell: list[int] = Field(description="its coordinates")
    text: str


class CellValues(FrozenModel):
    """Values of cells of an array, whose file is bytes for bytes the one that was recorded."""

    count: int = Field(description="cells that were asked for")
    values: list[CellValue]
