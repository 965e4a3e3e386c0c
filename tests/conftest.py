"""Settings of the whole suite."""

import os

from hypothesis import settings

# CI runs the same examples every time, so that a red run is a changed program; everywhere else each run tries new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
