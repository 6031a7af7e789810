"""Triples of PROV-JSON and of OpenLineage: what is read equals what was said, and the rest is refused with line and reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prov.model import ProvDocument

from lineage_store.errors import StoreError
from lineage_store.lake.arrow import array_of_texts
from lineage_store.triples import prov_source, sources
from lineage_store.triples.data_sets import TripleStore
from lineage_store.triples.openlineage_source import openlineage_triples
from lineage_store.triples.prov_source import DERIVED, prov_triples
from lineage_store.triples.tracing import trace
from tests.oracle.budget import examples

pytestmark = pytest.mark.unit

EX = "http://example.org/"
names = st.integers(0, 4)
pairs = st.lists(st.tuples(names, names), max_size=8)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sources") / "document"


@settings(max_examples=examples(40), deadline=None)
@given(pairs, pairs, st.lists(st.tuples(names, names, st.one_of(st.none(), names)), max_size=6))
def test_a_document_gives_what_it_says(
    place: Path,
    used: list[tuple[int, int]],
    generated: list[tuple[int, int]],
    derived: list[tuple[int, int, int | None]],
) -> None:
    document = ProvDocument()
    document.add_namespace("ex", EX)
    document.set_default_namespace(EX)
    for activity, entity in used:
        document.used(f"a{activity}", f"ex:e{entity}")
    for entity, activity in generated:
        document.wasGeneratedBy(f"ex:e{entity}", f"ex:a{activity}")
    for destination, source, through in derived:
        activity_name = None if through is None else f"ex:a{through}"
        document.wasDerivedFrom(f"e{destination}", f"ex:e{source}", activity_name)
    document.serialize(str(place), format="json")
    explained = {(destination, through) for destination, _, through in derived}
    expected = {
        (f"{EX}e{source}", f"{EX}e{entity}", f"{EX}a{activity}")
        for entity, activity in generated
        for user, source in used
        if user == activity and (entity, activity) not in explained
    } | {
        (f"{EX}e{source}", f"{EX}e{destination}", DERIVED if at is None else f"{EX}a{at}")
        for destination, source, at in derived
    }
    assert set(prov_triples(place)) == expected


def test_prefixes_are_those_of_the_document_and_its_bundles(place: Path) -> None:
    derivation = {"prov:generatedEntity": "x:b", "prov:usedEntity": "x:a"}
    document = {
        "prefix": {"x": "urn:1:"},
        "wasDerivedFrom": {"_:d": [derivation, {**derivation, "prov:usedEntity": "http://c"}]},
        "bundle": {
            "x:1": {"wasDerivedFrom": {"_:d": derivation}},
            "x:2": {"prefix": {"x": "urn:2:"}, "wasDerivedFrom": {"_:d": derivation}},
        },
    }
    place.write_text(json.dumps(document))
    assert [triple[:2] for triple in prov_triples(place)] == [
        ("urn:1:a", "urn:1:b"),
        ("http://c", "urn:1:b"),
        ("urn:1:a", "urn:1:b"),
        ("urn:2:a", "urn:2:b"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a":\n1,}', "line 2, column 3"),
        ('{"a": 1, "a": 2}', "the key 'a' is there twice"),
        ("[1]", "is no object"),
        ('{"used": []}', "used: .* is no object"),
        ('{"wasDerivedFrom": {"_:1": {"prov:usedEntity": "x:a"}}}', "'_:1': it has no prov:generatedEntity"),
        ('{"used": {"_:1": {"prov:activity": "x:a", "prov:entity": "x:b"}}}', "the prefix 'x' of 'x:a' is not declared"),
        ('{"used": {"_:1": {"prov:activity": "_:a", "prov:entity": "x:b"}}}', "no name outside"),
        ('{"used": {"_:1": {"prov:activity": "\\ud800", "prov:entity": "x:b"}}}', "half a character"),
        ('{"prefix": {"x": 1}}', "has no x"),
        ("[" * 100_000, "nested too deeply"),
        ("{}", "has no triples"),
    ],
)  # fmt: skip
def test_documents_that_are_wrong_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(StoreError, match=message):
        list(sources.read_rows(path, sources.TRIPLE))


def event(outputs: Any) -> dict[str, Any]:
    return {
        "eventType": "COMPLETE",
        "run": {"runId": "1"},
        "job": {"namespace": "etl", "name": "daily load"},
        "outputs": outputs,
    }


def output(named: str, fields: Any, **facet: Any) -> dict[str, Any]:
    facets = {"columnLineage": {"fields": fields, **facet}}
    return {"namespace": "db://h", "name": named, "facets": facets}


def source(dataset: str, field: str) -> dict[str, Any]:
    return {"namespace": "db://h", "name": dataset, "field": field}


def test_events_give_the_fields_that_fields_were_computed_from(place: Path) -> None:
    total = output("sums", {"total": {"inputFields": [source("orders", "a b")]}})
    total["facets"]["columnLineage"]["dataset"] = [source("orders", "day")]
    total["facets"]["schema"] = {"fields": [{"name": "total"}, {"name": "count"}]}
    events = [event([total]), event([{"namespace": "n", "name": "no facet"}]), event([])]
    place.write_text("\n".join(map(json.dumps, events)) + "\n\n")
    job = "etl daily%20load"
    assert list(openlineage_triples(place)) == [
        ("db://h orders a%20b", "db://h sums total", job),
        ("db://h orders day", "db://h sums total", job),
        ("db://h orders day", "db://h sums count", job),
    ]


def test_no_two_names_are_written_alike(place: Path) -> None:
    parts = ["a", "a b", "b", "a%20b", "%", "%25"]
    named = [(one, two, three) for one in parts for two in parts for three in parts]
    fields = [{"namespace": one, "name": two, "field": three} for one, two, three in named]
    place.write_text(json.dumps(event([output("out", {"f": {"inputFields": fields}})])))
    assert len({src for src, _, _ in openlineage_triples(place)}) == len(named)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ('{"a": ', "line 2, column 6"),
        ('{"a": "\xff"}', "line 2 is not UTF-8"),
        ("[]", "line 2: .* is no object"),
        ("{}", "line 2 is no event"),
        (json.dumps({"job": {"name": "x"}}), "line 2: job: it has no namespace"),
        (json.dumps(event({})), "line 2: outputs: .* is no list"),
        (json.dumps(event([{"name": "x"}])), "line 2: an output: it has no namespace"),
        (json.dumps(event([output("x", [])])), "line 2: columnLineage: fields: .* is no object"),
        (json.dumps(event([output("x", {"f": {"inputFields": [{"namespace": "n", "name": "m"}]}})])), "it has no field"),
        (json.dumps(event([output("x", {"": {"inputFields": [source("x", "y")]}})])), "a field has no name"),
        (json.dumps(event([output("x", {}, dataset=[source("x", "y")])])), "no field of 'db://h x' is named"),
    ],
)  # fmt: skip
def test_events_that_are_wrong_are_refused(tmp_path: Path, second: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(f"{json.dumps(event([]))}\n{second}\n".encode("latin-1"))
    with pytest.raises(StoreError, match=message):
        list(sources.read_rows(path, sources.TRIPLE))


FACET_KEYS = ["columnLineage", "fields", "inputFields", "dataset", "schema"]
KEYS = [
    "prefix",
    "used",
    "bundle",
    "prov:activity",
    "prov:entity",
    "job",
    "outputs",
    "namespace",
    "name",
    "facets",
]
json_values = st.recursive(
    st.one_of(st.none(), st.integers(-1, 1), st.text(max_size=2)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from([*KEYS, *FACET_KEYS]), inner, max_size=4),
    ),
    max_leaves=12,
)


@settings(max_examples=examples(40), deadline=None)
@given(json_values, st.booleans())
def test_any_json_is_read_or_refused(place: Path, value: Any, is_event: bool) -> None:
    if is_event and isinstance(value, dict):
        value = {**event([]), **value}
    place.write_text(json.dumps(value))
    for read in (prov_triples, openlineage_triples):
        try:
            triples = list(read(place))
        except StoreError:
            continue
        assert all(len(triple) == 3 and all(triple) for triple in triples)


def test_documents_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    ends = [{"prov:activity": "p:a", "prov:entity": f"p:{at}"} for at in range(4)]
    both = {"used": {"_:1": ends}, "wasGeneratedBy": {"_:2": ends}}
    path.write_text(json.dumps({"prefix": {"p": "urn:"}, **both}))
    assert sum(len(rows["src_text"]) for rows in sources.read_rows(path, sources.TRIPLE)) == 16
    monkeypatch.setattr(sources, "MOST_OF_JSON", 15)
    with pytest.raises(StoreError, match="more than 15 triples"):
        list(sources.read_rows(path, sources.TRIPLE))
    monkeypatch.setattr(prov_source, "DOCUMENT_BYTES", 100)
    with pytest.raises(StoreError, match="several documents"):
        list(sources.read_rows(path, sources.TRIPLE))
    with pytest.raises(StoreError, match="nodes are given as"):
        list(sources.read_rows(path, sources.NODE))


def test_documents_and_events_join_other_triples(tmp_path: Path) -> None:
    store = TripleStore(f"lake:{tmp_path}/lake", create=True)
    (tmp_path / "a.csv").write_text("src,dst,op\nraw,urn:a,load\n")
    derivation = {"prov:generatedEntity": "p:b", "prov:usedEntity": "p:a"}
    document = {"prefix": {"p": "urn:"}, "wasDerivedFrom": {"_:1": derivation}}
    (tmp_path / "b.json").write_text(json.dumps(document))
    store.add("set", [tmp_path / "a.csv", tmp_path / "b.json"])
    store.index("set")
    assert trace(store, "set", "urn:b", is_back=True).items == ["raw", "urn:a"]


def test_long_names_that_a_short_document_repeats_are_written_some_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "BATCH_CHARACTERS", 1_000)
    path = tmp_path / "a.json"
    ends = {
        kind: {
            f"_:{at}": {"prov:activity": "p:a", "prov:entity": f"p:{kind}{at}"} for at in range(9)
        }
        for kind in ("used", "wasGeneratedBy")
    }
    path.write_text(json.dumps({"prefix": {"p": EX + "n" * 100}, **ends}))
    rows = [columns["src_text"] for columns in sources.read_rows(path, sources.TRIPLE)]
    assert sum(map(len, rows)) == 81
    assert max(map(len, rows)) == 3


def test_more_text_than_a_column_may_have_is_refused() -> None:
    class Long(str):
        def encode(self, *_: object) -> Any:
            return range(1 << 30)

    with pytest.raises(pa.ArrowCapacityError, match="2,147,483,648 bytes"):
        array_of_texts([Long(), Long()])
