"""`make bench`: time our jobs and the peers' against each other, each in a process of its own with pinned threads.

    python benchmarks/run.py                            everything; about an hour on two cores
    python benchmarks/run.py --scale 0.01               the same on small data, to try the harness
    python benchmarks/run.py --only W1 --only treeshap  claims whose workload or jobs contain one of the words
    python benchmarks/run.py --isa avx2                 our core forced to an instruction set
    python benchmarks/run.py --threads 2                both sides with two threads
    python benchmarks/run.py --only W1 --into FILE      these claims again, in place of those of an earlier run

A ratio is taken between measurements of one pass, in which our job and the peer's run one after the other; the table
shows the median over the passes. Results go to
docs/evidence/benchmark/xgboost-<version>-<instruction set>.json; tables.py makes the page of them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

RESULTS = HERE.parent / "docs" / "evidence" / "benchmark"
ARRAYS = HERE.parent / "build" / "bench" / "results"
TIMEOUT = 1800
MAX_REPEATS, SECONDS = 7, 8.0  # of one measurement: whichever is reached first, but at least one repeat
SLOW = 20.0  # seconds; a job that takes longer is measured in the first pass only
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


# -- the process that measures ----------------------------------------------------------------------------------
def measure(task):
    """Prepare a job, warm it up, time it; write what it returned."""
    import numpy as np

    from peers import JOBS, Case, quiet
    from workloads import workload

    job, w = JOBS[task["job"]], workload(task["workload"], task["scale"])
    rows = w.rows if job.max_rows is None else min(w.rows, job.max_rows)
    with quiet():
        call = job.prepare(Case(w, task["threads"], rows))
        start = time.perf_counter()
        result = call()  # warm-up
        first, times = time.perf_counter() - start, []
        while job.timed and len(times) < MAX_REPEATS and (not times or sum(times) < SECONDS):
            if first > SLOW and not times:
                times.append(first)  # as long as this, being warm makes no difference
                break
            del result
            start = time.perf_counter()
            result = call()
            times.append(time.perf_counter() - start)
    np.save(task["array"], job.view(result))
    # One row at a time is counted per call, everything else per workload.
    factor = 1 / job.calls if job.calls > 1 else w.rows / rows
    if job.name.endswith((".read", ".load_model")):
        factor = 1.0
    isa = None
    if job.package == "treeinner":
        from treeinner.kernels import instruction_set

        isa = instruction_set()
    return {"seconds": [t * factor for t in times], "rows": rows, "of_rows": w.rows, "calls": job.calls, "isa": isa}


def worker(task):
    cpus = sorted(os.sched_getaffinity(0))[-task["threads"] :]  # the first one serves the interrupts
    os.sched_setaffinity(0, cpus)
    with open(task["out"], "w") as out:
        json.dump(measure(task), out)


# -- the process that asks ---------------------------------------------------------------------------------------
class Bench:
    """Measurements of one run."""

    def __init__(self, scale, passes):
        self.scale, self.passes = scale, passes
        self.done = {}  # (job, workload, threads, isa) -> {"passes": [...], or "failed": why}
        ARRAYS.mkdir(parents=True, exist_ok=True)

    def array(self, key):
        import numpy as np

        return np.load(ARRAYS / f"{'-'.join(map(str, key))}.npy")

    def once(self, key, pass_number):
        """Measure in a fresh process, unless it failed before, or was slow and need not be repeated."""
        entry = self.done.setdefault(key, {"passes": []})
        if "failed" in entry or len(entry["passes"]) > pass_number or (entry["passes"] and entry.get("slow")):
            return
        job, workload, threads, isa = key
        stem = ARRAYS / "-".join(map(str, key))
        task = {"job": job, "workload": workload, "threads": threads, "scale": self.scale,
                "array": f"{stem}.npy", "out": f"{stem}.json"}  # fmt: skip
        environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads))
        environment |= {"TREEINNER_ISA": isa} if isa != "best" else {}
        command = [sys.executable, "-W", "ignore", __file__, "--worker", json.dumps(task)]
        start = time.perf_counter()
        try:
            ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)
            why = None if ran.returncode == 0 else (ran.stderr.strip().splitlines() or [f"exit {ran.returncode}"])[-1]
        except subprocess.TimeoutExpired:
            why = f"stopped after {TIMEOUT} s"
        if why is not None:
            entry["failed"] = why[:300]
            print(f"  {job:32} {workload:12} FAILED: {entry['failed']}", flush=True)
            return
        result = json.loads(Path(task["out"]).read_text())
        entry["passes"].append(result["seconds"])
        entry |= {name: result[name] for name in ("rows", "of_rows", "calls", "isa")}
        entry["slow"] = time.perf_counter() - start > 3 * SLOW or not result["seconds"]
        shown = f"{statistics.median(result['seconds']):10.5f} s" if result["seconds"] else "  (reference)"
        print(f"  {job:32} {workload:12} x{threads} {isa:8} {shown}", flush=True)

    def ratio(self, ours, peer):
        """Ratios of the medians, one per pass."""
        a, b = (self.done[k]["passes"] for k in (ours, peer))
        median = statistics.median
        return [median(a[min(i, len(a) - 1)]) / median(b[min(i, len(b) - 1)]) for i in range(max(len(a), len(b)))]


def judge(bench, claim, ours, peer, reference, second):
    """Return one row of the table."""
    from claims import check

    row = asdict(claim) | {"ours_threads": ours[2], "peer_threads": peer[2]}
    for key in (ours, peer, reference):
        if "failed" in bench.done[key]:
            return row | {"failed": f"{key[0]}: {bench.done[key]['failed']}"}
    a, b = bench.done[ours], bench.done[peer]
    ratios = bench.ratio(ours, peer)
    error, allowed, why = check(claim.check, bench.array(ours), bench.array(reference), a["of_rows"])
    row |= {
        "ratios": ratios,
        "ratio": statistics.median(ratios),
        "ours_seconds": statistics.median([t for p in a["passes"] for t in p]),
        "peer_seconds": statistics.median([t for p in b["passes"] for t in p]),
        "peer_rows": b["rows"] if b["rows"] < b["of_rows"] and b["calls"] == 1 else None,
        "error": error, "allowed": allowed, "allowed_because": why, "agrees": bool(error <= allowed),
    }  # fmt: skip
    if claim.at_most is not None:
        row["at_most"] = claim.bound(a["isa"])
        row["met"] = row["ratio"] <= row["at_most"]
    if second is not None and "failed" not in bench.done[second]:
        row["avx2_ratio"] = statistics.median(
            bench.ratio(second, (*peer[:3], second[3]) if claim.against_ourselves else peer)
        )
        if claim.at_most is not None:
            row["avx2_met"] = row["avx2_ratio"] <= claim.bound("avx2")
    return row


def keys_of(claim, arguments):
    ours_threads, peer_threads = claim.threads or (arguments.threads, arguments.threads)
    peer_isa = arguments.isa if claim.peer.startswith("treeinner.") else "best"
    ours = (claim.ours, claim.workload, ours_threads, arguments.isa)
    peer = (claim.peer, claim.workload, peer_threads, peer_isa)
    reference = peer if claim.reference is None else (claim.reference, claim.workload, ours_threads, "best")
    return ours, peer, reference


def run_claims(bench, claims, arguments, save):
    """All rows of the table, workload by workload, so that what is compared runs close together.

    save(rows so far): after each workload, so that a run of an hour that is cut off has not been for nothing.
    """
    table = []
    for name in dict.fromkeys(c.workload for c in claims):
        print(f"{name}", flush=True)
        group = [(c, *keys_of(c, arguments)) for c in claims if c.workload == name]
        seconds = {}
        for c, ours, peer, _ in group:
            if arguments.with_avx2:
                seconds[c] = (*ours[:3], "avx2")
                if peer[0].startswith("treeinner."):
                    seconds[c, "peer"] = (*peer[:3], "avx2")
        for i in range(bench.passes):
            for _, ours, peer, _ in group:
                bench.once(peer, i)
                bench.once(ours, i)
            for key in dict.fromkeys(seconds.values()):
                bench.once(key, i)
        for _, _, _, reference in group:
            bench.once(reference, 0)
        table += [judge(bench, c, ours, peer, reference, seconds.get(c)) for c, ours, peer, reference in group]
        save(table)
    return table


def train(names, scale):
    """Train what is not there yet, with all cores, before anything is timed."""
    from workloads import model_path, workload

    for name in names:
        start = time.perf_counter()
        path = model_path(workload(name, scale))
        if time.perf_counter() - start > 1:
            print(f"trained {name}: {path.name} in {time.perf_counter() - start:.0f} s", flush=True)


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", action="append", default=[], help="a word in the workload's or a job's name")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--isa", default="best", help="baseline, avx2, avx512, neon; default: the machine's best")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--skip", action="append", default=[], choices=["avx2", "memory", "scaling", "claims"])
    parser.add_argument(
        "--out", type=Path, default=None, help="JSON file; default: under docs/evidence/benchmark if complete"
    )
    parser.add_argument(
        "--into", type=Path, default=None, help="JSON file of an earlier run; what is measured replaces its own"
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def replaced(earlier, report):
    """Return an earlier report with what was measured again in place of its own; claims say so."""
    if earlier["versions"] != report["versions"] or earlier["scale"] != report["scale"]:
        raise SystemExit("--into: the earlier run had other versions or another scale; run everything again.")

    def name(claim):
        return (claim["ours"], claim["peer"], claim["workload"], list(claim["threads"] or []))

    claims = []
    for claim in earlier["claims"]:
        new = next((c for c in report["claims"] if name(c) == name(claim)), None)
        claims.append(claim if new is None else claim | new | {"again": f"{report['passes']} passes, {report['date']}"})
    return earlier | {"claims": claims} | {part: report[part] for part in ("memory", "scaling") if report[part]}


def write(path, report):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")


def main():
    arguments = parse()
    if arguments.worker:
        worker(json.loads(arguments.worker))
        return
    import machine
    from claims import CLAIMS
    from peers import JOBS
    from treeinner.kernels import instruction_set

    best = instruction_set()
    arguments.with_avx2 = arguments.isa == "best" and best == "avx512" and "avx2" not in arguments.skip
    chosen = [
        c for c in CLAIMS
        if not arguments.only or any(word in f"{c.workload} {c.ours} {c.peer}" for word in arguments.only)
    ]  # fmt: skip
    report = machine.describe() | {
        "scale": arguments.scale, "threads": arguments.threads, "passes": arguments.passes, "only": arguments.only,
        "isa": best if arguments.isa == "best" else arguments.isa,
    }  # fmt: skip
    report["claims"], report["memory"], report["scaling"] = [], [], []
    if "claims" not in arguments.skip:
        bench = Bench(arguments.scale, arguments.passes)
        train(dict.fromkeys(c.workload for c in chosen), arguments.scale)
        unfinished = ARRAYS.parent / f"unfinished-xgboost-{report['versions'].get('xgboost', 'none')}.json"

        def save(rows):
            failed = {k[0]: v["failed"] for k, v in bench.done.items() if "failed" in v}
            report["failed"] = {name: why for name, why in failed.items() if name in JOBS}
            write(unfinished, report | {"claims": rows})

        report["claims"] = run_claims(bench, chosen, arguments, save)
    if not arguments.only:
        import memory
        import scaling

        if "memory" not in arguments.skip:
            report["memory"] = memory.run(arguments.scale)
        if "scaling" not in arguments.skip:
            report["scaling"] = scaling.run(arguments.scale)
    whole = arguments.scale == 1.0 and not arguments.only and not arguments.skip
    place = RESULTS if whole else ARRAYS.parent
    out = arguments.out or place / f"xgboost-{report['versions'].get('xgboost', 'none')}-{report['isa']}.json"
    if arguments.into is not None:
        out, report = arguments.into, replaced(json.loads(arguments.into.read_text()), report)
    write(out, report)
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
