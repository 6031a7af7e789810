"""Recordings in stores: asked by name and by file, and on through the files that programs gave each other."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from lineage.main import app as command_line
from lineage_arrays import ArrayLineageError, CellError, Recording, RecordingError, UntracedError
from lineage_arrays.operators import OperatorGraph
from lineage_arrays.saved import (
    StoredTrace,
    parse_address,
    read_recording,
    store_recording,
    trace_back,
    trace_forward,
)
from lineage_core.contract.message import Arrays
from lineage_store.port import GraphStore
from lineage_store.url import open_store
from tests.support.cell_operators import BrightSpots

pytestmark = pytest.mark.unit

IMAGE = np.random.default_rng(3).random((4, 5))


@pytest.fixture(autouse=True)
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    url = "sqlite:///lineage.db"
    monkeypatch.setenv("LINEAGE_STORE", url)
    return url


@pytest.fixture
def store(url: str) -> Iterator[GraphStore]:
    with open_store(url, create=True) as opened:
        yield opened


def cells_of(trace: StoredTrace) -> dict[str, list[list[int]]]:
    return {one.name: one.cells.coordinates().tolist() for one in trace.found if one.cells}


def smoothing(read: str, write: str) -> str:
    """A program that reads a file of an image, and writes one of sums of neighbours."""
    recording = Recording()
    image = recording.load(read)
    np.save(write, image[:, 1:] + image[:, :-1])
    return store_recording(recording, "smoothing")


def totals(read: str, write: str = "totals.npy") -> str:
    """A program that reads a file, and writes one of the sums of its rows."""
    recording = Recording()
    np.save(write, recording.load(read).sum(axis=1))
    return store_recording(recording, "totals")


def ask(*words: str) -> Result:
    return CliRunner().invoke(command_line, ["arrays", *words])


def answer(*words: str) -> Any:
    result = ask(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


# Of one program.


@pytest.mark.parametrize("kind", ["sqlite:///one.db", "lake:lake"])
def test_stores_keep_recordings(kind: str) -> None:
    np.save("image.npy", IMAGE)
    recording = Recording()
    image = recording.load("image.npy")
    background = recording.source("background", np.ones(5))
    clean = image - background
    recording.output("clean", clean)
    app = store_recording(recording, "cleaning", kind)
    with open_store(kind) as opened:
        trace = trace_back(opened, parse_address("clean[1,2]"))
        assert (trace.app, trace.exact, trace.complete) == (app, True, True)
        assert cells_of(trace) == {"image.npy": [[1, 2]], "background": [[2]]}
        found = trace_forward(opened, parse_address("background[4]"))
        assert cells_of(found) == {"clean": [[row, 4] for row in range(4)]}
        stored = read_recording(opened, app)
        assert stored.back("clean", np.s_[0]) == recording.back(clean, np.s_[0])
        [record] = opened.applications()
        assert (record.name, record.status) == ("cleaning", "ok")


def test_a_graph_of_operators_is_stored_with_its_steps(store: GraphStore) -> None:
    graph = OperatorGraph()
    image = graph.source("image")
    spots = graph.add(BrightSpots(), image, name="spots")
    version = graph.run({"image": IMAGE})
    app = store_recording(version, "spots")
    trace = trace_back(store, parse_address("spots[0,0]"), app=app)
    assert trace.found[0].cells == version.back(spots, np.s_[0, 0]).cells["image"]


def test_files_are_bound_to_what_was_read(store: GraphStore) -> None:
    np.save("image.npy", IMAGE)
    smoothing("image.npy", "smooth.npy")
    trace = trace_back(store, parse_address("smooth.npy[2,1]"))
    assert cells_of(trace) == {"image.npy": [[2, 1], [2, 2]]}
    assert (trace.found[0].file_status, trace.warnings) == ("same", ())
    # Touched: its bytes are the same.
    os.utime("image.npy", (1, 1))
    assert trace_back(store, parse_address("smooth.npy[2,1]")).found[0].file_status == "same"
    np.save("image.npy", IMAGE + 1)
    np.save("smooth.npy", IMAGE)
    trace = trace_back(store, parse_address("smooth.npy[2,1]"))
    assert trace.found[0].file_status == "changed"
    assert "has changed since" in trace.warnings[0]
    os.unlink("image.npy")
    os.unlink("smooth.npy")
    trace = trace_back(store, parse_address("smooth.npy[2,1]"))
    assert trace.found[0].file_status == "gone"
    assert "is gone" in trace.warnings[0]
    assert cells_of(trace) == {"image.npy": [[2, 1], [2, 2]]}


def test_of_several_runs_the_one_that_wrote_what_lies_there_answers(store: GraphStore) -> None:
    np.save("image.npy", IMAGE)
    first = smoothing("image.npy", "out.npy")
    shutil.copy2("out.npy", "kept.npy")
    second = totals("image.npy", "out.npy")
    assert trace_back(store, parse_address("out.npy[1]")).app == second
    shutil.copy2("kept.npy", "out.npy")
    assert trace_back(store, parse_address("out.npy[1,1]")).app == first
    other = trace_back(store, parse_address("out.npy[1]"), app=second)
    assert other.app == second
    assert other.warnings
    with pytest.raises(CellError):
        trace_back(store, parse_address("out.npy[1,1]"), app=second)


def test_equal_files_of_two_runs_are_not_mixed_up(store: GraphStore) -> None:
    np.save("image.npy", IMAGE)
    first, second = smoothing("image.npy", "out.npy"), smoothing("image.npy", "out.npy")
    assert trace_back(store, parse_address("out.npy[0,0]")).app == second
    # Whose it is can't be known by its bytes.
    os.utime("out.npy", (1, 1))
    with pytest.raises(ArrayLineageError, match="--app"):
        trace_back(store, parse_address("out.npy[0,0]"))
    assert trace_back(store, parse_address("out.npy[0,0]"), app=first).app == first


def test_archives_have_arrays_of_their_own(store: GraphStore) -> None:
    np.savez("in.npz", flux=IMAGE, error=IMAGE / 10)
    recording = Recording()
    arrays = recording.load("in.npz")
    np.savez_compressed("out.npz", arrays["flux"][0], ratio=arrays["flux"] / arrays["error"])
    store_recording(recording, "ratios")
    trace = trace_back(store, parse_address("out.npz/ratio[1,2]"))
    assert cells_of(trace) == {"in.npz/flux": [[1, 2]], "in.npz/error": [[1, 2]]}
    assert cells_of(trace_back(store, parse_address("out.npz/arr_0[3]"))) == {
        "in.npz/flux": [[0, 3]]
    }
    found = trace_forward(store, parse_address("in.npz/error[0,3]"))
    assert cells_of(found) == {"out.npz/ratio": [[0, 3]]}
    with np.load("out.npz") as written:
        assert np.array_equal(written["arr_0"], IMAGE[0])
    with pytest.raises(ArrayLineageError, match=r"out\.npz/ratio"):
        trace_back(store, parse_address("out.npz[0]"))


def test_archives_are_known_by_what_they_hold() -> None:
    with open("arrays.bin", "wb") as file:
        np.savez(file, flux=IMAGE, error=IMAGE / 10)
    arrays = Recording().load("arrays.bin")
    assert arrays.keys() == {"flux", "error"}
    np.savez("one.npz", IMAGE)
    assert Recording().load("one.npz").keys() == {"arr_0"}
    assert Recording().load("one.npz/arr_0").shape == IMAGE.shape


def test_what_a_program_saves_and_reads_again_goes_on() -> None:
    np.save("image.npy", IMAGE)
    recording = Recording()
    image = recording.load("image.npy")
    np.save("half", image[:, :2])
    assert Path("half.npy").exists()
    half = recording.load("half.npy")
    assert recording.back(half * 2, np.s_[3, 1]).cells.keys() == {"image.npy"}
    again = recording.load("image.npy")
    assert recording.back(again + image, np.s_[0, 0]).cells["image.npy"].count == 1
    np.save("image.npy", IMAGE + 1)
    later = recording.load("image.npy")
    assert recording.back(later).cells.keys() == {"image.npy (version 2)"}


def test_files_are_written_as_numpy_writes_them() -> None:
    recording = Recording()
    image = recording.source("image", np.asfortranarray(IMAGE))
    np.save("ours.npy", image)
    np.save("theirs.npy", np.asfortranarray(IMAGE))
    assert Path("ours.npy").read_bytes() == Path("theirs.npy").read_bytes()
    np.save(file="words.npy", arr=image)
    with open("open.npy", "wb") as file:
        np.save(file, image)
    assert np.array_equal(np.load("open.npy"), IMAGE)
    assert [output.name for output in recording.flow.outputs] == ["ours.npy", "words.npy"]
    with pytest.raises(OSError, match="no/such"):
        np.save("no/such/folder.npy", image)
    assert len(recording.flow.outputs) == 2


def test_forward_is_complete_until_values_come_back_from_a_file() -> None:
    np.save("image.npy", IMAGE)
    recording = Recording()
    image = recording.load("image.npy")
    doubled = image * 2
    np.save("doubled.npy", doubled)
    assert recording.forward("image.npy", doubled).complete
    # It may hold what was saved, without lineage.
    outside = recording.source("outside", np.load("doubled.npy"))
    assert not recording.forward("image.npy", image + outside).complete
    assert not recording.forward("image.npy", image * np.load("doubled.npy")).complete


def test_a_flag_that_left_is_a_value() -> None:
    recording = Recording()
    image = recording.source("image", IMAGE)
    other = recording.source("other", IMAGE)
    flag = bool(image[0, 0] > 0.1)
    assert not recording.back(other * flag).complete
    other[0] = flag
    assert not recording.back(other).complete
    texts = recording.source("texts", np.array(["a", "b"]))
    chosen: Any = np.where([True, False], str(texts[0]), texts)
    assert not recording.back(chosen).complete
    turned: Any = np.transpose(image)
    assert recording.back(turned).complete


def test_files_that_are_none_are_refused() -> None:
    Path("text.npy").write_text("no array")
    np.save("objects.npy", np.array([{}], object), allow_pickle=True)
    Path("short.npy").write_bytes(Path("objects.npy").read_bytes()[:60])
    recording = Recording()
    for name, kind in (("text.npy", ArrayLineageError), ("short.npy", ArrayLineageError), ("objects.npy", UntracedError), ("none.npy", OSError)):  # fmt: skip
        with pytest.raises(kind):
            recording.load(name)


def test_damaged_recordings_are_refused(store: GraphStore) -> None:
    np.save("image.npy", IMAGE)
    app = smoothing("image.npy", "smooth.npy")
    [message] = store.messages(app, "arrays")
    assert isinstance(message, Arrays)
    store.write("torn", [message.model_copy(update={"app": "torn", "parts": 2})])
    store.write("damaged", [message.model_copy(update={"app": "damaged", "recording": "AAAA"})])
    store.write("two", [message.model_copy(update={"app": "two"})])
    store.write("two", [message.model_copy(update={"app": "two", "recording": "AAAA"})])
    for broken in ("torn", "damaged", "two", "none"):
        if broken == "none":
            store.write("none", [message.model_copy(update={"app": "none"})][:0])
        with pytest.raises((RecordingError, KeyError), match=broken):
            read_recording(store, broken)


# Through programs.


def test_traces_go_on_through_files(store: GraphStore) -> None:
    np.save("image.npy", IMAGE)
    first = smoothing("image.npy", "smooth.npy")
    second = totals("smooth.npy")
    trace = trace_back(store, parse_address("totals.npy[3]"))
    assert {one.name for one in trace.found} == {"smooth.npy"}
    trace = trace_back(store, parse_address("totals.npy[3]"), all_jobs=True)
    assert cells_of(trace) == {"image.npy": [[3, column] for column in range(5)]}
    assert (trace.exact, trace.complete) == (True, True)
    assert {one.app for one in trace.found} == {first}
    forth = trace_forward(store, parse_address("image.npy[3,0]"), all_jobs=True)
    assert cells_of(forth) == {"totals.npy": [[3]]}
    assert {one.app for one in forth.found} == {second}
    assert (forth.exact, forth.complete) == (True, True)
    alone = trace_forward(store, parse_address("image.npy[3,0]"), all_jobs=True, to="smooth.npy")
    assert cells_of(alone) == {"smooth.npy": [[3, 0]]}
    with pytest.raises(ArrayLineageError, match=r"nothing\.npy"):
        trace_forward(store, parse_address("image.npy[3,0]"), all_jobs=True, to="nothing.npy")


def test_two_ways_through_programs_join(store: GraphStore) -> None:
    """And all readers of a file are found, whichever is asked."""
    np.save("image.npy", IMAGE)
    smoothing("image.npy", "left.npy")
    recording = Recording()
    np.save("right.npy", recording.load("image.npy")[:, :4])
    store_recording(recording, "cutting")
    joining = Recording()
    np.save("both.npy", joining.load("left.npy") * joining.load("right.npy"))
    store_recording(joining, "joining")
    trace = trace_back(store, parse_address("both.npy[0,1]"), all_jobs=True)
    reached = sorted(cell for one in trace.found for cell in one.cells.coordinates().tolist())
    assert reached == [[0, 1], [0, 1], [0, 2]]
    forth = trace_forward(store, parse_address("image.npy[0,1]"), all_jobs=True)
    assert cells_of(forth) == {"both.npy": [[0, 0], [0, 1]]}
    assert forth.complete


def test_another_version_is_no_link(store: GraphStore) -> None:
    np.save("image.npy", IMAGE)
    smoothing("image.npy", "smooth.npy")
    np.save("smooth.npy", np.load("smooth.npy") + 1)
    totals("smooth.npy")
    trace = trace_back(store, parse_address("totals.npy[0]"), all_jobs=True)
    assert {one.name for one in trace.found} == {"smooth.npy"}
    assert not trace.complete
    assert "who made this version is not known" in trace.incomplete_reasons[0]
    forth = trace_forward(store, parse_address("image.npy[0,0]"), all_jobs=True)
    assert cells_of(forth) == {"smooth.npy": [[0, 0]]}
    assert not forth.complete


def test_a_copy_is_a_superset(store: GraphStore) -> None:
    """It may be equal by chance: the trace goes on, and ends there, too."""
    np.save("image.npy", IMAGE)
    smoothing("image.npy", "smooth.npy")
    shutil.copy("smooth.npy", "copy.npy")
    os.utime("copy.npy", (2e9, 2e9))
    totals("copy.npy")
    back = trace_back(store, parse_address("totals.npy[0]"), all_jobs=True)
    forth = trace_forward(store, parse_address("image.npy[0,0]"), all_jobs=True)
    assert {one.name for one in back.found} == {"copy.npy", "image.npy"}
    assert {one.name for one in forth.found} == {"smooth.npy", "totals.npy"}
    for trace in (back, forth):
        assert "counts as its copy" in trace.superset_reasons[0]
        assert trace.complete


@pytest.mark.parametrize("moved", [False, True])
def test_a_file_that_was_moved_or_touched_is_itself(store: GraphStore, moved: bool) -> None:
    np.save("image.npy", IMAGE)
    smoothing("image.npy", "smooth.npy")
    if moved:
        os.rename("smooth.npy", "final.npy")
    else:
        os.utime("smooth.npy", (2e9, 2e9))
    totals("final.npy" if moved else "smooth.npy")
    trace = trace_back(store, parse_address("totals.npy[0]"), all_jobs=True)
    assert {one.name for one in trace.found} == {"image.npy"}
    assert (trace.exact, trace.complete) == (True, True)


def test_a_program_finds_its_own_files_again_where_they_were_moved() -> None:
    np.save("image.npy", IMAGE)
    recording = Recording()
    np.save("temporary.npy", recording.load("image.npy") * 2)
    os.rename("temporary.npy", "final.npy")
    trace = recording.back(recording.load("final.npy"), np.s_[0, 0])
    assert (list(trace.cells), trace.exact) == (["image.npy"], True)
    shutil.copy("final.npy", "copy.npy")
    os.utime("copy.npy", (2e9, 2e9))
    trace = recording.back(recording.load("copy.npy"), np.s_[0, 0])
    assert (sorted(trace.cells), trace.exact) == (["copy.npy", "image.npy"], False)


def test_who_of_several_wrote_a_copy_is_not_guessed(store: GraphStore) -> None:
    np.save("image.npy", IMAGE)
    smoothing("image.npy", "one.npy")
    smoothing("image.npy", "two.npy")
    shutil.copy("two.npy", "copy.npy")
    os.utime("copy.npy", (2e9, 2e9))
    totals("copy.npy")
    trace = trace_back(store, parse_address("totals.npy[0]"), all_jobs=True)
    assert {one.name for one in trace.found} == {"copy.npy"}
    assert "is not known" in trace.incomplete_reasons[0]


def test_a_program_that_writes_what_it_read_links_no_circle(store: GraphStore) -> None:
    np.save("image.npy", IMAGE)
    recording = Recording()
    image = recording.load("image.npy")
    np.save("same.npy", image)
    app = store_recording(recording, "copying")
    trace = trace_back(store, parse_address("same.npy[0,0]"), all_jobs=True)
    assert cells_of(trace) == {"image.npy": [[0, 0]]}
    assert trace.complete
    recording = Recording()
    np.save("image.npy", recording.load("same.npy"))
    store_recording(recording, "copying back")
    trace = trace_back(store, parse_address("image.npy[0,0]"), all_jobs=True)
    assert {(one.app, one.name) for one in trace.found} == {(app, "image.npy")}


def test_random_programs_trace_as_one(store: GraphStore) -> None:
    """A program that is cut in two, with a file between, has the cells of the whole one."""
    random = np.random.default_rng(17)
    steps: list[Any] = [
        lambda x: x[:, ::-1], lambda x: np.cumsum(x, axis=1), lambda x: x + x[:1], lambda x: np.sort(x, axis=0),
        lambda x: np.roll(x, 1, axis=0), lambda x: np.where(x > 0.5, x, 0), lambda x: x @ x.T @ x, lambda x: np.maximum(x, 0.2),
    ]  # fmt: skip
    for number in range(4):
        chosen = [steps[at] for at in random.integers(0, len(steps), 4)]
        values = random.random((3, 4))
        np.save(f"in{number}.npy", values)
        whole = Recording()
        traced = whole.source("in", values)
        for step in chosen:
            traced = step(traced)
        for part, some in enumerate((chosen[:2], chosen[2:])):
            recording = Recording()
            array = recording.load(f"in{number}.npy" if part == 0 else f"mid{number}.npy")
            for step in some:
                array = step(array)
            np.save(f"mid{number}.npy" if part == 0 else f"out{number}.npy", array)
            store_recording(recording, f"part {part}")
        for row, column in np.ndindex(3, 4):
            for choices in (False, True):
                trace = trace_back(
                    store,
                    parse_address(f"out{number}.npy[{row},{column}]"),
                    all_jobs=True,
                    choices=choices,
                )
                wanted = whole.back(traced, np.s_[row, column], choices=choices)
                (found,) = trace.found
                assert found.cells == wanted.cells["in"]
                assert (trace.exact, bool(trace.chosen_by)) == (
                    wanted.exact,
                    bool(wanted.chosen_by),
                )
                forth = trace_forward(
                    store,
                    parse_address(f"in{number}.npy[{row},{column}]"),
                    all_jobs=True,
                    choices=choices,
                )
                went = whole.forward("in", traced, np.s_[row, column], choices=choices)
                assert forth.found[0].cells == next(iter(went.cells.values()))


# The command.


def test_the_command_lists_and_traces() -> None:
    np.save("image.npy", IMAGE)
    app = smoothing("image.npy", "smooth.npy")
    totals("smooth.npy")
    listed = answer("list")
    assert [one["name"] for one in listed] == ["totals", "smoothing"]
    assert {one["name"] for one in listed[1]["arrays"]} == {"image.npy", "smooth.npy"}
    assert "float64 4x5" in ask("list").stdout
    found = answer("back", "smooth.npy[2,1]")
    assert (found["app"], found["exact"], found["complete"]) == (app, True, True)
    [array] = found["arrays"]
    assert (array["cells"], array["file"]["status"]) == ([[2, 1], [2, 2]], "same")
    text = ask("back", "totals.npy[2]", "--all-jobs", "--limit", "2").stdout
    assert "image.npy[2,1]\n  and 3 more" in text
    assert "exact, complete" in text
    forth = answer("forward", "image.npy[2,1]", "--to", "smooth.npy")
    assert forth["arrays"][0]["cells"] == [[2, 0], [2, 1]]
    assert answer("back", "smooth.npy[2,1]", "--app", app[:-2]) == found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("back", "none.npy[0]"), "lineage arrays list"),
        (("back", "smooth.npy[9,9]"), "shape"),
        (("back", "smooth.npy[__import__('os')]"), "is no number"),
        (("back", "smooth.npy[::0]"), "step"),
        (("back", "[1]"), "names no array"),
        (("forward", "image.npy[0,0]", "--to", "x"), "no output 'x'"),
        (("back", "smooth.npy[0]", "--store", "http://127.0.0.1:9"), "does not answer"),
        (("back", "smooth.npy[0]", "--store", "sqlite:///none.db"), "no lineage store"),
    ],
)
def test_the_command_says_what_is_wrong(words: tuple[str, ...], said: str) -> None:
    np.save("image.npy", IMAGE)
    smoothing("image.npy", "smooth.npy")
    result = ask(*words)
    assert result.exit_code == 2
    assert said in result.stderr


def test_traces_of_rows_refuse_arrays_and_verdicts_name_them() -> None:
    """Rows of a file of an array are not known: no answer about them may be called complete."""
    np.save("image.npy", IMAGE)
    smoothing("image.npy", "smooth.npy")
    for words in (("back", "smooth.npy:1"), ("back", "array-3#0#0"), ("forward", "image.npy:1", "--all-jobs"), ("forward", "image.npy")):  # fmt: skip
        result = CliRunner().invoke(command_line, words)
        assert result.exit_code == 2
        assert "lineage arrays" in result.stderr
    verdict = CliRunner().invoke(command_line, ["verify"])
    assert verdict.exit_code == 1
    assert "no rows were captured" in verdict.stdout


def test_recordings_move_to_a_lake_with_all_else(store: GraphStore) -> None:
    np.save("image.npy", IMAGE)
    app = smoothing("image.npy", "smooth.npy")
    with open_store("lake:lake", create=True) as lake:
        lake.write(app, store.messages(app))
        found = trace_back(lake, parse_address("smooth.npy[2,1]"))
        assert found == trace_back(store, parse_address("smooth.npy[2,1]"))
