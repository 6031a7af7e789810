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

=========== ====================================================================================================
calm        jobs made up without Spark to which nothing happens, many to an application: sources, shuffles, caches, a
            sink; ingested, traced in SQLite both ways
blocks      lineage of jobs made up without Spark (map tasks that ran twice, either attempt read), ingested in any
            order in several calls; traced in SQLite
state       the same through the linker, whose state is lost, restored or behind while records come in any order,
            some twice
sources     text files that are changed, touched or replaced between questions, over a program's query engine and over HTTP
frames      DataFrame queries of everyday idioms over Parquet files, traced by their recipes
loads       jobs of several applications over shared inputs, which append to one output and overwrite others; inputs
            change or vanish in between; rows are asked for in both directions, by place and by values
plain       generated RDD programs in calm
functions   the same with functions over partitions that keep records: buffers, windows, closures, objects
tasks       the same with a last shuffle behind random keys; a task fails, a worker dies, its disk is full, or the files
            of shuffles are deleted, behind any operator; caches are dropped between actions
executors   the same on a cluster of two executors, one of which is killed
speculation the same on two hosts, where a task waits until Spark has begun it a second time: both go on at once
drivers     the same where the driver is killed, behind any operator of its last program: what was captured until then is
            ingested, and the rows of all actions that ended are traced
servers     made-up jobs, several at once, through Kafka, linker, Redis, writer and Neo4j; any of them is killed, Redis
            or Neo4j is emptied, Redis put back to an older state, offsets set back, all records come again
=========== ====================================================================================================

The modules: ``claims`` the sentences · ``identity`` ids in source rows · ``carrying`` a SparkContext whose records
carry ids (``records``) · ``shapes`` functions over partitions · ``harm`` what strikes, once, at a place that is drawn
· ``application`` runs programs and traces their rows · ``simulated`` and ``chained`` jobs without Spark ·
``striking`` what strikes servers · ``loads`` a folder of daily loads and what is true of it, ``loads_claims`` the
questions about it · ``*_kind(s)`` what is drawn and how it is tried · ``hunting`` the loop ·
``put_back`` how long it takes to find faults that were mended · ``reading`` programs for people. Programs are those of `tests.oracle`, and Hypothesis shrinks what breaks a sentence.

A program is one job (``calm``, ``blocks``, ``state``, ``servers``: a made-up one; ``sources``: a row of changes and
questions; elsewhere a program on Spark). It counts once its verdict and all its claims were held to the sentences; a
job on Spark that failed does not count. It is *with harm* where something did happen to it, as the lines below a
kind's line say, and *without* elsewhere: ``calm``, ``plain``, ``functions`` and ``frames`` are always without, and
those of the others where nothing was drawn.

How to read what a run prints: a line for each kind, and below it what happened how often; the last line counts the
whole run: programs without and with harm; claims (a claim is what one trace says), exact ones and supersets; kills
(SIGKILL of a process: an executor, a driver, a server, linker or writer), states emptied, put back or set back (of servers;
what ``state`` does in memory is not among them); and what was found. A high share of supersets, or of ``incomplete``
verdicts, is no violation, but a hunt of little worth: exact and complete are the claims that can be wrong.

How volumes are reached: a program of ``calm`` takes some 17 ms of a processor's time, of ``state`` 45, of ``blocks``
85 and of ``sources`` 90; one on Spark or through the servers takes seconds. SECONDS are shared evenly among kinds, so
long runs name theirs: ``make hunt SECONDS=7200 ARGS='--only calm'``, and beside it ``make hunt SECONDS=7200
ARGS='--only blocks state sources'`` and ``make hunt SECONDS=7200 ARGS='--only servers'``. A later run takes another
SEED: each batch of a run has the next one.

The log (`build/hunt.jsonl`) has a line for each program: kind, seed, program, verdict, rows, exact rows, what
happened, seconds (a line of ``calm`` is one application of many programs); and one with ``found`` for each program
that broke a sentence, as small as it became. The same seed draws the same programs: ``--seed S --only KIND`` with the
line's seed tries that batch again.
"""
