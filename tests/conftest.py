"""Hypothesis profiles, chosen by HYPOTHESIS_PROFILE: `ci` (the default) or `deep`."""

import os

from hypothesis import HealthCheck, settings

# The same examples on every run and every machine: a red build is never a matter of luck. No deadline,
# because a busy machine is slow, not wrong.
settings.register_profile("ci", derandomize=True, deadline=None)
# For a night: new examples each time, many of them.
settings.register_profile(
    "deep",
    deadline=None,
    max_examples=5_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
