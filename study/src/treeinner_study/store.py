"""Results on disk: one Parquet file per replication of a problem, and the table gathered from them.

A part is written to a temporary file and renamed, so it is there whole or not at all. It carries the identity of its
study (seed, process, settings, versions); parts of different studies are never mixed. The table is a function of the
parts alone, so a study that was killed and started again gives the same one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from treeinner_study.measure import Unit
from treeinner_study.names import Problem, StudyError

__all__ = ["COLUMNS", "Store", "read_meta"]

TEXT, INTEGER, NUMBER = "string", "int32", "float64"
COLUMNS = {
    "dataset": TEXT,
    "task": TEXT,
    "process": TEXT,
    "replication": INTEGER,
    "eta": NUMBER,
    "max_depth": INTEGER,
    "min_child_weight": NUMBER,
    "num_boost_round": INTEGER,
    "reg_lambda": NUMBER,
    "gfa": TEXT,
    "domain": TEXT,
    "ifa": TEXT,
    "auc": NUMBER,
    "auc_first10": NUMBER,
    "score_noisy": NUMBER,
    "score_signal": NUMBER,
    "risk": NUMBER,
    "error": NUMBER,
    "score_seconds": NUMBER,
    "train_seconds": NUMBER,
    "read_seconds": NUMBER,
    "alone_seconds": NUMBER,
}
KEY = tuple(COLUMNS)[: tuple(COLUMNS).index("auc")]  # what a row is about; rows are sorted by it
IDENTITY = ("seed", "process", "rounds", "sweep_replications", "settings", "versions")  # what makes two studies one


@dataclass(frozen=True)
class Store:
    """The folder of results, with the description of the study that may write there."""

    folder: Path
    meta: dict[str, Any]

    @property
    def parts(self) -> Path:
        """Folder of the parts."""
        return self.folder / "parts"

    @property
    def identity(self) -> str:
        """Fingerprint of what makes two studies one."""
        return _fingerprint(self.meta)

    @classmethod
    def open(cls, folder: Path, meta: dict[str, Any]) -> Store:
        """Make the folder, or go on in it if it holds a part of the same study.

        Times of earlier runs are carried on.
        """
        known = read_meta(folder)
        if known is not None:
            differing = [name for name in IDENTITY if known.get(name) != meta[name]]
            if differing:
                raise StudyError(
                    f"{folder} holds results with another {_spoken(differing[0], known, meta)}; choose another --out, "
                    "or delete that folder."
                )
            meta = {**meta, "started": known["started"], "wall_seconds": known["wall_seconds"]}
        store = cls(folder, meta)
        store.parts.mkdir(parents=True, exist_ok=True)
        store.write_meta()
        return store

    def path(self, problem: Problem, replication: int) -> Path:
        """File of one replication of a problem."""
        return self.parts / f"{problem.name}-{replication:03d}.parquet"

    def has(self, problem: Problem, replication: int) -> bool:
        """Whether a replication is there; refuses one of another study."""
        path = self.path(problem, replication)
        if not path.exists():
            return False
        try:
            stored = pyarrow.parquet.read_schema(path).metadata or {}
        except (OSError, ValueError) as error:  # not ours: we write whole files
            raise StudyError(f"{path} cannot be read as Parquet ({error}); delete it and start again.") from None
        if stored.get(b"identity") != self.identity.encode():
            raise StudyError(
                f"{path} was made with another seed, process, setting or version than {self.folder / 'meta.json'} "
                "says; choose another --out, or delete that file."
            )
        return True

    def write(self, problem: Problem, replication: int, unit: Unit) -> None:
        """Write one replication, whole or not at all."""
        rows = sorted(unit.rows, key=lambda row: tuple(row[name] for name in KEY))
        about = {
            "identity": self.identity,
            "cpu_seconds": repr(unit.cpu_seconds),
            "training_seconds": repr(unit.training_seconds),
        }
        fields = [(name, getattr(pyarrow, kind)()) for name, kind in COLUMNS.items()]
        columns = {name: [row[name] for row in rows] for name in COLUMNS}
        _write_table(pyarrow.table(columns, pyarrow.schema(fields, about)), self.path(problem, replication))

    def gather(self, units: Iterable[tuple[Problem, int]]) -> Path:
        """Put the parts of some replications together: results.parquet, and the CPU seconds into meta.json."""
        tables = [pyarrow.parquet.read_table(self.path(*unit)) for unit in units]
        for name in ("cpu_seconds", "training_seconds"):
            self.meta[name] = sum(float(table.schema.metadata[name.encode()]) for table in tables)
        whole = pyarrow.concat_tables([table.replace_schema_metadata(None) for table in tables])
        path = self.folder / "results.parquet"
        _write_table(whole.sort_by([(name, "ascending") for name in KEY]), path)
        self.write_meta()
        for left in (*self.folder.glob("*.tmp"), *self.parts.glob("*.tmp")):  # of runs that were killed
            left.unlink(missing_ok=True)
        return path

    def write_meta(self) -> None:
        """Write meta.json."""
        text = json.dumps(self.meta, indent=2) + "\n"
        temporary = self.folder / f"meta.json.{os.getpid()}.tmp"
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, self.folder / "meta.json")


def _write_table(table: Any, path: Path) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    pyarrow.parquet.write_table(table, temporary, compression="zstd")
    os.replace(temporary, path)


def read_meta(folder: Path) -> dict[str, Any] | None:
    """Return meta.json of a folder of results; None if there is none."""
    path = folder / "meta.json"
    if not path.exists():
        if any((folder / "parts").glob("*.parquet")):
            raise StudyError(f"{folder} holds parts of a study but no meta.json; delete it, or choose another --out.")
        return None
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StudyError(f"{path} is not JSON ({error}); delete {folder}, or choose another --out.") from None
    if not isinstance(meta, dict):
        raise StudyError(f"{path} does not describe a study; delete {folder}, or choose another --out.")
    return meta


def _fingerprint(meta: dict[str, Any]) -> str:
    text = json.dumps({name: meta[name] for name in IDENTITY}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _spoken(name: str, known: dict[str, Any], meta: dict[str, Any]) -> str:
    """Say what differs: "seed (1, now 0)"."""
    before, now = known.get(name), meta[name]
    if name == "sweep_replications":
        return f"number of replications of the sweeps ({before}, now {now})"
    if name == "settings":
        return f"set of settings ({len(before or ())}, now {len(now)}: --quick, --sweeps or --rounds)"
    if name == "versions" and isinstance(before, dict):
        name = next((part for part in now if before.get(part) != now[part]), name)
        before, now = before.get(name), now.get(name)
        return f"version of {name} ({before}, now {now})"
    return f"{name} ({before}, now {now})"
