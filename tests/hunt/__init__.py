"""The hunt: programs nobody wrote, harm at places nobody chose, and three sentences that must hold.

    make hunt                                  # all kinds, five minutes
    make hunt SEED=7 SECONDS=7200              # other programs, longer
    make hunt ARGS='--only tasks executors'    # some kinds

Each output row states what it is made of, for every source row holds an id that the functions of a program hand on.
So the truth is what the job really computed, also where functions are random, look at an order, or run twice.
The hunt traces the rows and holds the answers to three sentences (`claims`):

- *exact* implies equal: the trace names the row's witnesses and nothing else;
- *superset* implies contained: it names all of them;
- *complete* implies that no witness is missing and that no output is without lineage.

A refusal, and an answer that says it is incomplete, break none; the tally says how many rows were exact.

What is hunted, `--only KIND`:

==========  ====================================================================================================
blocks      lineage of jobs made up without Spark (map tasks that ran twice, either attempt read), ingested in any
            order in several calls; traced in SQLite
state       the same through the linker, whose state is lost, restored or behind while records come in any order,
            some twice
sources     text files that are changed, touched or replaced between questions, over a program's asker and over HTTP
frames      DataFrame queries of everyday idioms over Parquet files, traced by their recipes
plain       generated RDD programs in calm
functions   the same with functions over partitions that keep records: buffers, windows, closures, objects
tasks       the same with a last shuffle behind random keys; a task fails, a worker dies, or the files of shuffles are
            deleted, behind any operator; caches are dropped between actions
executors   the same on a cluster of two executors, one of which is killed
servers     made-up jobs through Kafka, linker, Redis, writer and Neo4j; any of them is killed, Redis is emptied or put back
            to an older state, all records come again
==========  ====================================================================================================

The modules: ``claims`` the sentences · ``identity`` ids in source rows · ``carrying`` a SparkContext whose records
carry ids (``records``) · ``shapes`` functions over partitions · ``harm`` what strikes, once, at a place that is drawn · ``application`` runs programs and traces their rows ·
``simulated`` jobs without Spark · ``*_kind(s)`` what is drawn and how it is tried · ``hunting`` the loop · ``reading``
programs for people. Programs are those of `tests.oracle`, and Hypothesis shrinks what breaks a sentence.

The log (`build/hunt.jsonl`) has a line for each program: kind, seed, program, verdict, rows, exact rows, seconds; and
one with ``found`` for each program that broke a sentence, as small as it became. The same seed draws the same programs:
``--seed S --only KIND`` with the line's seed tries that batch again.
"""
