"""Which dataset a file of a node belongs to: the first of the paths that the program named and that leads to it."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.tracing.budget import Budget, use_budget
from lineage_openlineage.datasets import dataset_name, paths_by_dataset
from lineage_store.paths import split_scheme

pytestmark = pytest.mark.unit
NAMES = st.sampled_from(["a", "b", "..", ".", ""])
PATHS = st.builds(
    lambda head, names: head + "/".join(names),
    st.sampled_from(["", "/", "file:/", "file:///", "s3://x/", "s3://y/", "hdfs://n/"]),
    st.lists(NAMES, min_size=1, max_size=4),
)


def owner(file_path: str, node_path: str, cwd: str) -> tuple[str, str] | None:
    """The dataset of one path, if the file is it or lies under it: by the definition."""
    namespace, name = dataset_name(file_path)
    scheme, path_in_scheme = split_scheme(node_path)
    path = None
    if scheme != "file" or node_path.startswith(("/", "file:")):
        of_node = dataset_name(node_path)
        if of_node[0] == namespace or node_path.startswith("/"):
            path = of_node[1]
    elif cwd:
        path = posixpath.normpath(posixpath.join(cwd, path_in_scheme))
    if path is not None:
        below, above = name.lstrip("/"), path.strip("/")
        if not above or below == above or below.startswith(f"{above}/"):
            return namespace, path if name.startswith("/") else path.lstrip("/") or "/"
    tail = [part for part in posixpath.normpath(path_in_scheme).split("/") if part.strip(".")]
    if tail and not node_path.startswith("/") and scheme == "file":
        parts = name.split("/")
        for stop in range(len(parts), len(tail) - 1, -1):
            if parts[stop - len(tail) : stop] == tail:
                return namespace, "/".join(parts[:stop])
    return None


@given(
    files=st.lists(PATHS, min_size=1, max_size=4, unique=True),
    node_paths=st.lists(PATHS, max_size=4),
    cwd=st.sampled_from(["", "/", "/a", "/a/b"]),
)
def test_the_first_path_that_leads_to_a_file_is_its_dataset(
    files: list[str], node_paths: list[str], cwd: str
) -> None:
    parts = list(dict.fromkeys(filter(None, node_paths)))
    for file, found in zip(
        files, (paths_by_dataset(",".join(node_paths), [file], cwd) for file in files), strict=True
    ):
        owners = (owner(file, part, cwd) for part in parts)
        expected = next((one for one in owners if one), None)
        assert found == {expected or dataset_name(file): [file]}


def test_very_many_files_of_very_many_paths_are_not_compared_each_with_each() -> None:
    looks = 0

    class Counting(Budget):
        def check(self) -> None:
            nonlocal looks
            looks += 1

    files = [f"/data/{at}/part-0" for at in range(2_000)]
    with use_budget(Counting()):
        found = paths_by_dataset(",".join(f"/data/{at}" for at in range(2_000)), files)
    assert found == {("file", f"/data/{at}"): [file] for at, file in enumerate(files)}
    assert looks < 20 * len(files)
