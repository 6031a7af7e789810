"""Write the schemas by which kubeconform checks the charts.

Of the oldest and the newest Kubernetes that the charts support, and of the kinds of others that they may use:

    python scripts/kube_schemas.py FOLDER

Kubernetes publishes what it accepts inside its Go module, operators inside theirs; Go fetches both. Every
schema stands alone and is strict: a field that is not known is an error. Nothing is done where FOLDER has
these versions already.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

KUBERNETES = {"oldest": "v1.30.14", "newest": "v1.36.3"}
"""Folder and version. The chart's kubeVersion names the oldest."""
PROMETHEUS = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
KEDA = "github.com/kedacore/keda/v2@v2.18.0"
OPERATORS = (
    (PROMETHEUS, "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml"),
    (PROMETHEUS, "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"),
    (KEDA, "config/crd/bases/keda.sh_scaledobjects.yaml"),
)
"""Modules, and their definitions of the kinds that the charts use."""

REFERENCE = "#/definitions/"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
GROUPS_MAX = 5
"""Kinds of more groups than this (DeleteOptions) are never written in a file."""
OPEN = "x-kubernetes-preserve-unknown-fields"
DROPPED = ("description", "format", "default", "example")
"""Words that decide nothing; formats are checked by Kubernetes in its own way."""

Schema = dict[str, Any]


def module_folder(module: str) -> Path:
    """Where Go keeps a module, fetched if need be.

    Raises:
        SystemExit: it can't be had.
    """
    command = ["go", "mod", "download", "-json", module]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SystemExit("kube_schemas needs Go on the PATH (https://go.dev/dl)") from None
    module_info = json.loads(result.stdout or "{}")
    if result.returncode or "Dir" not in module_info:
        raise SystemExit(f"{module} can't be had: {module_info.get('Error') or result.stderr}")
    return Path(module_info["Dir"])


class Converter:
    """Makes a schema that stands alone of one that refers to others."""

    def __init__(self, definitions: dict[str, Schema]) -> None:
        self._definitions = definitions | {
            # 1 and "1" are both written.
            QUANTITY: {"type": ["string", "number"]},
            INT_OR_STRING: {"type": ["string", "integer"]},
        }

    def convert(self, node: Any, seen: frozenset[str] = frozenset()) -> Any:
        """A part of a schema; ``seen`` are the definitions that it is inside of."""
        if isinstance(node, list):
            return [self.convert(item, seen) for item in node]
        if not isinstance(node, dict):
            return node
        if isinstance(node.get("$ref"), str):
            name = node["$ref"].removeprefix(REFERENCE)
            # A definition that holds itself: whatever is in there is taken.
            return {} if name in seen else self.convert(self._definitions[name], seen | {name})
        if node.get("x-kubernetes-int-or-string"):
            return {"type": ["string", "integer"]}
        return _closed({key: self._field(key, value, seen) for key, value in node.items()}, node)

    def _field(self, key: str, value: Any, seen: frozenset[str]) -> Any:
        if key == "properties":
            return {name: self.convert(field, seen) for name, field in value.items()}
        return self.convert(value, seen)


def _closed(schema: Schema, node: Schema) -> Schema:
    """Without words that decide nothing; refuses what it does not name."""
    properties = {
        key: value
        for key, value in schema.items()
        # A property may have any name; words of a schema have these.
        if not (key.startswith("x-kubernetes") or key in DROPPED)
    }
    if "properties" in properties and not node.get(OPEN):
        properties.setdefault("additionalProperties", False)
        required = properties.get("required", ())
        properties["properties"] = {
            name: field if name in required else _nullable(field)
            for name, field in properties["properties"].items()
        }
    return properties


def _nullable(schema: Schema) -> Schema:
    """What may be left out may be null."""
    kinds = schema.get("type")
    if kinds is None or "enum" in schema:
        return schema
    return {**schema, "type": [*([kinds] if isinstance(kinds, str) else kinds), "null"]}


def _pinned(schema: Schema, group: str, version: str, kind: str) -> Schema:
    api_version = f"{group}/{version}" if group else version
    for name, value in (("kind", kind), ("apiVersion", api_version)):
        schema["properties"][name] = {"type": "string", "enum": [value]}
    # The definition of a kind by an operator leaves it to Kubernetes.
    schema["properties"]["metadata"] = schema["properties"].get("metadata") or {"type": "object"}
    return schema


def file_name(group: str, version: str, kind: str) -> str:
    """As kubeconform puts {{.ResourceKind}}{{.KindSuffix}}.json together."""
    parts = (kind.lower(), group.partition(".")[0], version)
    return "-".join(part for part in parts if part) + ".json"


def kinds_of_kubernetes(version: str) -> Iterator[tuple[str, Schema]]:
    """File names and schemas of all kinds."""
    source = module_folder(f"k8s.io/kubernetes@{version}") / "api/openapi-spec/swagger.json"
    definitions: dict[str, Schema] = json.loads(source.read_text(encoding="utf-8"))["definitions"]
    converter = Converter(definitions)
    for name, definition in definitions.items():
        kinds = definition.get("x-kubernetes-group-version-kind", ())
        if len(kinds) > GROUPS_MAX or "properties" not in definition:
            continue
        for kind in kinds:
            schema = converter.convert(definition, frozenset({name}))
            yield file_name(**kind), _pinned(schema, **kind)


def kinds_of_operators() -> Iterator[tuple[str, Schema]]:
    """The same of what operators define."""
    for module, path in OPERATORS:
        text = (module_folder(module) / path).read_text(encoding="utf-8")
        spec = yaml.safe_load(text)["spec"]
        for version in spec["versions"]:
            kind_version = {
                "group": spec["group"],
                "version": version["name"],
                "kind": spec["names"]["kind"],
            }
            schema = Converter({}).convert(version["schema"]["openAPIV3Schema"])
            yield file_name(**kind_version), _pinned(schema, **kind_version)


def main() -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(description="Write schemas of Kubernetes for kubeconform.")
    parser.add_argument("folder", type=Path, help="where to; has a folder for each version")
    root: Path = parser.parse_args().folder
    versions = json.dumps([KUBERNETES, OPERATORS])
    stamp = root / "versions.json"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == versions:
        return 0
    shutil.rmtree(root, ignore_errors=True)
    sources = {name: kinds_of_kubernetes(version) for name, version in KUBERNETES.items()}
    sources["operators"] = kinds_of_operators()
    for name, kinds in sources.items():
        (root / name).mkdir(parents=True)
        for file, schema in kinds:
            (root / name / file).write_text(json.dumps(schema), encoding="utf-8")
    stamp.write_text(versions, encoding="utf-8")
    print(f"schemas of Kubernetes {' and '.join(KUBERNETES.values())} are in {root}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
