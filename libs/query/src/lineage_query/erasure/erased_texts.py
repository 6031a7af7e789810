"""What takes the place of texts of a subject that are stored with the lineage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from lineage_core.contract.block import FlowBlock
from lineage_core.contract.region import Region
from lineage_core.contract.verdict import QUARANTINE
from lineage_core.errors import ContractError
from lineage_core.recipe.document import ERASED as ERASED_RECIPE
from lineage_core.recipe.document import Recipe
from lineage_core.recipe.plan import (
    Call,
    Filter,
    Literal,
    Values,
    expressions_of,
    subexpressions_of,
)
from lineage_query.erasure.kinds import holds, holds_all, words_of

ERASED = "[erased]"
"""The text of a row that was erased."""
Words = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class ItemsOfTexts:
    """Whose texts are erased. ``whole``: all of the application's; else those of items, by space."""

    whole: bool = False
    spaces: Mapping[str, Region] = field(default_factory=dict)

    def rewrite(self, block: FlowBlock) -> FlowBlock | None:
        """The block without these texts; None if it has none of them."""
        if block.values is None:
            return None
        chosen = self.rows_of(block)
        values = [
            ERASED if is_chosen and text is not None else text
            for is_chosen, text in zip(chosen.tolist(), block.values, strict=True)
        ]
        return None if values == list(block.values) else replace(block, values=values)

    def left_in(self, block: FlowBlock) -> int:
        """How many of these texts a block still has."""
        if block.values is None:
            return 0
        rows = np.flatnonzero(self.rows_of(block)).tolist()
        return sum(block.values[row] not in {None, ERASED} for row in rows)

    def rows_of(self, block: FlowBlock) -> npt.NDArray[np.bool_]:
        """Which rows of a block have such a text."""
        chosen = np.full(block.rows, self.whole)
        if self.whole:
            return chosen
        last = block.out_first if block.out_last is None else block.out_last
        for section in block.out:
            region = self.spaces.get(section.space)
            if region:
                rows = slice(section.row_first, section.row_stop)
                # The first run that ends at or behind the row's first position.
                run = np.searchsorted(region.last, block.out_first[rows])
                first = region.first[np.minimum(run, len(region.first) - 1)]
                chosen[rows] = (run < len(region.first)) & (first <= last[rows])
        return chosen


def recipe_holds(text: str, keys: Sequence[Words]) -> bool:
    """Whether a constant, or a row that the program made, holds all values of a key; a recipe that can't be read may.

    ``keys``: of subjects, the words of their values.
    """
    if text == ERASED_RECIPE:
        return False
    try:
        recipe = Recipe.from_json(text)
    except ContractError:
        return True
    failure = recipe.output.failure
    # An error speaks of one value of a row: any one is enough here.
    said = () if failure is None else words_of(failure.message)
    if any(holds(said, value) for key in keys for value in key):
        return True
    return any(holds_all(words, key) for words in _constants(recipe) for key in keys)


def nodes_to_erase(recipes: Sequence[tuple[str, str]], keys: Sequence[Words]) -> list[str]:
    """Nodes of an application on the subject's way whose recipes are to be erased. ``recipes``: nodes, each with its recipe's text.

    What was set aside is told by arguments of calls and by errors, which are values of rows and need be none of a key: all such recipes are
    meant, and those of outputs that leave these rows out.
    """
    sets_aside = any(QUARANTINE in text for _, text in recipes)
    return [
        node
        for node, text in recipes
        if recipe_holds(text, keys) or (text != ERASED_RECIPE and _may_name_rows(text, sets_aside))
    ]


def _may_name_rows(text: str, sets_aside: bool) -> bool:
    """Whether a recipe is of rows that were set aside, or may leave them out. ``sets_aside``: its application has such rows."""
    recipe = Recipe.from_json(text)
    may_leave_out = sets_aside or recipe.output.failure is not None
    return recipe.output.action == QUARANTINE or (may_leave_out and _leaves_out(recipe))


def _leaves_out(recipe: Recipe) -> bool:
    """Whether a filter names rows that are not there."""
    return any(
        isinstance(node, Filter) and isinstance(node.condition, Call) and node.condition.fn == "not"
        for node in recipe.plan
    )


def keys_of_rows(rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> list[Words]:
    """The words of the values in some columns, of each row; of all columns where none are named."""
    lower = {column.lower() for column in columns}
    keys: dict[Words, None] = {}
    for row in rows:
        values = (
            words_of(value) for name, value in row.items() if not lower or name.lower() in lower
        )
        key = tuple(words for words in values if words)
        if key:
            keys[key] = None
    return list(keys)


def _constants(recipe: Recipe) -> Iterator[tuple[str, ...]]:
    """Words of the constants of each node, and of each row that stands in the plan."""
    for node in recipe.plan:
        literals = [
            part.value
            for expression in expressions_of(node)
            for part in subexpressions_of(expression)
            if isinstance(part, Literal) and part.value is not None
        ]
        yield tuple(word for value in literals for word in words_of(value))
        if isinstance(node, Values):
            for row in node.rows:
                yield tuple(word for cell in row if cell.value for word in words_of(cell.value))
