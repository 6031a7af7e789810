"""Links that are put in the place of files which a caller may see: they lead to nothing that is hidden from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from lineage_core.contract.message import Register, SinkFile, SinkFiles
from lineage_query.rows.reader import RootedReader
from lineage_query_api.app import create_app
from lineage_query_api.auth import new_token
from lineage_query_api.grants import ALL_PATTERNS
from lineage_query_api.settings import read_settings
from lineage_query_api.visibility import Visibility, VisibleApplication, build_visible_application
from lineage_query_api.visible_store import VisibleReader
from lineage_store.paths import RowsError
from lineage_store.sqlite.store import SqliteStore
from tests.support.stored_lineage import LINES, store_run

pytestmark = pytest.mark.security
SECRET = "TOPSECRET"
GRANT = '[[grant]]\ncallers = ["token:ann"]\napplications = ["shop *"]\nrows = true\n'
RULES = {
    "hide": '{grant}[[hide]]\ndatasets = ["{root}/secret/*"]\n',
    "mask": '{grant}[[mask]]\ndatasets = ["{root}/secret/*"]\ncolumns = ["*"]\n',
    "narrow": '{grant}datasets = ["{root}/shop/*"]\n',
    "by table": '{grant}[[hide]]\ndatasets = ["db.secrets"]\n',
}
FIRST = np.array([0], np.uint64)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("folder", [False, True])
def test_a_link_in_the_place_of_a_visible_file_shows_nothing_of_a_hidden_one(
    tmp_path: Path, rule: str, folder: bool
) -> None:
    secrets = tmp_path / "secret"
    for name in ("in.txt", "out/part-00000"):
        (secrets / name).parent.mkdir(parents=True, exist_ok=True)
        (secrets / name).write_text(f"{SECRET} one\n" * 6)
    shop = tmp_path / "shop"
    shop.mkdir()
    store_run(f"sqlite:///{tmp_path}/lineage.db", shop, "nightly", name="shop sales")
    token, line = new_token("ann", "reader", rows=True)
    (tmp_path / "tokens.toml").write_text(line)
    (tmp_path / "grants.toml").write_text(RULES[rule].format(grant=GRANT, root=tmp_path))
    settings = read_settings(
        store="sqlite:///x",
        api_tokens=str(tmp_path / "tokens.toml"),
        api_grants=str(tmp_path / "grants.toml"),
        api_roots=str(tmp_path),
    )
    with TestClient(create_app(SqliteStore(tmp_path / "lineage.db"), settings)) as client:

        def ask(path: str, **body: Any) -> str:
            headers = {"Authorization": f"Bearer {token}"}
            reply = (
                client.post(path, headers=headers, json=body)
                if body
                else client.get(path, headers=headers)
            )
            return reply.text

        def questions() -> list[str]:
            return [
                ask("/v1/applications/nightly/nodes/read/items"),
                ask("/v1/applications/nightly/nodes/write/items"),
                ask("/v1/applications/nightly/rows?item=read%230%230"),
                ask("/v1/applications/nightly/rows?item=write%230%230"),
                ask(
                    "/v1/applications/nightly/traces",
                    direction="backward",
                    start={"places": ["write#0#0"]},
                ),
                ask("/v1/answers", direction="backward", places=[f"{shop}/out/part-00000:1"]),
            ]

        # All of it is visible, which is kept.
        before = questions()
        assert all(LINES[0] in text for text in (before[0], before[4], before[5]))
        if folder:
            shop.rename(tmp_path / "away")
            shop.symlink_to(secrets)
        else:
            for name in ("in.txt", "out/part-00000"):
                (shop / name).unlink()
                (shop / name).symlink_to(secrets / name)
        for text in questions():
            assert SECRET not in text
            assert str(secrets) not in text


class _Swapping(RootedReader):
    """Once it was looked where a path leads, a job puts a link in the place of the file."""

    def __init__(self, file: Path, secret: Path) -> None:
        super().__init__([str(file.parent)])
        self.file, self.secret = file, secret

    def _check(self, *given: str) -> None:  # type: ignore[override]
        if not self.file.is_symlink():
            self.file.unlink()
            self.file.symlink_to(self.secret)
        super()._check(*given)


READINGS: dict[str, Callable[[VisibleReader, str], object]] = {
    "state": lambda reader, path: reader.state(path),
    "rows": lambda reader, path: reader.rows(path, FIRST),
    "lines": lambda reader, path: reader.lines(path, FIRST, FIRST + np.uint64(1)),
    "checksum": lambda reader, path: reader.checksum(path),
    "opened": lambda reader, path: reader.opened(path),
}


def _visible(*files: Path, hidden: frozenset[str] = frozenset()) -> VisibleApplication:
    rules = Visibility((ALL_PATTERNS,), (ALL_PATTERNS,), hidden, ())
    messages = [
        message
        for at, file in enumerate(files)
        for message in (
            Register(app="a", node=f"{at}", kind="sink", op="saveAsTextFile", path=str(file)),
            SinkFiles(
                app="a",
                node=f"{at}",
                path=str(file),
                files=(SinkFile(partition=0, path=f"file:{file}", size=1, mtime=1),),
            ),
        )
    ]
    return build_visible_application(messages, rules, final=True)


@pytest.mark.parametrize("way", READINGS)
def test_a_link_that_is_put_there_between_check_and_reading_leads_nowhere(
    tmp_path: Path, way: str
) -> None:
    file, secret = tmp_path / "mine", tmp_path / "secret"
    file.write_text("mine\n")
    secret.write_text(SECRET)
    reader = VisibleReader(_Swapping(file, secret), _visible(file))
    try:
        shown = READINGS[way](reader, str(file))
    except RowsError:
        shown = None
    assert shown is None
    assert file.is_symlink()


def test_a_link_shows_only_files_that_the_application_used_or_that_lie_in_its_datasets(
    tmp_path: Path,
) -> None:
    for name in ("mine", "other", "unknown", "out/part-0", "out/_log/0.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(f"{name}\n")
    visible = _visible(tmp_path / "mine", tmp_path / "other", tmp_path / "out")
    assert visible.is_fully_visible
    reader = VisibleReader(RootedReader([str(tmp_path)]), visible)
    link = tmp_path / "link"
    for target, text in (
        ("mine", "mine"),
        ("other", "other"),
        ("out/part-0", "out/part-0"),
        ("out/_log/0.json", "out/_log/0.json"),
    ):
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / target)
        assert reader.rows(str(link), FIRST) == [text]
    link.unlink()
    link.symlink_to(tmp_path / "unknown")
    with pytest.raises(RowsError, match="a link leads to it"):
        reader.rows(str(link), FIRST)
    assert not reader.may_read(str(link))
    hides = _visible(tmp_path / "mine", tmp_path / "out", hidden=frozenset({f"{tmp_path}/mine"}))
    with pytest.raises(RowsError, match="hidden"):
        VisibleReader(RootedReader([str(tmp_path)]), hides).rows(f"{tmp_path}/out/x", FIRST)
