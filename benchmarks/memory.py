"""Peak memory beyond inputs and outputs on W6, in a process of its own: `python benchmarks/memory.py [--scale 0.01]`.

Inputs are X, y and the Model; outputs are the arrays that come back. The peak is the kernel's own count (VmHWM), set
back before the call, so that nothing that lives between two looks is missed. The compiled form of the model counts.
"""

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

AT_MOST_MB = 100
CASES = [("scores", 1), ("errors", 1), ("errors", 2), ("predecomp", 1), ("predecomp", 2), ("treeshap", 2)]


def _status(field):
    """Kilobytes that /proc/self/status tells."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def measure(case, threads, scale):
    import numpy as np

    import treeinner
    from workloads import Model, rows_of, workload

    w = workload("W6", scale)
    X, y = rows_of(w)
    model = Model(w, threads).read()

    def call(model, X, y):
        if case in ("predecomp", "treeshap"):
            return treeinner.attribute(model, X, method=case, n_jobs=threads).values
        return treeinner.importance(model, X, y, score="tree_inner", std_errors=case == "errors", n_jobs=threads).scores

    # Load what is imported late, on a copy without the trees, so that nothing of the model itself is made yet.
    call(replace(model, trees=model.trees.rounds(0, 1)), X[:100], y[:100])
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what was freed but is still held would hide what is taken next
    Path("/proc/self/clear_refs").write_text("5")  # set the peak back to what is held now
    before = _status("VmRSS")
    out = np.asarray(call(model, X, y))
    return {
        "case": case, "threads": threads, "rows": w.rows,
        "mb": max(0.0, (_status("VmHWM") - before) / 1024 - out.nbytes / 2**20),
        "inputs_mb": (X.nbytes + y.nbytes) / 2**20, "output_mb": out.nbytes / 2**20,
    }  # fmt: skip


def run(scale=1.0):
    """One process per case; a case that fails says why."""
    from workloads import model_path, workload

    model_path(workload("W6", scale))  # trained before, not in the process that is measured
    results = []
    for case, threads in CASES:
        task = json.dumps([case, threads, scale])
        command = [sys.executable, __file__, "--worker", task]
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if ran.returncode:
            last = (ran.stderr.strip().splitlines() or [f"exit {ran.returncode}"])[-1]
            results.append({"case": case, "threads": threads, "failed": last[:300]})
        else:
            result = json.loads(ran.stdout.splitlines()[-1])
            results.append(result | {"at_most_mb": AT_MOST_MB, "met": result["mb"] <= AT_MOST_MB})
        print(f"memory {results[-1]}", flush=True)
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(measure(*json.loads(arguments.worker))))
    else:
        run(arguments.scale)
