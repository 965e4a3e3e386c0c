"""Cost over three decades of rows, of trees, and of nodes reached: is it linear? `python benchmarks/scaling.py`.

Rows: W1 with 1,000 to 1,000,000 rows. Trees: the first 1 to 1000 trees of W6's model, 10,000 rows. Nodes: 5 trees of 2
leaves, then 50 trees of 2 to 16384, 10,000 rows; counted is what a block of 64 neighbouring rows has to visit, however
large the trees: by path the nodes that at least one of the rows reaches; by TreeSHAP, where every leaf gives something
to every row, all nodes, as often as there are points of quadrature: half the number of features on the longest path.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

METHODS = ("scores", "errors", "predecomp", "treeshap")
ROWS = (1_000, 10_000, 100_000, 1_000_000)
TREES = (1, 10, 100, 1000)
LEAVES = (2, 8, 64, 512, 4096, 16384)
FEW_TREES = 5  # of the smallest ones, for a point of the third decade
BLOCKS = 8  # blocks of 64 rows that the nodes reached are counted on


def nodes_reached(model, X):
    """Nodes of all trees together that a block of 64 rows reaches, on average."""
    e = model.trees
    parent = np.full(e.n_nodes, -1)
    inner = np.flatnonzero(e.column >= 0)
    parent[e.left[inner]] = parent[e.right[inner]] = inner
    node_of_leaf = {}
    for node in np.flatnonzero(e.column < 0).tolist():
        node_of_leaf[int(e.tree_of_node[node]), int(e.leaf_id[node])] = node
    leaves, counts = model.apply(X[: 64 * BLOCKS], n_jobs=1), []
    for start in range(0, len(leaves), 64):
        block = leaves[start : start + 64]
        reached = np.zeros(e.n_nodes, bool)
        here = np.array([node_of_leaf[t, leaf] for t in range(e.n_trees) for leaf in np.unique(block[:, t]).tolist()])
        while len(here):
            reached[here] = True
            here = np.unique(parent[here])
            here = here[here >= 0]
        counts.append(int(reached.sum()))
    return float(np.mean(counts))


def node_points(e):
    """Nodes of all trees, each times the points of quadrature that TreeSHAP needs for its tree."""
    assert e.n_features <= 64, "a bit per feature"
    on_path = np.zeros(e.n_nodes, np.uint64)
    for node, left, right in reversed(e.upwards):
        on_path[left] = on_path[right] = on_path[node] | np.uint64(1) << e.column[node].astype(np.uint64)
    longest = np.maximum.reduceat(np.bitwise_count(on_path).astype(np.int64), e.start[:-1])
    return int((np.diff(e.start) * ((longest + 1) // 2)).sum())


def first_rounds(model, n):
    """Keep the first n rounds of a model."""
    return replace(model, trees=model.trees.rounds(0, n))


def _seconds(call):
    call()
    times = []
    while len(times) < 5 and (not times or sum(times) < 3):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _time(model, X, y):
    import treeinner

    calls = {
        "scores": lambda: treeinner.importance(model, X, y, score="tree_inner", std_errors=False, n_jobs=1),
        "errors": lambda: treeinner.importance(model, X, y, score="tree_inner", n_jobs=1),
        "predecomp": lambda: treeinner.attribute(model, X, n_jobs=1),
        "treeshap": lambda: treeinner.attribute(model, X, method="treeshap", n_jobs=1),
    }
    return {method: _seconds(calls[method]) for method in METHODS}


def measure(axis, scale):
    """Return points of one axis: [{"x": ..., "seconds": {method: ...}}]."""
    from workloads import Model, rows_of, workload

    points = []
    if axis == "nodes":
        for leaves in LEAVES:
            w = workload(f"nodes{leaves}", scale)
            model, (X, y) = Model(w, 1).read(), rows_of(w)
            parts = [first_rounds(model, FEW_TREES), model] if leaves == LEAVES[0] else [model]
            points += [
                {
                    "x": nodes_reached(p, X), "x_of": {"treeshap": node_points(p.trees)},
                    "leaves": leaves, "seconds": _time(p, X, y),
                }
                for p in parts
            ]  # fmt: skip
        return points
    w = workload(axis, scale)
    model, (X, y) = Model(w, 1).read(), rows_of(w)
    if axis == "rows":
        sizes = sorted({max(64, round(n * len(X) / ROWS[-1])) for n in ROWS})
        return [{"x": n, "seconds": _time(model, X[:n], y[:n])} for n in sizes]
    sizes = [n for n in TREES if n <= model.n_trees]
    return [{"x": n, "seconds": _time(first_rounds(model, n), X, y)} for n in sizes]


def run(scale=1.0):
    from workloads import model_path, workload

    for name in ("rows", "trees", *(f"nodes{n}" for n in LEAVES)):
        model_path(workload(name, scale))
    results = []
    for axis in ("rows", "trees", "nodes"):
        command = [sys.executable, __file__, "--worker", json.dumps([axis, scale])]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            last = (ran.stderr.strip().splitlines() or [f"exit {ran.returncode}"])[-1]
            results.append({"axis": axis, "failed": last[:300]})
        else:
            results.append({"axis": axis, "points": json.loads(ran.stdout.splitlines()[-1])})
        print(f"scaling over {axis}: {results[-1].get('failed', 'done')}", flush=True)
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
