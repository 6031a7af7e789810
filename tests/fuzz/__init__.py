"""Mutation fuzzing of all that reads what others wrote: decoders, recipes, plans, requests.

`python -m tests.fuzz --seed S --seconds N --only TARGET...`. Samples are made by the project's own encoders; each
mutation is drawn from (seed, target, number) alone, so that `--only TARGET --first NUMBER --count 1` repeats it.
Asserted of each: nothing but the typed errors of the module leaves it, in at most a second of a core and 256 MB.
Requests are tried in this process (`request`) and over sockets to a server of its own (`http`), whose core and memory count then;
its answers are no 5xx, and errors fit the schema of errors.

The mutations are our own few lines. What the fields of a format hold decides what its decoder does, and no library
knows that: bytes that are mutated blindly stop at the checksum. Atheris, the well-kept one, has wheels for few
platforms and Pythons, ends at the first finding and wants Clang elsewhere; Hypothesis makes inputs instead of
mutating them (`tests/property` has it).
"""
