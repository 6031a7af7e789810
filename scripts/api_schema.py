"""The API's schemas, of which the web page's types are made (`make page-types`).

python scripts/api_schema.py print   # the OpenAPI document, without routes
python scripts/api_schema.py stamp   # writes into the types what they were made of
python scripts/api_schema.py check   # fails where they were made of other schemas
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import cast

from lineage_query_api.app import create_app
from lineage_query_api.settings import read_settings
from lineage_store.port import GraphStore

TYPES = Path(__file__).parents[1] / "services/query-api/web/src/api/schema.ts"


def document() -> str:
    """The OpenAPI document without its routes: the page names these by itself."""
    # Nothing is asked of the store.
    app = create_app(cast("GraphStore", None), read_settings(store="sqlite:///unused.db"))
    full = app.openapi()
    reduced = {"openapi": full["openapi"], "info": {"title": full["info"]["title"], "version": "1"}}
    return json.dumps(
        reduced | {"components": {"schemas": full["components"]["schemas"]}}, indent=1
    )


def first_line() -> str:
    """The first line of the types: what they were made of."""
    digest = hashlib.sha256(document().encode()).hexdigest()
    return f"/* By `make page-types` of the API's schemas, sha256 {digest}. */\n"


def main(command: str) -> int:
    """Command line entry; the exit code."""
    match command:
        case "print":
            sys.stdout.write(document())
        case "stamp":
            TYPES.write_text(first_line() + TYPES.read_text(encoding="utf-8"), encoding="utf-8")
        case "check":
            if not TYPES.read_text(encoding="utf-8").startswith(first_line()):
                print(f"{TYPES.name} was made of other schemas of the API: run `make page-types`")
                return 1
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2] or [""]))
