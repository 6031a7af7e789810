"""The three genres that a user likes most, with who the user is: USER -> GENRE,GENDER AGE."""

import sys
from itertools import groupby

records = (line.rstrip("\n").split("\t") for line in sys.stdin)
for user, group in groupby(records, key=lambda record: record[0]):
    person, averages = "", []
    for _, value in group:
        genre, is_average, average = value.partition(",")
        if is_average:
            averages.append((-float(average), genre))
        else:
            person = value
    for _, genre in sorted(averages)[:3]:
        print(f"{user}\t{genre},{person}")
