"""Damaged model files: whatever the bytes, an answer or one of our errors; no crash, no hang, bounded memory.

    python -m tests.fuzz --mutants 2000 --seed 1      of each format; exit status 1 if one fails, and it is saved
    python -m tests.fuzz --seed 1 --format ubj --first 731 --mutants 1      that mutant again

A mutant is made of a golden file, its number and the seed alone. Workers take many of them, one after the other, under
a limit of memory; one that crashes or takes too long costs its worker, and another one goes on behind it.
"""

import argparse
import copy
import json
import multiprocessing
import os
import re
import signal
import struct
import sys
import tempfile
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np

import treeinner as ti
from treeinner import errors
from treeinner.read import ubjson

ROOT = Path(__file__).parent.parent
GOLDEN, KEPT = ROOT / "tests" / "golden", ROOT / "build" / "fuzz"
FORMATS = ("json", "ubj", "txt")
ALLOWED = (
    errors.DataError, errors.MissingDependencyError, errors.ModelError, errors.UnknownParameterError,
    errors.UnsupportedModelError,
)  # fmt: skip
SECONDS, BYTES = 20, 2 << 30  # for one mutant; of a worker's address space
CHUNK = 250  # mutants of a worker
MOST_COLUMNS = 10_000  # of the rows that are made for a mutant
NUMBERS = (0, 1, -1, 2, 7, 255, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, 0.5, -0.0, 1e-320, 3e38, 1e308)
VALUES = (*NUMBERS, float("nan"), float("inf"), None, True, "", "x", "nan", "1e999", "-3", [], {}, [0] * 50)


# -- files that are damaged ---------------------------------------------------------------------------------------
@cache
def sources(form):
    """Bytes of the golden files that mutants of a format are made of; models in UBJSON are documents of JSON too."""
    endings = {"json": (".json", ".ubj"), "ubj": (".ubj",), "txt": (".txt",)}[form]
    return [path.read_bytes() for path in sorted(GOLDEN.glob("*-*/*")) if path.suffix in endings]


def pick(rng, items):
    """One of some items; a copy, which may be changed."""
    return copy.copy(items[int(rng.integers(len(items)))])


def mutant(form, seed, number):
    """Bytes of one mutant."""
    rng = np.random.default_rng([seed, FORMATS.index(form), number])
    data = pick(rng, sources(form))
    if rng.random() < 0.25:
        return damage_bytes(rng, data)
    if form == "txt":
        data = damage_lines(rng, data)
    else:
        document = ubjson.parse(data) if data[1:2] == b"L" else json.loads(data)
        for _ in range(int(rng.integers(1, 4))):
            damage_document(rng, document)
        data = json.dumps(document, default=np.ndarray.tolist).encode() if form == "json" else as_ubjson(document)
    return damage_bytes(rng, data) if rng.random() < 0.1 else data


def damage_bytes(rng, data):
    """Flip, cut, repeat, overwrite or insert a few bytes."""
    for _ in range(int(rng.integers(1, 4))):
        at, n = int(rng.integers(len(data) + 1)), int(rng.integers(1, 20))
        random = rng.integers(0, 256, n, dtype=np.uint8).tobytes()
        flipped = bytes(byte ^ (1 << int(rng.integers(8))) for byte in data[at : at + 1])
        middle, rest = pick(
            rng, [(b"", b""), (b"", data[at + n :]), (data[at : at + n], data[at:]), (random, data[at:]),
                  (random, data[at + n :]), (flipped, data[at + 1 :])],
        )  # fmt: skip
        data = data[:at] + middle + rest
    return data


def damage_lines(rng, data):
    """Drop, repeat or move lines of LightGBM's text, or change a number in one."""
    lines = data.split(b"\n")
    for _ in range(int(rng.integers(1, 4))):
        i, j = (int(rng.integers(len(lines))) for _ in range(2))
        what = int(rng.integers(12))
        if what == 0 and len(lines) > 1:
            del lines[i]
        elif what == 1:
            lines.insert(j % (len(lines) + 1), lines[i])
        elif what == 2 and i < len(lines) and j < len(lines):
            lines[i], lines[j] = lines[j], lines[i]
        elif i < len(lines):
            lines[i] = damage_numbers(rng, lines[i])
    return b"\n".join(lines)


def damage_numbers(rng, line):
    """Change, drop or repeat one of the numbers in a line."""
    found = list(re.finditer(rb"-?[\d.]+(?:e[-+]?\d+)?", line))
    if not found:
        return line + b" 1"
    one = pick(rng, found)
    new = pick(rng, [str(pick(rng, VALUES)).encode(), b"", one.group() + b" " + one.group(), b"-" + one.group()])
    return line[: one.start()] + new + line[one.end() :]


def places(document):
    """Every (container, key) of a document."""
    found, waiting = [], [document]
    while waiting:
        inside = waiting.pop()
        for key in list(inside) if isinstance(inside, dict) else range(len(inside)):
            found.append((inside, key))
            if isinstance(inside[key], dict | list):
                waiting.append(inside[key])
    return found


def damage_document(rng, document):
    """Drop, replace, nest or copy one value of a document, or change a number of an array, in place."""
    everywhere = places(document)
    if not everywhere:
        return
    inside, key = pick(rng, everywhere)
    value = inside[key]
    if isinstance(value, np.ndarray | list) and len(value) and rng.random() < 0.85:
        inside[key] = damaged_array(rng, list(value) if isinstance(value, list) else value.copy())
        return
    what = int(rng.integers(6))
    if what == 0:
        del inside[key]
    elif what == 1:
        elsewhere, other = pick(rng, everywhere)
        inside[key] = elsewhere[other] if not isinstance(elsewhere[other], dict | list) else pick(rng, VALUES)
    elif what == 2:
        inside[key] = [value]
    else:
        inside[key] = str(pick(rng, VALUES)) if isinstance(value, str) else pick(rng, VALUES)


def damaged_array(rng, values):
    """An array with one item more, less or changed, or of another type."""
    at, what = int(rng.integers(len(values))), int(rng.integers(9))
    if what == 0:
        return values[:at]
    if what == 1:
        return values[:at] if isinstance(values, list) else np.concatenate([values, values[at:]])
    if what == 2 and isinstance(values, np.ndarray):
        return values.astype(pick(rng, [">f4", ">f8", ">i4", ">i8", ">i1", ">u1"]))
    new = pick(rng, NUMBERS) if rng.random() < 0.5 else int(rng.integers(-3, len(values) + 3))
    with np.errstate(all="ignore"):
        if not isinstance(values[at], dict | list):
            values[at] = new if isinstance(values, list) else np.array(new).astype(values.dtype)
    return values


def as_ubjson(value):
    """A value in UBJSON, as XGBoost writes it."""
    if isinstance(value, dict):
        return b"{" + b"".join(as_ubjson(str(key))[1:] + as_ubjson(item) for key, item in value.items()) + b"}"
    if isinstance(value, np.ndarray):
        mark = next(bytes([mark]) for mark, dtype in ubjson.DTYPES.items() if dtype == value.dtype.newbyteorder(">"))
        return b"[$" + mark + b"#" + as_ubjson(len(value)) + value.tobytes()
    if isinstance(value, list):
        return b"[#" + as_ubjson(len(value)) + b"".join(map(as_ubjson, value))
    if isinstance(value, str):
        return b"S" + as_ubjson(len(value.encode())) + value.encode()
    if isinstance(value, int) and not isinstance(value, bool):
        return b"L" + struct.pack(">q", value)
    if isinstance(value, float):
        return struct.pack(">cd", b"D", value)
    return {None: b"Z", True: b"T", False: b"F"}[value]


# -- what is asked of a mutant --------------------------------------------------------------------------------------
def try_out(path):
    """Read a file; if that works, predict and score a few rows. Raises what must not come out."""
    try:
        model = ti.read_model(path)
        if model.schema.n_columns > MOST_COLUMNS:
            return
        X = np.resize(np.load(GOLDEN / "data.npz")["X"], (6, model.schema.n_columns))
        if not np.isfinite(model.predict(X, n_jobs=1)).all():
            raise AssertionError("a prediction is not finite")
        y = np.squeeze(np.tile(np.arange(6)[:, None] % 2, (1, model.trees.width)))
        ti.importance(model, X, y, n_jobs=1)
        ti.attribute(model, X, method="treeshap", n_jobs=1)
    except ALLOWED:
        pass


def work(form, seed, first, stop, to_parent):
    """Try mutants in a process of its own: tell the number of each before it, and what is wrong with it."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    warnings.simplefilter("ignore")
    sys.modules["catboost"] = None  # not installed: it opens files of categorical models itself, and may crash on them
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"mutant.{form}"
        for number in range(first, stop):
            to_parent.send(number)
            path.write_bytes(mutant(form, seed, number))
            signal.alarm(SECONDS)  # ends the process, whatever it is doing, unless the next mutant comes before
            try:
                try_out(path)
            except BaseException:
                to_parent.send((number, traceback.format_exc(limit=-3)))


def run(form, seed, first, stop):
    """Try a range of mutants: (format, number, what is wrong with it) of those that failed."""
    context, failed = multiprocessing.get_context("forkserver"), []
    context.set_forkserver_preload(["treeinner.score", "treeinner.explain", "treeinner.read.xgboost"])
    while first < stop:
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(form, seed, first, stop, send))
        process.start()
        send.close()
        try:
            while True:
                told = receive.recv()
                if isinstance(told, int):
                    first = told + 1
                else:
                    failed.append((form, *told))
        except EOFError:
            process.join()
        if process.exitcode:
            failed.append((form, first - 1, f"its process ended with status {process.exitcode}"))
    return failed


def fuzz(mutants, seed, *, formats=FORMATS, first=0, jobs=None):
    """Try mutants of each format: those that failed."""
    ends = range(first, first + mutants, CHUNK)
    ranges = [(form, seed, start, min(start + CHUNK, first + mutants)) for start in ends for form in formats]
    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        return [each for found in pool.map(lambda part: run(*part), ranges) for each in found]


def main():
    """Try mutants, and save those that fail."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=2000, help="of each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--format", choices=FORMATS, help="of this format only")
    asked = parser.parse_args()
    formats = (asked.format,) if asked.format else FORMATS
    failed = fuzz(asked.mutants, asked.seed, formats=formats, first=asked.first)
    KEPT.mkdir(parents=True, exist_ok=True)
    for form, number, why in failed:
        kept = KEPT / f"{asked.seed}-{number}.{form}"
        kept.write_bytes(mutant(form, asked.seed, number))
        print(f"--seed {asked.seed} --format {form} --first {number} --mutants 1, saved as {kept}:\n{why}")
    print(f"{asked.mutants:,} mutants of {', '.join(formats)}, seed {asked.seed}: {len(failed)} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
