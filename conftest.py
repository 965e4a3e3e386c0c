"""Settings of the whole suite."""

import os

# One thread for each library: on two cores with two workers, OpenMP's threads spend their time waiting for each other
# (small HistGradientBoosting models take up to a hundred times as long). Set before any library is loaded; child
# processes inherit it.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

from hypothesis import settings  # noqa: E402

# CI runs the same examples every time, so that a red run is a changed program; everywhere else each run tries new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
