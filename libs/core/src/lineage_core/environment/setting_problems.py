"""The message about an invalid setting: the same in every service and command."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


def setting_problems(error: ValidationError) -> str:
    """What is wrong with settings that ``LINEAGE_*`` gave, without their values: one may be a secret."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(
        f"LINEAGE_{'_'.join(map(str, problem['loc'])).upper()}: {problem['msg']}"
        for problem in problems
    )
