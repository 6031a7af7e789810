"""python -m tests.same [PART...] [--seed S] [--draw N] [--only WORD] [--log FILE]: see `tests.same`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.same.comparing import PARTS, Difference


def main() -> int:
    """Run the parts; 1 where anything differs that is not known to."""
    given = _arguments()
    unknown = 0
    given.log.parent.mkdir(parents=True, exist_ok=True)
    with given.log.open("w") as log, tempfile.TemporaryDirectory(prefix="same-") as folder:
        for part in given.parts or PARTS:
            names = PARTS[part].draw(given.seed, given.draw, given.only)
            found = PARTS[part].compare(names, Path(folder, part)) if names else []
            new = [one for one in found if not one.known]
            unknown += len(new)
            for one in found:
                log.write(json.dumps(one.to_json()) + "\n")
            for one in new:
                sys.stdout.write(_text(one))
            sys.stdout.write(
                f"{part}: {len(names)} run plainly and captured, {len(new)} differ, "
                f"{len(found) - len(new)} as is known\n"
            )
            sys.stdout.flush()
    return 1 if unknown else 0


def _text(one: Difference) -> str:
    return f"{one.name}: {one.what}\n  plain    {one.plain}\n  captured {one.captured}\n"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.same")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--draw", type=int, help="so many of each part (default: all)")
    parser.add_argument("--only", help="those whose name holds this")
    parser.add_argument("--log", type=Path, default=Path("build/same.jsonl"), help="JSON lines")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
