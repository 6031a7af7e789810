"""What a run is called in OpenLineage, and who says so."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from lineage_core.release import __version__

DEFAULT_NAMESPACE = "lineage-master"
DEFAULT_SCHEMAS = "urn:lineage-master:openlineage:1-0-0"
"""The specification asks for URIs that tell producers and schemas apart, not for pages: these name
them wherever this program runs. Who serves the schema somewhere sets that address instead."""


def default_producer() -> str:
    """Who says all this, with the version."""
    return f"urn:lineage-master:producer:{__version__}"


@dataclass(frozen=True, slots=True)
class Naming:
    """How a run is named; what is empty is the default.

    ``link``: base URL that an application's id is put behind. ``producer``: URI of who says it.
    ``schemas``: URI below which schemas of our facets are named.
    """

    namespace: str = ""
    link: str = ""
    producer: str = ""
    schemas: str = ""

    def link_to(self, app: str) -> str:
        """Where the lineage of an application can be looked at; empty: nowhere."""
        return f"{self.link.rstrip('/')}/{quote(app, safe='')}" if self.link else ""

    def schema(self, facet: str) -> str:
        """The schema of a facet of ours."""
        return f"{(self.schemas or DEFAULT_SCHEMAS).rstrip('/')}/{facet}.json#/$defs/{facet}"
