"""Benchmarks as jobs of a cluster: what kubectl makes of them, their parameters, what is gathered."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from benchmarks.__main__ import arguments_of
from benchmarks.catalog import WORKLOADS
from benchmarks.deployed import deployed_row
from benchmarks.gather import Cluster, Job, finished, gather, main, rows_in
from benchmarks.job import MODES, OPTIONS, ParameterError, words_of
from benchmarks.pairs import RunError, Setup
from benchmarks.provenance import provenance

pytestmark = pytest.mark.unit

FOLDER = Path(__file__).resolve().parents[3] / "infra" / "benchmarks"
ROOTS = (FOLDER, FOLDER / "pipeline")
KNOWN = {f"BENCHMARK_{option.upper()}" for option in OPTIONS} | {"LINEAGE_KAFKA", "LINEAGE_STORE"}


def rendered(folder: Path) -> list[dict[str, Any]]:
    """What ``kubectl apply -k`` would send."""
    assert shutil.which("kubectl"), "these tests need kubectl: install it"
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@pytest.fixture(scope="module", params=ROOTS, ids=lambda folder: folder.name)
def objects(request: pytest.FixtureRequest) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for one in rendered(request.param):
        found.setdefault(one["kind"], []).append(one)
    return found


def test_jobs_have_parameters_that_the_program_knows(
    objects: dict[str, list[dict[str, Any]]],
) -> None:
    (parameters,) = objects["ConfigMap"]
    assert parameters["data"].keys() <= KNOWN
    for job in objects["Job"]:
        template = job["spec"]["template"]
        (container,) = template["spec"]["containers"]
        assert container["args"] == ["python", "-m", "benchmarks.job"]
        (source,) = container["envFrom"]
        assert source["configMapRef"]["name"] == parameters["metadata"]["name"]
        labels = template["metadata"]["labels"]
        given = {
            "BENCHMARK_WORKLOAD": labels["lineage-master/workload"],
            "BENCHMARK_MODE": labels["lineage-master/mode"],
        }
        asked = arguments_of(words_of(given | parameters["data"]))
        assert asked.modes == [labels["lineage-master/mode"]]
        assert asked.names == [labels["lineage-master/workload"]]
        assert given["BENCHMARK_WORKLOAD"] in job["metadata"]["name"]


def test_jobs_are_allowed_where_pods_are_restricted(
    objects: dict[str, list[dict[str, Any]]],
) -> None:
    for job in objects["Job"]:
        pod = job["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert {kind for volume in pod["volumes"] for kind in volume} <= {
            *("name", "emptyDir", "secret"),
        }
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_jobs_run_one_at_a_time_on_a_machine(objects: dict[str, list[dict[str, Any]]]) -> None:
    for job in objects["Job"]:
        template = job["spec"]["template"]
        affinity = template["spec"]["affinity"]["podAntiAffinity"]
        (rule,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
        labels = template["metadata"]["labels"]
        assert rule["labelSelector"]["matchLabels"].items() <= labels.items()


def test_both_folders_live_side_by_side() -> None:
    names = [one["metadata"]["name"] for root in ROOTS for one in rendered(root)]
    assert len(set(names)) == len(names)


def test_every_mode_is_a_command_line() -> None:
    for mode in MODES:
        given = {"BENCHMARK_WORKLOAD": "grep", "BENCHMARK_MODE": mode, "LINEAGE_KAFKA": "k:1"}
        asked = arguments_of(words_of(given | {"BENCHMARK_SIZE": "1MB", "BENCHMARK_PAIRS": "2"}))
        assert (asked.names, asked.size, asked.pairs) == (["grep"], 10**6, 2)
        assert asked.modes == [mode]
        assert asked.kafka == ("k:1" if mode == "emission" else "")
    assert WORKLOADS.keys() >= {"wordcount", "grep", "join"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "BENCHMARK_WORKLOAD"),
        ({"BENCHMARK_WORKLOAD": "grep"}, "BENCHMARK_MODE"),
        ({"BENCHMARK_WORKLOAD": "grep", "BENCHMARK_MODE": "quick"}, "spool, detailed"),
        ({"BENCHMARK_WORKLOAD": "grep", "BENCHMARK_MODE": "emission"}, "LINEAGE_KAFKA"),
    ],
)
def test_parameters_that_are_missing_are_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        words_of(given)


def test_an_image_says_what_it_was_built_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINEAGE_COMMIT", "abc123")
    assert provenance()["commit"] == "abc123"


def test_a_pipeline_that_is_not_named_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEAGE_KAFKA", "k:1")
    monkeypatch.delenv("LINEAGE_STORE", raising=False)
    setup = Setup(WORKLOADS["grep"], tmp_path, tmp_path, 1, 1)
    with pytest.raises(RunError, match=r"^LINEAGE_STORE must"):
        deployed_row(setup, 1)


# -- gathering ---------------------------------------------------------------------------------

ROW = '{"benchmark": "grep", "wall_ratio": {"median": 1.01}}'


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubectl that answers from a folder: its ``jobs``, and a log for each; it notes its words."""
    program = tmp_path / "kubectl"
    program.write_text(
        "#!/bin/sh\n"
        f'cd {tmp_path}; echo "$*" >> words\n'
        'case "$*" in\n'
        "*'get jobs'*) cat jobs;;\n"
        '*logs*) cat "${2#job/}.log" || cat "${4#job/}.log";;\n'
        "*) echo no such word >&2; exit 1;;\n"
        "esac 2>/dev/null\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def put_jobs(folder: Path, **states: str) -> None:
    kinds = {"succeeded": "Complete", "failed": "Failed"}
    items = [
        {
            "metadata": {"name": name},
            "status": {"conditions": [{"type": kinds[state], "status": "True"}]}
            if state in kinds
            else {},
        }
        for name, state in states.items()
    ]
    (folder / "jobs").write_text(json.dumps({"items": items}))


def test_rows_are_gathered_with_the_names_of_their_jobs(
    kubectl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_jobs(kubectl, b="succeeded", a="succeeded")
    (kubectl / "a.log").write_text(f'warming up\n{{"no": "row"}}\n{{half\n{ROW}\n')
    (kubectl / "b.log").write_text(ROW)
    assert main(["-n", "here", "--json-out", str(kubectl / "rows")]) == 0
    printed = capsys.readouterr().out
    rows = [json.loads(line) for line in printed.splitlines()]
    assert [(row["job"], row["benchmark"]) for row in rows] == [("a", "grep"), ("b", "grep")]
    assert (kubectl / "rows").read_text() == printed
    words = (kubectl / "words").read_text().splitlines()
    assert all(line.startswith("--namespace here ") for line in words)
    assert "app.kubernetes.io/component=benchmark" in words[0]


def test_what_failed_or_still_runs_is_said(
    kubectl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_jobs(kubectl, bad="failed", good="succeeded", late="running", mute="succeeded")
    (kubectl / "bad.log").write_text("one\nout of space\n")
    (kubectl / "good.log").write_text(ROW)
    (kubectl / "mute.log").write_text("")
    assert main([]) == 1
    shown = capsys.readouterr()
    assert [json.loads(line)["job"] for line in shown.out.splitlines()] == ["good"]
    for text in ("bad failed", "  out of space", "late has not finished", "mute succeeded without"):
        assert text in shown.err


def test_no_jobs_and_no_cluster_are_errors(
    kubectl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_jobs(kubectl)
    assert main([]) == 1
    assert "kubectl apply -k infra/benchmarks" in capsys.readouterr().err
    (kubectl / "kubectl").unlink()
    if shutil.which("kubectl") is None:
        assert main([]) == 1
        assert "no kubectl" in capsys.readouterr().err


def test_waiting_ends_when_no_job_runs_any_more(kubectl: Path) -> None:
    put_jobs(kubectl, a="succeeded", b="failed")
    assert finished(Cluster(), 600) == [Job("a", "succeeded"), Job("b", "failed")]


def test_rows_are_told_from_other_lines() -> None:
    assert list(rows_in(f"x\n{ROW}\n[1]\n")) == [json.loads(ROW)]
    assert gather(Cluster(), [])[0] == []
