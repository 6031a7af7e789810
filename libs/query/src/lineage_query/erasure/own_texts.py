"""Texts of a subject in what lineage itself keeps: blocks and messages, wherever they are."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lineage_core.codec.columns import unpack_block
from lineage_core.codec.csv_codec import decode_csv
from lineage_core.codec.edge_message import StoredBlock, parse_edge_record
from lineage_core.codec.record_batch import decompress_payload, read_record_batches
from lineage_core.contract.block import FlowBlock
from lineage_core.contract.block_header import BlockHeader
from lineage_core.contract.message import Message, Recipe, Stream, parse_message
from lineage_core.errors import ContractError
from lineage_core.recipe.document import ERASED as ERASED_RECIPE
from lineage_query.erasure.erased_texts import ItemsOfTexts, Words, recipe_holds
from lineage_query.erasure.file_search import names_in_json
from lineage_query.erasure.kinds import holds_all, words_of
from lineage_query.erasure.message_texts import texts_of

Content: TypeAlias = "FlowBlock | Message | None"
"""What a record of a topic holds; None: positions alone, or nothing."""


def content_of(value: bytes | None) -> Content:
    """What a record of a topic of the pipeline holds.

    Raises:
        ContractError: it can't be read.
    """
    if not value:
        return None
    if value.startswith(b"{"):
        return parse_message(value)
    try:
        linked = parse_edge_record(value)
    except ContractError:
        return _emitted_block(value)
    return unpack_block(linked.data) if isinstance(linked, StoredBlock) else None


def _emitted_block(value: bytes) -> FlowBlock:
    batches = list(read_record_batches(io.BytesIO(value)))
    if len(batches) != 1:
        raise ContractError(f"{len(batches)} record batches in one record", where="record")
    header = BlockHeader.from_json(batches[0].header)
    return decode_csv(decompress_payload(batches[0].payload), header)


@dataclass(frozen=True, slots=True)
class SubjectTexts:
    """Recognises texts of a subject. ``keys``: the words of values that identify; ``columns``: of these, in small letters."""

    keys: Sequence[Words]
    columns: Collection[str]

    def hold(self, text: str) -> bool:
        """Whether a text has the values of a key."""
        names = (word for name in names_in_json(text) for word in words_of(name))
        words = (*words_of(text), *names)
        return any(holds_all(words, key) for key in self.keys)

    def in_block(self, block: FlowBlock, items: ItemsOfTexts | None) -> int:
        """How many texts of a block are the subject's. ``items``: whose texts were to be erased, of its application."""
        left = 0 if items is None else items.left_in(block)
        texts = (
            text
            for column in (block.values, block.in_text, block.out_text)
            for text in column or ()
            if text is not None
        )
        return left + sum(map(self.hold, texts))

    def in_message(self, message: Message, erased: Collection[str] = ()) -> Iterator[str]:
        """What of a message holds values. ``erased``: nodes whose recipes were to be erased."""
        if isinstance(message, Recipe):
            holds = message.recipe != ERASED_RECIPE and (
                message.node in erased or recipe_holds(message.recipe, self.keys)
            )
            if holds:
                yield f"the recipe of {message.node} may hold values"
            return
        if (
            isinstance(message, Stream)
            and message.windows
            and recipe_holds(message.windows, self.keys)
        ):
            yield f"the recipe of the windows of the query {message.query} may hold values"
        for what, text in texts_of(message, self.columns):
            if self.hold(text):
                yield f"{what} holds the values"
