"""OpenLineage events of applications: what a run read and wrote, and how much lineage there is of it.

``datasets`` names files as the OpenLineage specification does; ``facts`` collects what events report;
``events`` makes events of it with the client's own model, and ``sending`` delivers them. The last two
need the extra ``exports`` and are imported where they are used.
"""
