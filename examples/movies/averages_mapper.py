"""A rating counts for each genre of its movie: USER,GENRE -> RATING."""

import sys

for line in sys.stdin:
    user, _, genres, rating = line.rstrip("\n").split(",")
    for genre in genres.split("|"):
        print(f"{user},{genre}\t{rating}")
