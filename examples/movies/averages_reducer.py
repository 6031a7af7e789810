"""The average rating of a user for a genre: USER,GENRE -> AVERAGE."""

import sys
from itertools import groupby

records = (line.rstrip("\n").split("\t") for line in sys.stdin)
for key, group in groupby(records, key=lambda record: record[0]):
    ratings = [int(rating) for _, rating in group]
    print(f"{key}\t{sum(ratings) / len(ratings):.2f}")
