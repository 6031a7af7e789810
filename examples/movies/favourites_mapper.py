"""Averages and users, by user: USER -> GENRE,AVERAGE or GENDER AGE."""

import sys

for line in sys.stdin:
    user, _, rest = line.rstrip("\n").partition(",")
    if "\t" in rest:
        genre, average = rest.split("\t")
        print(f"{user}\t{genre},{average}")
    else:
        gender, age = rest.split(",")
        print(f"{user}\t{gender} {age}")
