"""What the library that wrote a format says of a mutant: its margins, from a process that may crash."""

import os
import pickle
import re
import struct
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.limits import limit_memory, limited
from tests.fuzz.seeds import Seed

__all__ = ["Library"]

PATIENCE = 1  # seconds of processor time for the library to load and predict a mutant


def margins(library: str, path: str, X: Any) -> tuple[np.ndarray, int]:
    """Margins by the library itself, (rows, outputs), and how many rounds they are of."""
    if library == "xgboost":
        import xgboost as xgb

        booster = xgb.Booster({"nthread": 1})
        booster.load_model(bytearray(Path(path).read_bytes()))
        table = xgb.DMatrix(X, enable_categorical=True, nthread=1) if hasattr(X, "columns") else None
        if table is None:
            found = booster.inplace_predict(X, predict_type="margin", validate_features=False)
        else:
            found = booster.predict(table, output_margin=True, validate_features=False)
        return np.asarray(found, np.float64).reshape(len(X), -1), 1
    if library == "lightgbm":
        import lightgbm as lgb

        forest = lgb.Booster(model_file=path)
        found = forest.predict(X, raw_score=True, num_threads=1)
        return np.asarray(found, np.float64).reshape(len(X), -1), forest.current_iteration()
    import catboost

    model = catboost.CatBoost()
    model.load_model(path, format="cbm" if Path(path).read_bytes()[:4] == b"CBM1" else "json")
    return np.asarray(model.predict(X, thread_count=1), np.float64).reshape(len(X), -1), 1


class Library:
    """A process that answers; a new one after each crash."""

    def __init__(self, name: str) -> None:
        self.name, self.pid, self.asked = name, 0, False
        import_module(name)  # not once more in every process

    def is_older_than(self, seed: Seed) -> bool:
        """Whether a newer version wrote the seed: an older one may read it wrongly, and not say so."""
        written = re.search(r"golden-\w+-([\d.]+)-", seed.name)
        return written is not None and parts(written[1]) > parts(import_module(self.name).__version__)

    def ask(self, path: Path, X: Any) -> None:
        """Ask about a file, which must stay as it is until the answer."""
        if self.asked:  # what came in between failed
            self.answer()
        if not self.pid:
            self.start()
        with suppress(BrokenPipeError):  # the answer tells
            send(self.to, (str(path), X))
        self.asked = True

    def answer(self) -> tuple[str, Any]:
        """("margins", (margins, rounds)), ("refused", why) or ("crashed", how)."""
        self.asked = False
        try:
            return receive(self.back)
        except EOFError:
            return "crashed", self.end()

    def start(self) -> None:
        (child_in, self.to), (self.back, child_out) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(child_in)
            os.close(child_out)
            return
        os.close(self.to)
        os.close(self.back)
        try:
            serve(self.name, child_in, child_out)
        finally:
            os._exit(0)

    def end(self) -> int:
        os.close(self.to)
        os.close(self.back)
        status = os.waitpid(self.pid, 0)[1]
        self.pid = 0
        return os.waitstatus_to_exitcode(status)


def serve(library: str, incoming: int, outgoing: int) -> None:
    """Answer until nobody asks any more."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    limit_memory()
    while True:
        try:
            path, X = receive(incoming)
        except EOFError:
            return
        try:
            with limited(PATIENCE):
                answer = "margins", margins(library, path, X)
        except Exception as error:
            answer = "refused", f"{type(error).__name__}: {error}"[:300]
        send(outgoing, answer)


def parts(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:3] if part.isdigit()]


def send(pipe: int, item: Any) -> None:
    raw = pickle.dumps(item)
    raw = struct.pack("<q", len(raw)) + raw
    while raw:
        raw = raw[os.write(pipe, raw) :]


def receive(pipe: int) -> Any:
    return pickle.loads(exactly(pipe, struct.unpack("<q", exactly(pipe, 8))[0]))


def exactly(pipe: int, n: int) -> bytes:
    parts = []
    while n:
        part = os.read(pipe, n)
        if not part:
            raise EOFError
        parts.append(part)
        n -= len(part)
    return b"".join(parts)
