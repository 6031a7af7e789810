"""All kinds of prey, the quick ones first."""

from __future__ import annotations

from tests.hunt.calm_kind import CALM_KINDS
from tests.hunt.driver_kind import DRIVER_KINDS
from tests.hunt.frame_kind import FRAME_KINDS
from tests.hunt.hunting import Kind
from tests.hunt.loads_kind import LOADS_KINDS
from tests.hunt.pure_kinds import PURE_KINDS
from tests.hunt.server_kind import SERVER_KINDS
from tests.hunt.source_kind import SOURCE_KINDS
from tests.hunt.spark_kinds import SPARK_KINDS

KINDS: tuple[Kind, ...] = (
    *CALM_KINDS,
    *PURE_KINDS,
    *SOURCE_KINDS,
    *FRAME_KINDS,
    *LOADS_KINDS,
    *SPARK_KINDS,
    *DRIVER_KINDS,
    *SERVER_KINDS,
)
