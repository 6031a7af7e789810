"""Tables of Delta Lake that streams read beside them, in the version that each batch read, by the real thing."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from tests.integration.test_frames_tables import CONF, added
from tests.support.versions import only_in
from tests.tables.ran import Ran

pytestmark = [pytest.mark.integration, pytest.mark.long, only_in("Delta Lake", "3.5", "4.1")]


def test_each_batch_has_the_version_that_it_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    ran = Ran(tmp_path_factory.mktemp("streams"))
    ran.run("stream_delta_job.py", "delta", CONF)
    # What a frame had that was kept in memory is not taken for what the table has.
    assert {
        (row["id"], row["country"])
        for path in (ran.folder / "cached").glob("part-*")
        for row in map(json.loads, path.read_text().splitlines())
    } == {(0, "NO1"), (0, "IT1"), (1, "IT1"), (2, "NO1"), (2, "IT1")}
    assert ran.unknown().count("its rows can't be traced") == 1
    assert "had version 1 when the frame was made and 2 after" in ran.unknown()
    rows = {
        f"{path}:{number + 1}": json.loads(line)
        for name in ("joined", "distinct")
        for path in sorted((ran.folder / name).glob("part-*"))
        for number, line in enumerate(path.read_text().splitlines())
    }
    found = sorted((row["id"], row["country"]) for row in rows.values())
    assert found == sorted([(0, "NO0"), (0, "IT0"), (1, "IT1"), (0, "NO0"), (0, "IT0")])
    ran.ask({place: (place, None, "backward") for place in rows})
    for place, row in rows.items():
        answer = ran.answers[place]
        assert "error" not in answer, answer
        assert not answer["reasons"]
        by_kind = {path.rpartition("/")[2][:5]: (path, text) for path, text in answer["rows"]}
        (of_stream, of_table) = (by_kind[f"{row['id']}.jso"], by_kind["part-"])
        order = json.loads(of_stream[1])
        file, _, at = of_table[0].rpartition("#")
        assert file == added(ran, "places", int(row["country"][-1]))
        (place_row,) = pq.read_table(file).slice(int(at), 1).to_pylist()
        assert place_row == {"city": order["city"], "country": row["country"]}
