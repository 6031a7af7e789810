"""Rows of files with some lines around them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query

from lineage_core.contract.address import parse_space, split_address
from lineage_core.contract.region import Region
from lineage_core.tracing.budget import current_budget
from lineage_query.listing import POSITION_MAX
from lineage_query.snapshot import ApplicationSnapshot
from lineage_query_api.dependencies import AppName, RowCaller, Store
from lineage_query_api.errors import ProblemError
from lineage_query_api.models import PlaceText, RowModel, RowsModel
from lineage_store.paths import shown_path

router = APIRouter(prefix="/v1/applications/{app}", tags=["rows"])


@router.get("/rows")
def get_rows(
    app: AppName,
    store: Store,
    _: RowCaller,
    address: Annotated[PlaceText, Query(description="an item's address, such as read#0#6")],
    around: Annotated[int, Query(ge=0, le=200, description="rows before and behind it")] = 3,
) -> RowsModel:
    """The row of an item in its file, with rows around it.

    Rows are read only of files that the application read or wrote, below the folders that the
    server may read.
    """
    opened = store.open(app)
    regions = opened.names.find(address, opened.graph)
    space = next(iter(regions))
    position = split_address(address)[1]
    locations = opened.locations.as_now()
    locations.check(space, regions[space], opened.names.space(space))
    first, last = max(position - around, 0), min(position + around, POSITION_MAX)
    last = min(last, _last_row(opened, space, last))
    with store.turn():
        rows_by_file = locations.rows_of(space, Region.from_positions(range(first, last + 1)))
    if not rows_by_file:
        raise ProblemError(HTTPStatus.NOT_FOUND, f"{address} lies in no file")
    rows = rows_by_file[0]
    record = opened.record(parse_space(space).name)
    path = shown_path(rows.path, None if record is None else record.path)
    current_budget().count_name(path, len(rows.positions))
    numbers = [0] * len(rows.positions) if rows.numbers is None else rows.numbers.tolist()
    places = zip(rows.positions.tolist(), numbers, rows.places(path), strict=True)
    listed = zip(places, rows.texts, rows.bindings, strict=True)
    return RowsModel(
        path=path,
        unit=rows.unit,
        changed=rows.changed,
        standing=rows.file_status,
        note=rows.note,
        rows=[
            RowModel(
                number=number,
                location=place or "",
                text=text,
                asked=at == position,
                address=f"{opened.names.space(space)}#{at}",
                binding=binding,
            )
            for (at, number, place), text, binding in listed
            if text is not None or at == position or rows.unit != "line"
        ],
    )


def _last_row(opened: ApplicationSnapshot, space: str, last: int) -> int:
    parsed = parse_space(space)
    rows = opened.locations.partitions(parsed.name).get(parsed.partition)
    return last if rows is None else max(rows - 1, 0)
