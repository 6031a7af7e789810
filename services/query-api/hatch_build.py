"""Refuses to pack the query API without its web page, which users could not build for themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = "src/lineage_query_api/web/static/index.html"


class PageIsThere(BuildHookInterface[Any]):
    """Runs before a source distribution or a wheel is packed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Check for the page; editable installs are of checkouts, where it may be built later.

        Raises:
            FileNotFoundError: it is not built.
        """
        page = self.config.get("page", PAGE)
        if version != "editable" and not (Path(self.root) / page).is_file():
            raise FileNotFoundError(
                f"{page} is missing: build the web page first (`make page`, or `npm ci && npm run build` in web/)"
            )
