"""Count words by Dask: python dask_wordcount.py INPUT OUTPUT PARTITIONS WORKERS."""

import sys
from pathlib import Path

from dask import bag
from distributed import Client, LocalCluster


def main() -> None:
    """Count on a cluster of worker processes."""
    source, target, partitions, workers = sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:])
    block_bytes = Path(source).stat().st_size // partitions + 1
    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
        ) as cluster,
        Client(cluster),
    ):
        lines = bag.read_text(source, blocksize=block_bytes)
        counts = lines.map(str.split).flatten().frequencies().compute()
    target.mkdir(parents=True)
    with (target / "counts.txt").open("w", encoding="utf-8") as out:
        out.writelines(f"{word}\t{count}\n" for word, count in counts)


if __name__ == "__main__":
    main()
