"""Makes ratings of movies, and the users who gave them: the same ones each time.

python examples/movies/prepare.py FOLDER [USERS]
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

GENRES = ("Action", "Comedy", "Crime", "Drama", "Horror", "Romance", "Thriller", "War")
AGES = ("18-24", "25-34", "35-44", "45+")
MOVIES, RATINGS_OF_USER = 40, 6


def write_data(folder: Path, users: int = 50) -> None:
    """Write ``ratings.txt`` (user, movie, genres, rating) and ``users.txt`` (user, gender, age)."""
    draw = random.Random(2013)
    folder.mkdir(parents=True, exist_ok=True)
    genres_of = ["|".join(sorted(draw.sample(GENRES, draw.randint(1, 3)))) for _ in range(MOVIES)]
    names = [f"u{number:04}" for number in range(users)]
    with (folder / "users.txt").open("w") as file:
        for name in names:
            file.write(f"{name},{draw.choice('FM')},{draw.choice(AGES)}\n")
    ratings = [
        f"{name},m{movie:03},{genres_of[movie]},{draw.randint(1, 5)}\n"
        for name in names
        for movie in draw.sample(range(MOVIES), RATINGS_OF_USER)
    ]
    draw.shuffle(ratings)
    with (folder / "ratings.txt").open("w") as file:
        file.writelines(ratings)


if __name__ == "__main__":
    write_data(Path(sys.argv[1]), *map(int, sys.argv[2:]))
