"""The reducer of a word count for Hadoop Streaming."""

import sys
from itertools import groupby

records = (line.rstrip("\n").split("\t") for line in sys.stdin)
for word, group in groupby(records, key=lambda record: record[0]):
    print(word, sum(int(record[1]) for record in group), sep="\t")
