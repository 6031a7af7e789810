"""Arrays of Dask whose chunks worker processes compute: lineage is that of the same program on plain NumPy, by brute force."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from distributed import Client

from lineage_arrays import Cells, Recording, TracedArray, UntracedError
from lineage_arrays.saved import parse_address, store_recording, trace_back
from lineage_store.url import open_store
from tests.property.test_xarray_property import CHUNKED
from tests.support.cell_oracle import dependences
from tests.support.dask_cluster import two_workers

pytestmark = pytest.mark.integration

VALUES = np.random.default_rng(3).normal(0, 3, (4, 3))


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with two_workers() as client:
        yield client


def held_against_what_changes(
    recording: Recording, result: TracedArray, program: Callable[[Any], Any]
) -> None:
    """What the recording says of a result is what changes of the same program on plain arrays."""
    plain = np.asarray(program(VALUES.copy()))
    assert (plain.dtype, plain.shape) == (result.dtype, result.shape)
    # Sums of chunks are added in another order.
    np.testing.assert_allclose(result.current, plain, rtol=1e-9)
    (changed,) = dependences(program, [VALUES])
    changed = changed.reshape(VALUES.size, plain.size)
    trace = recording.back(result, choices=True)
    assert (trace.exact, trace.complete) == (True, True)
    for at in range(plain.size):
        cells = recording.back(result, Cells.at(plain.shape, [at]), choices=True).cells
        said = cells["x"].mask().reshape(-1) if "x" in cells else np.zeros(VALUES.size, np.bool_)
        assert not (changed[:, at] & ~said).any(), "a change outside of the lineage was seen"
    for cell in range(VALUES.size):
        went = recording.forward("x", result, Cells.at(VALUES.shape, [cell]), choices=True)
        assert not (changed[cell] & ~next(iter(went.cells.values())).mask().reshape(-1)).any()


def smoothed(x: Any) -> Any:
    """Neighbours, chunks cut anew, a function of chunks that takes all of Dask's kinds of tasks."""
    both = x[1:] + x[:-1]
    sums = (both if isinstance(x, np.ndarray) else both.rechunk((3, 1))).cumsum(axis=0)
    return np.abs(sums - sums.mean(axis=0)) * x.max()


def failing_once(path: str, block: Any) -> Any:
    """The first try computes, and fails then."""
    made = np.sort(block, axis=0)[::-1]
    if block.size and not os.path.exists(path):
        Path(path).touch()
        raise ConnectionError("a first try")
    return made


def sorted_down(x: Any) -> Any:
    return np.sort(x, axis=0)[::-1] * 2


def test_a_program_of_workers_is_traced(client: Client, tmp_path: Path) -> None:
    recording = Recording()
    source = recording.source("x", VALUES)
    result = smoothed(da.from_array(source, chunks=(2, 2))).compute()
    held_against_what_changes(recording, result, smoothed)

    # A task that fails and is tried again is there once.
    path = str(tmp_path / "tried")
    blocks = da.from_array(source, chunks=(4, 3)).map_blocks(
        lambda block: failing_once(path, block), dtype=float, meta=np.empty((0, 0))
    )
    before = len(recording.flow.nodes)
    retried = client.compute(blocks * 2, retries=2).result()
    held_against_what_changes(recording, retried, sorted_down)
    made = [node.operator for node in recording.flow.nodes[before:]]
    assert (os.path.exists(path), made.count("sort"), made.count("multiply")) == (True, 1, 1)

    # The same result twice adds nothing; arrays of xarray go the same way.
    assert client.compute(da.from_array(source, chunks=(4, 3))).result() is not None
    named = xr.DataArray(source, dims=("t", "x")).chunk({"t": 2})
    mean = (named - named.mean("t")).compute()
    held_against_what_changes(recording, mean.data, lambda x: x - x.mean(axis=0))

    # And all of it is one recording, as it is stored.
    recording.output("mean", mean.data)
    store = f"sqlite:///{tmp_path / 'lineage.db'}"
    store_recording(recording, "chunks", store)
    with open_store(store) as opened:
        answer = trace_back(opened, parse_address("mean[1,2]"))
    assert answer.found[0].cells.coordinates().tolist() == [[at, 2] for at in range(4)]

    # What leaves on a worker ends with an error and not in silence.
    for leave in (float, lambda block: block * float(block.max())):
        with pytest.raises(UntracedError, match="another process"):
            client.submit(leave, source[0, 0] if leave is float else source).result()


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(CHUNKED))
def test_each_call_of_dask_is_traced_through_workers(client: Client, name: str) -> None:
    recording = Recording()
    source = recording.source("x", VALUES)

    def program(x: Any) -> Any:
        return CHUNKED[name](da.from_array(x, chunks=2)).compute(scheduler="synchronous")

    result = client.compute(CHUNKED[name](da.from_array(source, chunks=2))).result()
    held_against_what_changes(recording, result, program)


@pytest.mark.long
def test_chunks_of_a_killed_worker_are_those_that_were_computed_again(client: Client) -> None:
    recording = Recording()
    source = recording.source("x", VALUES)
    kept = client.persist(da.from_array(source, chunks=(2, 1)).map_blocks(np.exp))
    client.gather(client.compute(kept.sum()))
    holders = {worker for workers in client.who_has(kept).values() for worker in workers}
    pids = client.run(os.getpid)
    os.kill(pids[min(holders)], signal.SIGKILL)
    result = (kept - kept.mean(axis=0)).compute()
    held_against_what_changes(recording, result, lambda x: np.exp(x) - np.exp(x).mean(axis=0))
