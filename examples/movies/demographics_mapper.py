"""Each favourite counts once: GENRE,GENDER AGE -> 1."""

import sys

for line in sys.stdin:
    _, favourite = line.rstrip("\n").split("\t")
    print(f"{favourite}\t1")
