from __future__ import annotations

import pytest

from lineage_core.recipe.document import Output, Recipe
from lineage_core.recipe.plan import Attribute, Call, Column, Project, Range
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.spark.versions import check_spark

pytestmark = pytest.mark.unit


def recipe(spark: str, function: str) -> Recipe:
    column = Attribute(1, "id", "bigint")
    made = Call(function, (Column(1),))
    plan = (Range((column,), 0, 9, 1), Project((Attribute(2, "n", "string"),), 0, (made,)))
    return Recipe(spark=spark, settings={}, sources=(), plan=plan, output=Output(), site="")


@pytest.mark.parametrize("made_in", ["3.5.9", "4.0.5", "4.1.4", "4.2.1", "4.3.0"])
@pytest.mark.parametrize("traced_in", ["3.5.9", "4.0.5", "4.1.4", "4.2.1", "4.3.0"])
def test_recipes_cross_by_function(made_in: str, traced_in: str) -> None:
    check_spark(recipe(made_in, "upper"), traced_in)
    if made_in == traced_in:
        check_spark(recipe(made_in, "from_json"), traced_in)
    else:
        with pytest.raises(RefusedError, match="from_json may give other values"):
            check_spark(recipe(made_in, "from_json"), traced_in)
    if (made_in == "3.5.9") == (traced_in == "3.5.9"):
        check_spark(recipe(made_in, "array_distinct"), traced_in)
    else:
        with pytest.raises(RefusedError, match="array_distinct may give other values"):
            check_spark(recipe(made_in, "array_distinct"), traced_in)


@pytest.mark.parametrize("other", ["3.4.4", "4.4.0"])
def test_a_version_that_was_never_compared_is_refused(other: str) -> None:
    for made_in, traced_in in ((other, "4.1.4"), ("4.1.4", other)):
        with pytest.raises(RefusedError, match="never compared"):
            check_spark(recipe(made_in, "upper"), traced_in)
    check_spark(recipe(other, "upper"), other)
