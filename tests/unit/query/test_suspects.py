"""Suspects: published formulas and tests against other sources, counts against brute force, over drawn jobs."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lineage_core.contract.address import SpaceKind, parse_space
from lineage_core.contract.block import BlockId
from lineage_core.contract.graph import BlockRef, SplitRecord
from lineage_query.suspects.health import deviating_keys, deviations_of_tasks
from lineage_query.suspects.outliers import critical_value, find_outliers, student_quantile
from lineage_query.suspects.ranking import ranked
from lineage_query.suspects.spectrum import FORMULAS, Formula, Spectrum
from lineage_query.suspects.tasks import KeyCounts, Step, Task, measure
from tests.support.memory_graph import MemoryGraph, associations, node
from tests.support.spool_builder import block

pytestmark = pytest.mark.unit

ROSNER = (
    *(-0.25, 0.68, 0.94, 1.15, 1.20, 1.26, 1.26, 1.34, 1.38, 1.43, 1.49, 1.49, 1.55, 1.56),
    *(1.58, 1.65, 1.69, 1.70, 1.76, 1.77, 1.81, 1.91, 1.94, 1.96, 1.99, 2.06, 2.09, 2.10),
    *(2.14, 2.15, 2.23, 2.24, 2.26, 2.35, 2.37, 2.40, 2.47, 2.54, 2.62, 2.64, 2.90, 2.92),
    *(2.92, 2.93, 3.21, 3.26, 3.30, 3.59, 3.68, 4.30, 4.64, 5.34, 5.42, 6.01),
)
"""Rosner's own example (1983), as the NIST handbook (1.3.5.17.3) has it: the three greatest are outliers, and Grubbs finds none."""


@given(st.floats(0.5, 0.999999), st.integers(1, 300))
def test_quantiles_of_student_are_those_of_scipy(probability: float, freedom: int) -> None:
    expected = float(stats.t.ppf(probability, freedom))
    assert student_quantile(probability, freedom) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_critical_values_are_those_of_tables() -> None:
    """Grubbs (1969), table 1, two-sided at 5 %; lambda of the handbook's example."""
    assert [round(critical_value(n), 2) for n in (3, 4, 6, 10, 20)] == [
        1.15,
        1.48,
        1.89,
        2.29,
        2.71,
    ]
    assert round(critical_value(54), 3) == 3.159


def test_masked_outliers_are_found_by_the_better_tests() -> None:
    found = find_outliers(ROSNER)
    assert sorted(found.esd) == [51, 52, 53]
    assert found.grubbs == ()
    assert found.tests(53) == ("median deviations", "generalised ESD")
    assert found.tests(20) == ()


@pytest.mark.parametrize("values", [(), (1.0,), (1.0, 9.0), (2.0, 2.0, 2.0, 2.0)])
def test_few_or_equal_values_have_no_outlier(values: tuple[float, ...]) -> None:
    found = find_outliers(values)
    assert not any(found.tests(n) for n in range(len(values)))


def test_one_of_many_equal_ones_stands_out() -> None:
    found = find_outliers([1.0, 1.0, 1.0, 5.0, 1.0, 1.0])
    assert found.tests(3) == ("median deviations", "generalised ESD", "Grubbs")


counts = st.tuples(st.integers(1, 30), st.integers(0, 30)).flatmap(
    lambda of: st.tuples(
        st.integers(0, of[0]), st.integers(0, of[1]), st.just(of[0]), st.just(of[1])
    )
)
spectra = counts.map(lambda each: Spectrum(*each))


def published(spectrum: Spectrum, formula: Formula) -> float:
    """The formula as its paper has it, in floats."""
    bad, good = spectrum.bad, spectrum.good
    missed = spectrum.bad_all - bad
    if formula == "ochiai":
        return bad / math.sqrt(spectrum.bad_all * (bad + good)) if bad else 0.0
    if formula == "tarantula":
        share = bad / spectrum.bad_all
        rest = good / spectrum.good_all if spectrum.good_all else 0.0
        return share / (share + rest) if share else 0.0
    return bad**2 / (good + missed) if good + missed else math.inf


@given(spectra, st.sampled_from(FORMULAS))
def test_scores_are_those_of_the_papers(spectrum: Spectrum, formula: Formula) -> None:
    score = spectrum.score(formula)
    expected = published(spectrum, formula) if spectrum.is_suspect else 0.0
    assert (math.inf if score is None else score) == pytest.approx(expected)


@given(st.lists(spectra, min_size=2, max_size=2), st.sampled_from(FORMULAS))
def test_keys_rank_as_scores_do(pair: list[Spectrum], formula: Formula) -> None:
    first, second = (Spectrum(one.bad, one.good, 30, 30) for one in pair)
    scores = [
        math.inf if one.score(formula) is None else one.score(formula) for one in (first, second)
    ]
    if not math.isclose(*(score or 0.0 for score in scores)) and math.inf not in scores:
        assert (first.key(formula) < second.key(formula)) == ((scores[0] or 0) < (scores[1] or 0))


@given(st.integers(1, 30), st.integers(0, 30), st.sampled_from(FORMULAS))
def test_what_is_in_all_outputs_is_no_suspect(bad: int, good: int, formula: Formula) -> None:
    spectrum = Spectrum(bad, good, bad, good)
    assert spectrum.is_suspect == (good == 0)
    assert (spectrum.score(formula) == 0) == (good > 0)


@given(st.dictionaries(st.integers(), st.integers(0, 5).map(lambda n: (n, 0)), max_size=12))
def test_equal_keys_share_a_rank(keys: dict[int, tuple[int, int]]) -> None:
    for thing, (rank, tied) in ranked(keys).items():
        assert rank == 1 + sum(other > keys[thing] for other in keys.values())
        assert tied == sum(other == keys[thing] for other in keys.values())


SOURCE, SHUFFLE, SINK = "0", "5", "8"
row = st.lists(st.integers(0, 39), min_size=1, max_size=6, unique=True).map(sorted)
work = st.lists(st.tuples(row, st.integers(0, 9)), max_size=12)


def graph_of(works: list[list[tuple[list[int], int]]], attempts: int = 1) -> MemoryGraph:
    """Tasks that read 40 rows each, and combine them by ten keys; of ``attempts`` at each, the last does what ``works`` say."""
    blocks = []
    for task, rows in enumerate(works):
        for attempt in range(attempts if rows else 0):
            done = rows if attempt == attempts - 1 else [([0], 0)]
            block_id = BlockId(SHUFFLE, task, task * attempts + attempt, 0)
            parts = [(f"{SHUFFLE}@{p}", [one for one in done if one[1] % 2 == p]) for p in (0, 1)]
            blocks.append(block(block_id, f"{SOURCE}#{task}", parts))
    splits = [
        SplitRecord(SOURCE, task, "in.txt", task, 1, 9, 0.0, compressed=False, rows=40)
        for task in range(len(works))
    ]
    nodes = [node(SOURCE, "source"), node(SHUFFLE, "shuffle")]
    return MemoryGraph(nodes, [], blocks, splits)


@given(st.lists(work, min_size=1, max_size=5), st.integers(1, 2))
def test_tasks_and_keys_are_measured_as_brute_force_counts(
    works: list[list[tuple[list[int], int]]], attempts: int
) -> None:
    graph = graph_of(works, attempts)
    measures = measure(graph, graph.nodes())
    found = {step.task: step for step in measures.steps}
    keys: Counter[int] = Counter()
    for task, rows in enumerate(works):
        if not rows:
            continue
        pairs = [(at, key) for ins, key in rows for at in ins]
        keys.update(key for _, key in pairs)
        step = found[Task(SHUFFLE, task)]
        assert step.step == Step(SOURCE, SHUFFLE)
        assert (step.records, step.pairs) == (40, len(pairs))
        assert step.used == len({at for at, _ in pairs})
    assert measures.keys is not None
    counted = {
        position: records
        for part in measures.keys
        for position, records in zip(part.positions.tolist(), part.records.tolist(), strict=True)
    }
    assert counted == keys
    assert all(parse_space(part.space).kind is SpaceKind.KEYS for part in measures.keys)
    every = [pair for one in graph.block_list for pair in associations(one)]
    assert attempts > 1 or sum(keys.values()) == len(every)


def long_task(outputs: list[int]) -> MemoryGraph:
    """One task over 400 rows; ``outputs``: by part of 20 rows, how many keys each of its rows goes into."""
    rows = [
        ([part * 20 + at], key)
        for part, n in enumerate(outputs)
        for at in range(20)
        for key in range(n)
    ]
    one = block(BlockId(SHUFFLE, 0, 0, 0), f"{SOURCE}#0", [(f"{SHUFFLE}@0", rows)])
    split = SplitRecord(SOURCE, 0, "in.txt", 0, 1, 9, 0.0, compressed=False, rows=400)
    return MemoryGraph([node(SOURCE, "source"), node(SHUFFLE, "shuffle")], [], [one], [split])


def test_a_part_of_a_task_that_stands_out_is_named_by_its_records() -> None:
    graph = long_task([1] * 7 + [6] + [1] * 12)
    (deviations,) = deviations_of_tasks(measure(graph, graph.nodes()).steps).values()
    assert deviations[0].measure == "outputs a record in its records 141 to 160"
    assert (deviations[0].value, deviations[0].median, deviations[0].count) == (6.0, 1.0, 20)


def test_parts_that_differ_by_chance_alone_do_not_stand_out() -> None:
    generator = np.random.default_rng(7)
    graph = long_task([1] * 20)
    step = measure(graph, graph.nodes()).steps[0]
    standing = 0
    for _ in range(200):
        step.outputs = generator.poisson(2, 20).astype(np.float64)
        standing += bool(deviations_of_tasks([step]))
    assert standing <= 10


def test_a_task_that_makes_more_of_its_records_stands_out() -> None:
    usual = [([at], at % 10) for at in range(40)]
    graph = graph_of([usual, usual, usual + [([at], 9) for at in range(30)], usual, usual])
    deviations = deviations_of_tasks(measure(graph, graph.nodes()).steps)
    assert set(deviations) == {Task(SHUFFLE, 2)}
    first = deviations[Task(SHUFFLE, 2)][0]
    assert (first.value, first.median, first.count) == (70 / 40, 1.0, 5)
    assert "1.75 outputs a record, where the median of 5 tasks is 1 (" in first.reason


def test_a_key_of_many_records_stands_out() -> None:
    records = np.array([95, 101, 88, 92, 240, 97, 103, 90, 99, 94], np.int64)
    part = KeyCounts(SHUFFLE, "5@0", np.arange(10, dtype=np.uint64), records)
    (key,) = deviating_keys([part])
    assert (key.position, key.deviation.value, key.deviation.median) == (4, 240.0, 96.0)


def test_keys_of_a_heavy_tail_do_not_all_stand_out() -> None:
    records = (1000 / np.arange(1, 501)).astype(np.int64)
    part = KeyCounts(SHUFFLE, "5@0", np.arange(500, dtype=np.uint64), records)
    assert len(deviating_keys([part])) <= 25


def test_forged_numbers_end_no_comparison() -> None:
    """Whoever wrote the lineage may have written any position, and any number of rows."""
    last = 2**64 - 1
    blocks = []
    for task in range(4):
        rows: list[tuple[list[int], int]] = [([0, last], last), ([last - 1], 0), ([5], task)]
        one = block(BlockId(SHUFFLE, task, task, 0), f"{SOURCE}#{task}", [(f"{SHUFFLE}@0", rows)])
        blocks.append(replace(one, in_last=np.full(len(one.in_first), last, np.uint64)))
    splits = [
        SplitRecord(SOURCE, task, "in", 0, 1, 9, 0.0, compressed=False, rows=10 ** (task * 9))
        for task in range(4)
    ]
    graph = MemoryGraph([node(SOURCE, "source"), node(SHUFFLE, "shuffle")], [], blocks, splits)
    refs = [
        BlockRef(one.block_id, one.in_space, 0, last, one.rows, last, one.exact, one.reason)
        for one in blocks
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryGraph, "blocks", lambda _: iter(refs))
        measures = measure(graph, graph.nodes())
    deviations = deviations_of_tasks(measures.steps)
    assert all(math.isfinite(one.distance) for each in deviations.values() for one in each)
    assert deviating_keys(measures.keys or ()) == []


def test_exact_keys_tie_where_floats_might_not() -> None:
    first, second = Spectrum(1, 2, 9, 90), Spectrum(2, 10, 9, 90)
    assert first.key("ochiai") == second.key("ochiai") == (True, False, Fraction(1, 27))
