"""Instructions that the compiled core executes on a small workload, counted by callgrind: no clock, so no noise.

    python benchmarks/callgrind.py            count and compare with benchmarks/instructions.json
    python benchmarks/callgrind.py --update   write the counts; the bound of each is 5 % above

A child runs each public call once under valgrind. It tells valgrind itself where to begin and end counting, so that
interpreter and imports cost little time; of what is counted, only instructions inside the _core module are summed, so
that neither Python's nor numpy's version matters. The core runs its AVX2 kernels: valgrind does not know AVX-512.
"""

import argparse
import ctypes
import json
import mmap
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BOUNDS = Path(__file__).parent / "instructions.json"
SLACK = 1.05  # a change of 5 % is either meant, and then updated, or a mistake
OTHER_COMPILER = 1.3  # another compiler spends other instructions on the same source
ROWS, COLUMNS, TREES, DEPTH = 1024, 16, 40, 6


# -- the child ---------------------------------------------------------------------------------------------------
def make_model():
    """Complete trees of random splits, like those of boosting: thresholds near the middle, every leaf reached."""
    import numpy as np

    from treeinner.losses import find_loss
    from treeinner.read import Model
    from treeinner.read.trees import NodeValues, Trees
    from treeinner.rows.schema import Schema

    rng = np.random.default_rng(0)
    size, inner = 2 ** (DEPTH + 1) - 1, 2**DEPTH - 1  # nodes in the order of a heap: children behind parents
    n = TREES * size
    at = np.tile(np.arange(size), TREES)
    start = np.repeat(np.arange(TREES) * size, size)
    leaf = at >= inner
    value = np.where(leaf, rng.normal(size=n), 0.0)[:, None]
    node_value = np.where(leaf[:, None], value, rng.normal(size=(n, 1)) / 10)
    cuts = np.linspace(-1.5, 1.5, 100)
    column = np.where(leaf, -1, rng.integers(0, COLUMNS, n))
    trees = Trees(
        start=np.arange(TREES + 1) * size,
        output=np.zeros(TREES),
        round=np.arange(TREES),
        weight=np.ones(TREES),
        column=column,
        player=column,
        threshold=np.where(leaf, np.nan, rng.choice(cuts, n)),
        left=np.where(leaf, -1, start + 2 * at + 1),
        right=np.where(leaf, -1, start + 2 * at + 2),
        missing_left=rng.random(n) < 0.5,
        category_set=np.full(n, -1),
        set_start=np.zeros(1),
        set_codes=np.zeros(0),
        value=value,
        cover=2.0 ** (DEPTH - np.floor(np.log2(at + 1))),
        gain=np.zeros(n),
        leaf_id=np.where(leaf, at - inner, -1),
        base=np.zeros(1),
        player_features=tuple((j,) for j in range(COLUMNS)),
        n_features=COLUMNS,
        n_columns=COLUMNS,
        right_if="greater_equal",
        float32_input=True,
        node_values=NodeValues(node_value, np.full(TREES, 0.1)),
    )
    loss = find_loss(told=None, library="xgboost", name="reg:squarederror", params={}, n_outputs=1)
    schema = Schema(n_columns=COLUMNS, categorical=(False,) * COLUMNS)
    return Model(trees=trees, library="xgboost", schema=schema, find_loss=(loss, ""))


def calls():
    """Name -> what a user would call."""
    import numpy as np

    import treeinner as ti

    rng = np.random.default_rng(1)
    X = rng.standard_normal((ROWS, COLUMNS), dtype=np.float32)
    y = rng.standard_normal(ROWS)
    model = make_model()
    ask = {"score": "tree_inner", "n_jobs": 1}
    return {
        "predict": lambda: model.predict(X, n_jobs=1),
        "the default call": lambda: ti.importance(model, X, y, n_jobs=1),
        "scores": lambda: ti.importance(model, X, y, std_errors=False, **ask),
        "scores with errors": lambda: ti.importance(model, X, y, **ask),
        "loss breakdown": lambda: ti.importance(model, X, y, score="loss", n_jobs=1),
        "predecomp": lambda: ti.attribute(model, X, method="predecomp", n_jobs=1),
        "treeshap": lambda: ti.attribute(model, X, method="treeshap", n_jobs=1),
        "treeshap with errors": lambda: ti.importance(model, X, y, method="treeshap", **ask),
        "permutation": lambda: ti.permutation_importance(model, X, y, n_repeats=1, random_state=0, n_jobs=1),
    }


class Valgrind:
    """Requests to the valgrind that runs this process: the instructions of VALGRIND_DO_CLIENT_REQUEST on x86-64."""

    CODE = bytes.fromhex(
        "4889f8 31d2"  # rax = the request, rdx = 0, the answer where there is no valgrind
        "48c1c703 48c1c70d 48c1c73d 48c1c733"  # rotate rdi by 3, 13, 61, 51 bits: nothing, but valgrind knows it
        "4887db 4889d0 c3"  # xchg rbx, rbx, again nothing; return rdx
    )
    ZERO, DUMP_AT, START, STOP = ((ord("C") << 24 | ord("T") << 16) + i for i in (1, 3, 4, 5))  # callgrind.h

    def __init__(self):
        self.page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self.page.write(self.CODE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.page))
        self.function = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(address)

    def ask(self, request, text=b""):
        buffer = ctypes.create_string_buffer(text)
        words = (ctypes.c_uint64 * 6)(request, ctypes.addressof(buffer), 0, 0, 0, 0)
        return self.function(ctypes.addressof(words))


def child():
    valgrind, every = Valgrind(), calls()
    for call in every.values():
        call()  # whatever is made on first use
    for name, call in every.items():
        valgrind.ask(valgrind.START)
        valgrind.ask(valgrind.ZERO)
        call()
        valgrind.ask(valgrind.DUMP_AT, name.encode())
        valgrind.ask(valgrind.STOP)


# -- the parent --------------------------------------------------------------------------------------------------
def unavailable():
    """Why instructions cannot be counted here, or None."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "instructions are counted on Linux x86-64 only"
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    if "libasan" in os.environ.get("LD_PRELOAD", ""):
        return "valgrind does not run a program with sanitizers"
    flags = Path("/proc/cpuinfo").read_text()
    return None if " avx2" in flags else "this processor has no AVX2"


def in_core(dump):
    """Instructions of a callgrind file that lie in the _core module itself, without what it calls elsewhere."""
    names, inside, skip, total = {}, False, False, 0
    for line in dump.splitlines():
        found = re.match(r"(c?ob)=\((\d+)\)(?: (.*))?$", line)
        if found:
            kind, number, name = found.groups()
            if name is not None:
                names[number] = name
            if kind == "ob":
                inside = "_core" in Path(names[number]).name
        elif line.startswith("calls="):
            skip = True  # the next line is the cost of the function that is called
        elif line[:1].isdigit() or line[:1] in "+-*":
            cost = line.split()[1:]  # empty: nothing
            if inside and not skip and cost:
                total += int(cost[0])
            skip = False
    return total


def count():
    """Name -> instructions inside the core."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "counts"
        environment = os.environ | {
            "TREEINNER_ISA": "avx2", "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
        }  # fmt: skip
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
        ran = subprocess.run(
            [*command, sys.executable, __file__, "--child"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode:
            raise RuntimeError(f"the child under valgrind failed:\n{ran.stderr[-3000:]}")
        counts = {}
        for path in sorted(Path(folder).glob("counts.*"), key=lambda path: int(path.suffix[1:])):
            dump = path.read_text()
            named = re.search(r"^desc: Trigger: Client Request: (.*)$", dump, re.MULTILINE)
            if named:
                counts[named.group(1)] = in_core(dump)
        return counts


def compiler():
    """The compiler of the core, as it signed the module."""
    from treeinner import _core

    signed = re.search(rb"GCC: \([^)]*\) [\d.]+|clang version [\d.]+", Path(_core.__file__).read_bytes())
    return signed.group().decode() if signed else "unknown"


def bounds():
    """Name -> instructions that it may take with the compiler of this core."""
    stored = json.loads(BOUNDS.read_text())
    slack = SLACK if stored["compiler"] == compiler() else SLACK * OTHER_COMPILER
    return {name: int(n * slack) for name, n in stored["instructions"].items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child()
        return
    why = unavailable()
    if why:
        raise SystemExit(why)
    counts = count()
    per_row_and_tree = {name: n / ROWS / TREES for name, n in counts.items()}
    if arguments.update:
        BOUNDS.write_text(json.dumps({"compiler": compiler(), "instructions": counts}, indent=2) + "\n")
    allowed = bounds()
    for name, n in counts.items():
        print(f"{name:24} {n:12,}  at most {allowed.get(name, 0):12,}  {per_row_and_tree[name]:8.1f} per row and tree")


if __name__ == "__main__":
    main()
