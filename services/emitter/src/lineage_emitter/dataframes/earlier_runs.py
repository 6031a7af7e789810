"""What an earlier run of a streaming query has done, as far as capture of it noted that: by which plan it ran, and which batches.

A run that goes on from a checkpoint may find a batch whose files an earlier one wrote, and state that earlier ones made. Their rows can be
traced by its own plan where the earlier one was the same: where recipes of both are equal but for what was read.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lineage_core.environment.private_files import ensure_private_folder, private_opener
from lineage_core.recipe.document import RECIPE_VERSION, Recipe, Source
from lineage_core.recipe.names import ICEBERG
from lineage_emitter.dataframes.stream_reports import UNKNOWN_LATE, Known

logger = logging.getLogger(__name__)
_NUMBERS = re.compile(r'(?<="id":)\d+|(?<="window":)\d+|(?<="keys":\[)[\d,]+(?=\])')
"""Where numbers of columns stand in a recipe."""


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A run of a query.

    ``plan``: a mark that equal plans have. ``first``, ``last``: batches that ran by it, this run's and those of others before it. ``late``:
    why any rows of these may have been dropped as late; empty: none were.
    """

    run: str
    plan: str
    first: int
    last: int
    late: str


@dataclass(frozen=True, slots=True)
class Continued:
    """An earlier run whose plan must be the same. ``known``: what is known then. ``is_sure``: it is known to have run each batch before."""

    earlier: EarlierRun
    known: Known
    is_sure: bool


def continued(earlier: EarlierRun | None, known: Known) -> Continued | None:
    """What is known of a batch that is recorded, if an earlier run had the same plan; None: that would say nothing.

    A batch that no run has recorded may be between both: the earlier run was cut short.
    """
    if earlier is None or known.first is None:
        return None
    between = known.first - earlier.last - 1
    if between > 1 or (between == 1 and not known.began):
        return None
    is_sure = between < 0 or (between == 0 and known.began)
    late = earlier.late or (UNKNOWN_LATE.format(known.first - 1) if between == 1 else "")
    known = replace(
        known,
        run_problem=known.run_problem if earlier.first else "",
        late_rows=late or known.late_rows,
        late_problem=known.late_problem or (late if known.counts_late else ""),
    )
    return Continued(earlier, known, is_sure)


def plan_mark(recipe: Recipe, streams: Sequence[Source]) -> str:
    """A mark that is equal for recipes that differ by no more than what was read of ``streams``, and by numbers of columns.

    Empty: some other source has the files of a stream, so it is not known which of the two may differ.
    """
    are_of_streams = [_is_of(source, streams) for source in recipe.sources]
    if sum(are_of_streams) > len(streams):
        return ""
    sources = tuple(
        _unread(source) if is_of_stream else source
        for source, is_of_stream in zip(recipe.sources, are_of_streams, strict=True)
    )
    output = replace(recipe.output, files=(), version=None, commits=())
    plain = replace(
        recipe, sources=sources, output=output, site="", signature="", batch=None, version=RECIPE_VERSION
    )  # fmt: skip
    numbers: dict[str, int] = {}

    def renumbered(found: re.Match[str]) -> str:
        return ",".join(str(numbers.setdefault(n, len(numbers))) for n in found[0].split(","))

    text = _NUMBERS.sub(renumbered, plain.to_json())
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _is_of(source: Source, streams: Sequence[Source]) -> bool:
    """Whether a source of a recipe is what was read of a stream: the recipe may say more of how it is read."""
    files = set(source.files)
    return source in streams or any(
        files == set(stream.files) and source.format == stream.format for stream in streams if files
    )


def _unread(source: Source) -> Source:
    # Of a table of Iceberg, options say where its snapshots stand.
    options = {} if source.format == ICEBERG else source.options
    return replace(source, paths=(), files=(), version=None, options=options)


class RunNotes:
    """Notes of runs in a folder, a file for each query. ``folder``: None: none are kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def read(self, query: str, run: str) -> EarlierRun | None:
        """What is noted of a query; None: nothing, or of this run."""
        if self._folder is None:
            return None
        try:
            noted = EarlierRun(**json.loads(self._file(query).read_text("utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as problem:
            logger.warning("what an earlier run of query %s did can't be read: %s", query, problem)
            return None
        return None if noted.run == run else noted

    def write(self, query: str, noted: EarlierRun) -> None:
        """Note a run in the place of what was noted of the query."""
        if self._folder is None:
            return
        path = self._file(query)
        draft = path.with_suffix(".new")
        try:
            ensure_private_folder(self._folder)
            with open(draft, "w", encoding="utf-8", opener=private_opener) as file:
                json.dump(asdict(noted), file)
            os.replace(draft, path)
        except OSError as problem:
            # A run that goes on from it knows less.
            logger.warning("a run of query %s can't be noted: %s", query, problem)

    def _file(self, query: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{query}.json"
