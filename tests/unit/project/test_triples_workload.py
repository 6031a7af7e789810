"""The workflow that traces of triples are measured over has the shape that CSProv was published with."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import csgraph

from benchmarks.workloads.triples import MEDIUM, SMALL_MAX, Shape, workflow

pytestmark = pytest.mark.unit


def test_the_shape_is_the_published_one() -> None:
    assert Shape.of(1) == Shape(
        nodes=4_600_000,
        edges=6_400_000,
        large=(1_200_000, 900_000, 700_000),
        medium=132,
        many_parents=((32, 100, 450), (3_963, 10, 99)),
        documents=532,
    )


@pytest.mark.parametrize(
    ("factor", "scale"), [(1, 0.05), (2, 0.05), pytest.param(1, 1.0, marks=pytest.mark.long)]
)
def test_what_is_generated_has_it(factor: int, scale: float) -> None:
    made, shape = workflow(factor, scale), Shape.of(scale)
    assert made.items == factor * shape.nodes
    assert len(made.src) == factor * shape.edges
    # All of them are triples of the index, where equal ones count once.
    assert len(np.unique(made.src * made.items + made.dst)) == len(made.src)
    assert set(np.unique(made.entity)) == set(range(25))
    assert np.all(made.op == made.entity[made.dst])
    # No cycle: what a value was made of belongs to an entity before.
    assert np.all(made.entity[made.src] < made.entity[made.dst])

    joined = sparse.coo_matrix(
        (np.ones(len(made.src), bool), (made.src, made.dst)), (made.items, made.items)
    )
    _, component = csgraph.connected_components(joined, directed=False)
    sizes = np.sort(np.bincount(component))[::-1]
    large, others = sizes[: 3 * factor], sizes[3 * factor :]
    assert large.tolist() == sorted(shape.large * factor, reverse=True)
    assert np.all(made.is_large == (np.bincount(component)[component] >= min(shape.large)))
    medium, small = others[: shape.medium * factor], others[shape.medium * factor :]
    assert medium.min() >= MEDIUM[1]
    assert medium.max() <= MEDIUM[2]
    assert small.max() <= SMALL_MAX

    parents = np.bincount(made.dst, minlength=made.items)
    for count, least, most in shape.many_parents:
        assert np.count_nonzero((parents >= least) & (parents <= most)) == factor * count
    assert parents.max() <= 450
    assert len(np.unique(made.document[made.entity == 0])) == factor * shape.documents
    assert np.all(made.document[made.entity > 0] == -1)


def test_the_same_is_generated_each_time() -> None:
    one, other = workflow(1, 0.01 * 5), workflow(1, 0.05)
    assert np.array_equal(one.src, other.src)
    assert np.array_equal(one.dst, other.dst)
