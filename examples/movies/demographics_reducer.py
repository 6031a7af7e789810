"""How many people of a gender and age like a genre: GENRE,GENDER AGE -> PEOPLE."""

import sys
from itertools import groupby

records = (line.rstrip("\n").split("\t") for line in sys.stdin)
for key, group in groupby(records, key=lambda record: record[0]):
    print(f"{key}\t{sum(int(count) for _, count in group)}")
