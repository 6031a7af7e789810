"""Totals per customer in plain Python, reporting its lineage: no Spark, no engine.

    python examples/plain_python/totals.py [TARGET]
    lineage back 'totals.csv, line 1'
    lineage forward 'orders.csv, line 3'

Items are named by what people call them (any string is a name), and one step between the two files
by addresses: position p of ``kept#0`` is the p-th order that was kept.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from lineage_emitter import LineageApi

ORDERS = Path(__file__).resolve().parent / "orders.csv"

Order = tuple[str, int]
"""Customer and amount."""


def keep_orders(api: LineageApi) -> list[Order]:
    """Orders that brought money in, each reported as made from its line of the file."""
    kept: list[Order] = []
    with ORDERS.open(encoding="utf-8", newline="") as file, api.task("kept"):
        for line, (_, customer, amount) in enumerate(csv.reader(file), start=1):
            if line == 1 or int(amount) <= 0:
                continue
            flow = f"order {line}"
            api.capture(
                flow, f"orders.csv, line {line}", f"kept#0#{len(kept)}", f"{customer} {amount}"
            )
            kept.append((customer, int(amount)))
    return kept


def add_up(api: LineageApi, orders: list[Order], target: Path) -> None:
    """Write a total per customer, each reported as made from the orders of that customer."""
    of_customer: dict[str, list[int]] = {}
    for position, (customer, _) in enumerate(orders):
        of_customer.setdefault(customer, []).append(position)
    with target.open("w", encoding="utf-8") as out, api.task("totals"):
        for line, (customer, positions) in enumerate(sorted(of_customer.items()), start=1):
            total = sum(orders[position][1] for position in positions)
            out.write(f"{customer},{total}\n")
            inputs = " ".join(map(str, positions))
            api.capture(
                customer, f"kept#0#{inputs}", f"totals.csv, line {line}", f"{customer} {total}"
            )


def main() -> int:
    """Command line entry."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "totals.csv")
    with LineageApi("customer totals") as api:
        api.register("kept", "orders that brought money in")
        api.register("totals", "total per customer", kind="sink")
        api.link("kept", "totals")
        add_up(api, keep_orders(api), target)
    print(target.read_text(encoding="utf-8"), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
