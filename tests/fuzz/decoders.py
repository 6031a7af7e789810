"""What is put through mutations, but for requests: decoders, recipes, and plans as text."""

from __future__ import annotations

import io
import json
import random
import re
import struct
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import numpy as np

from lineage_core.codec.columns import unpack_block
from lineage_core.codec.csv_codec import decode_csv
from lineage_core.codec.edge_message import StoredBlock, parse_edge_record
from lineage_core.codec.packing import unpack_edge
from lineage_core.codec.record_batch import (
    compress,
    decompress_payload,
    pack_record_batch,
    read_record_batches,
)
from lineage_core.contract.address import parse_position, parse_space, split_address
from lineage_core.contract.block_header import BlockHeader
from lineage_core.contract.dead_letter import parse_topic_partition_offset, read_dead_record
from lineage_core.contract.message import dump_message, parse_message
from lineage_core.contract.region import Region
from lineage_core.contract.sealing import Seal
from lineage_core.errors import ContractError, LineageError
from lineage_core.recipe.document import Recipe
from lineage_core.recipe.functions import has_valid_signature
from lineage_core.recipe.plan import Call, Column, Filter, Limit, Node, Union
from lineage_dataframes.rewrite.common_subplans import find_common_subplans
from lineage_dataframes.rewrite.grouping import grouping_of
from lineage_dataframes.rewrite.orders import nondeterministic_columns
from lineage_dataframes.trace.allowed import check_text
from lineage_dataframes.trace.answerable import refusals
from lineage_linker.errors import UnusableRecordError
from lineage_linker.events import BlockRecord, prepare_block, read_event
from lineage_linker.keys import parse_block
from lineage_linker.sides import read_mark, unpack_waiting
from lineage_query.rows.checksum_cache import ChecksumCache
from lineage_query.rows.places import parse_location, parse_valued
from lineage_query.rows.reader import RowReader
from lineage_store.folding import packed_body
from lineage_store.recipes import recipe_in
from lineage_store.run_notes import read_notes
from lineage_store.spool.reader import Damage, decode, read_lines, record_batches_of
from tests.fuzz import samples
from tests.fuzz.fuzzing import Target
from tests.fuzz.mutating import (
    TEXTS,
    as_bytes,
    json_text,
    mutated_bytes,
    mutated_json,
    mutated_text,
    nested,
)
from tests.fuzz.recipes import RECIPES

Sample = TypeVar("Sample")
_LENGTH = struct.Struct("<I")


def _two(draw: random.Random, given: Sequence[Sample]) -> tuple[Sample, Sample]:
    return draw.choice(given), draw.choice(given)


def _blindly(draw: random.Random, given: Sequence[bytes]) -> bytes:
    return mutated_bytes(draw, *_two(draw, given))


def _mutated_object(draw: random.Random, text: bytes | str, other: bytes | str) -> bytes:
    """JSON with other values, or with other bytes."""
    if draw.random() < 0.15:
        raw = [one if isinstance(one, bytes) else one.encode() for one in (text, other)]
        return mutated_bytes(draw, raw[0], raw[1])
    value, parts = json.loads(text), json.loads(other)
    change = nested(draw, value) if draw.random() < 0.05 else mutated_json(draw, value, parts)
    return as_bytes(json_text(draw, change))


def _reframed(draw: random.Random, given: Sequence[bytes], *, compressed: bool) -> bytes:
    """A frame whose header or content was changed, and whose checksum is right again."""
    one, other = (next(read_record_batches(io.BytesIO(raw))) for raw in _two(draw, given))
    header, payload = one.header, one.payload
    if draw.random() < 0.6:
        header = _mutated_object(draw, header, other.header)
    if draw.random() < 0.6:
        parts = (payload, other.payload)
        if compressed:
            payload = compress(mutated_bytes(draw, *map(decompress_payload, parts)))
        else:
            payload = mutated_bytes(draw, *parts)
    return pack_record_batch(header[: 1 << 20], payload)


def _mostly(draw: random.Random, aimed: Callable[[], bytes], given: Sequence[bytes]) -> bytes:
    return _blindly(draw, given) if draw.random() < 0.25 else aimed()


def _csv(draw: random.Random) -> None:
    (header, rows), (other_header, other_rows) = _two(draw, samples.headers_and_rows())
    if draw.random() < 0.5:
        header = _mutated_object(draw, header, other_header)
    decode_csv(mutated_bytes(draw, rows, other_rows), BlockHeader.from_json(header))


def _spool_file(draw: random.Random) -> None:
    given = samples.frames()
    content = _mostly(draw, lambda: _reframed(draw, given, compressed=True), given)
    for frame in read_record_batches(io.BytesIO(content)):
        decode(frame, samples.APP, lambda node: node == "1")


def _driver_file(draw: random.Random) -> None:
    lines = [draw.choice(samples.messages()) for _ in range(3)]
    lines[1] = _mutated_object(draw, lines[1], lines[2])
    for line in read_lines(io.BytesIO(b"\n".join(lines) + b"\n"), 0):
        assert line.message is not None or line.reason


def _message(draw: random.Random) -> None:
    message = parse_message(_mutated_object(draw, *_two(draw, samples.messages())))
    assert parse_message(dump_message(message)) == message


def _zstd(draw: random.Random) -> None:
    decompress_payload(
        _blindly(draw, [compress(rows) for _, rows in samples.headers_and_rows()[:2]])
    )


def _event(draw: random.Random) -> None:
    given = samples.frames()[:-1]
    value = _mostly(draw, lambda: _reframed(draw, given, compressed=True), given)
    event = read_event(value)
    if isinstance(event, BlockRecord):
        prepare_block(event, lambda node: node == "1")


def _edge_message(draw: random.Random) -> None:
    given = samples.edge_messages()
    value = _mostly(draw, lambda: _reframed(draw, given, compressed=False), given)
    found = parse_edge_record(value)
    if isinstance(found, StoredBlock):
        unpack_block(found.data)
        return
    for edge in found.edges:
        if edge.data is not None:
            unpack_edge(edge.pairs, edge.data)


def _packed_block(draw: random.Random) -> None:
    def content() -> bytes:
        one, other = (decompress_payload(raw[8:]) for raw in _two(draw, given))
        packed = compress(mutated_bytes(draw, one, other))
        return b"LMC1" + _LENGTH.pack(crc32(packed)) + packed

    given = samples.packed_blocks()
    unpack_block(_mostly(draw, content, given))


def _packed_edge(draw: random.Random) -> None:
    (pairs, data), (_, other) = _two(draw, samples.edges())
    if draw.random() < 0.5:
        pairs += draw.choice((-1, 1, 2**22, 2**31, 2**62))
    if draw.random() < 0.5:
        data = data[:3] + compress(mutated_bytes(draw, decompress_payload(data[3:]), other))
    unpack_edge(pairs, mutated_bytes(draw, data, other))


def _seal(draw: random.Random) -> None:
    Seal.from_text("4@3", mutated_text(draw, "12 7 00ff00ff00ff00ff", "0 0 0"))


def _region(draw: random.Random) -> None:
    region = Region.from_text(mutated_text(draw, "0-3 7 12 15-18446744073709551615", "1 2 3-9"))
    assert Region.from_text(region.to_text()).to_text() == region.to_text()


ADDRESSES = (
    "4#0",
    "4#0.17",
    "4@3",
    "12#*",
    "read:x-y#7",
    "*@0",
    "4#0#6",
    "lineage-flow/0/17",
    "4#0.17#2",
)


def _address(draw: random.Random) -> None:
    text = mutated_text(draw, *_two(draw, ADDRESSES))
    read = draw.choice((parse_space, parse_position, split_address, parse_topic_partition_offset))
    read(text)


def _redis_name(draw: random.Random) -> None:
    parse_block(mutated_bytes(draw, b"4#0.17#2", b"word-count.1#3.0#0"))


PLACES = (
    "data/in.csv:12",
    "out/part-0.parquet#3",
    'out#city=Oslo,at="a""b"',
    "out#a=,b=1",
    "file:/a b",
)


def _place(draw: random.Random) -> None:
    text = mutated_text(draw, *_two(draw, PLACES)) * draw.choice((1, 1, 1, 200))
    parse_valued(text)
    parse_location(text)


def _dead_letter(draw: random.Random) -> None:
    fields = {"topic": "t", "partition": "0", "offset": "17", "at": "1.5", "size": "3", "cut": "1"}
    name = draw.choice(list(fields))
    fields[name] = mutated_text(draw, fields[name], draw.choice(TEXTS))
    headers = [(name, as_bytes(text)) for name, text in fields.items()]
    read_dead_record(headers[draw.randrange(2) :], b"value").message()


def _side(draw: random.Random) -> None:
    (mark, columns), (other, other_columns) = _two(draw, samples.sides())
    found = read_mark(mutated_bytes(draw, mark, other))
    if found.side is None:
        found.with_columns(mutated_bytes(draw, columns or other_columns, other_columns))


def _waiting(draw: random.Random) -> None:
    one, other = _two(draw, samples.waiting())
    (size,) = _LENGTH.unpack_from(one)
    if draw.random() < 0.7:
        head = compress(_mutated_object(draw, decompress_payload(one[4 : 4 + size]), b'{"in": []}'))
        unpack_waiting(_LENGTH.pack(len(head)) + head + one[4 + size :])
    else:
        unpack_waiting(mutated_bytes(draw, one, other))


class _Kept:
    """A file of 1.2 MB of lines, with what was kept of it in a folder."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lineage-fuzz-"))
        self.path = str(self.folder / "lines.txt")
        Path(self.path).write_bytes(b"a line of the file\r\n" * 60_000)
        self.index = self.folder / "index"
        files = RowReader(self.index)
        files.index(self.path)
        self.state = files.state(self.path)
        assert self.state is not None
        sums = ChecksumCache(self.index)
        sums.store_file_checksum(self.path, self.state, "sha256:00ff")
        sums.store_rows(self.path, self.state, 0, 3_000, ["00ff", None, "ff00"])
        self.saved = {file: file.read_bytes() for file in sorted(self.index.glob("*.npz"))}
        assert len(self.saved) == 2

    def put(self, draw: random.Random) -> RowReader:
        """Change one of the kept files; a reader that has seen none of them."""
        for file, content in self.saved.items():
            file.write_bytes(content)
        file = draw.choice(list(self.saved))
        file.write_bytes(self._changed(draw, self.saved[file]))
        return RowReader(self.index)

    def _changed(self, draw: random.Random, content: bytes) -> bytes:
        if draw.random() < 0.2:
            return mutated_bytes(draw, content, content)
        with np.load(io.BytesIO(content)) as saved:
            columns = {name: saved[name] for name in saved.files}
        members = [(f"{name}.npy", _npy(column)) for name, column in columns.items()]
        at = draw.randrange(len(members))
        name, member = members[at]
        if draw.random() < 0.5:
            members[at] = (name, mutated_bytes(draw, member, draw.choice(members)[1]))
        else:
            members[at] = (name, _npy(_other_column(draw, columns[name.removesuffix(".npy")])))
        return samples.npz(members)


def _npy(column: Any) -> bytes:
    made = io.BytesIO()
    np.save(made, column)
    return made.getvalue()


def _other_column(draw: random.Random, column: Any) -> Any:
    match draw.randrange(5):
        case 0:
            return np.zeros(draw.choice((0, 1, 10_000_000)), np.int8)
        case 1:
            return column[: draw.randrange(len(column) + 1)]
        case 2:
            return column.astype(np.str_) if draw.random() < 0.5 else np.array(5)
        case 3 if column.dtype.kind == "i":
            return column * draw.choice((-1, 2, 2**40))
        case _:
            return np.repeat(column, draw.choice((2, 3)))


class _Lazily:
    """What is made when it is needed for the first time."""

    kept: _Kept | None = None

    @classmethod
    def get(cls) -> _Kept:
        cls.kept = cls.kept or _Kept()
        return cls.kept


def _kept_files(draw: random.Random) -> None:
    kept = _Lazily.get()
    files = kept.put(draw)
    some = np.array([0, 1, 59_999], np.uint64)
    texts = files.rows(kept.path, some)
    # Whatever the index said: a row that is given is one of the file.
    assert all(text in (None, "a line of the file") for text in texts), texts
    files.lines(kept.path, some + np.uint64(1), some + np.uint64(1))
    files.rows_in_split(kept.path, 700_000, 1_000)
    files.sums(kept.path, 0, 3_000)
    files.checksum(kept.path)


def _run_notes(draw: random.Random) -> None:
    kept = _Lazily.get()
    path = kept.folder / "notes.jsonl"
    line = b'{"app": "app-1", "folder": "/spool/app-1", "kafka": "host:9092"}'
    path.write_bytes(_mutated_object(draw, line, b'{"uncaptured": "why"}') + b"\n")
    read_notes(path)


def _frames_file(draw: random.Random) -> None:
    path = _Lazily.get().folder / "blocks.lmf"
    path.write_bytes(_blindly(draw, samples.frames()))
    for frame in record_batches_of(path):
        assert isinstance(frame, Damage) or frame.stop > frame.offset


_NESTED = re.compile(r'"type":"[^"]*[<>:`]')
RECIPE_TEXTS = tuple(recipe.to_json() for recipe in RECIPES)


def _forged(draw: random.Random) -> str:
    return _mutated_object(draw, *_two(draw, RECIPE_TEXTS)).decode("utf-8", "surrogatepass")


def _recipe(draw: random.Random) -> None:
    try:
        text = _forged(draw)
    except UnicodeDecodeError:
        text = "{}"
    recipe = Recipe.from_json(text)
    recipe.opaque()
    has_valid_signature(recipe, b"k" * 32)
    assert Recipe.from_json(recipe.to_json()) == recipe
    for source in recipe.sources:
        source.columns()


def _stored_recipe(draw: random.Random) -> None:
    message = json.dumps(
        {"v": 1, "type": "recipe", "app": "a", "node": "5", "recipe": draw.choice(RECIPE_TEXTS)}
    )
    recipe_in(mutated_bytes(draw, packed_body(message), packed_body("{}")))


def _plan(draw: random.Random) -> None:
    recipe = _deep(draw) if draw.random() < 0.005 else _readable(draw)
    refusals(recipe, "")
    # What a trace takes from a recipe besides.
    for taken in (find_common_subplans, grouping_of, nondeterministic_columns, check_text):
        # Whether a nested type is one, only Spark can tell.
        if taken is not check_text or not _NESTED.search(recipe.to_json()):
            with suppress(LineageError):
                taken(recipe)


def _readable(draw: random.Random) -> Recipe:
    """A forged recipe that reads as one."""
    for _ in range(20):
        try:
            return Recipe.from_json(_forged(draw))
        except (LineageError, UnicodeDecodeError):
            continue
    return _deep(draw)


def _deep(draw: random.Random) -> Recipe:
    """A recipe with a node on a node on a node."""
    recipe = draw.choice(RECIPES)
    last = len(recipe.plan) - 1
    columns = recipe.columns
    above: list[Node] = []
    for place in range(last, last + draw.choice((10, 30, 100, 300, 1_000))):
        match draw.randrange(3):
            case 0:
                above.append(Filter(columns, place, Call("is null", (Column(columns[0].id),))))
            case 1:
                above.append(Limit(columns, place, 3))
            case _:
                above.append(Union(columns, (place, place)))
    return replace(recipe, plan=(*recipe.plan, *above))


TARGETS = (
    Target("csv", _csv, (ContractError,)),
    Target("spool-blocks", _spool_file, (ContractError,)),
    Target("spool-file", _frames_file, ()),
    Target("spool-driver", _driver_file, ()),
    Target("message", _message, (ContractError,)),
    Target("zstd", _zstd, (ContractError,)),
    Target("linker-event", _event, (UnusableRecordError,)),
    Target("edge-message", _edge_message, (ContractError,)),
    Target("packed-block", _packed_block, (ContractError,)),
    Target("packed-edge", _packed_edge, (ContractError,)),
    Target("seal", _seal, (ContractError,)),
    Target("region", _region, (ContractError,)),
    Target("address", _address, (ContractError,)),
    Target("redis-name", _redis_name, (ContractError,)),
    Target("redis-side", _side, (ContractError,)),
    Target("redis-waiting", _waiting, (ContractError,)),
    Target("place", _place, (LineageError,)),
    Target("dead-letter", _dead_letter, (ContractError,)),
    Target("kept-index", _kept_files, ()),
    Target("run-notes", _run_notes, ()),
    Target("stored-recipe", _stored_recipe, (LineageError,)),
    Target("recipe", _recipe, (LineageError,), "recipes"),
    Target("plan", _plan, (LineageError,), "plans"),
)
