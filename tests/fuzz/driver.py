"""Runs mutants in child processes: one handles thousands, and a new one goes on where it died."""

import json
import os
import select
import signal
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.fuzz.formats import FORMATS, mutant
from tests.fuzz.library import receive, send
from tests.fuzz.limits import limit_memory, limited
from tests.fuzz.seeds import ROOT, digest, seeds

FOLDER = ROOT / "build" / "fuzz"
PER_CHILD = 20_000  # then a new one, so that what leaks is not taken for what a mutant needs
PATIENCE = 120  # seconds by the clock without a word, after which a child is stopped
KEPT = 1000  # numbers of mutants that are kept of each kind of failure


@dataclass
class State:
    """How far a run of one format has come; a file of JSON."""

    format: str
    seed: int
    digest: str
    next: int = 0
    seconds: float = 0.0
    ends: dict[str, int] = field(default_factory=dict)
    library: dict[str, int] = field(default_factory=dict)
    methods_refused: int = 0
    failures: dict[str, dict[str, Any]] = field(default_factory=dict)  # signature -> count, numbers, message
    slowest: tuple[float, int] = (0.0, -1)

    @property
    def n_failures(self) -> int:
        return sum(one["count"] for one in self.failures.values())

    def fail(self, number: int, signature: str, message: str) -> None:
        one = self.failures.setdefault(signature, {"count": 0, "numbers": [], "message": message})
        one["count"] += 1
        one["numbers"] = (one["numbers"] + [number])[:KEPT]

    def take(self, answer: dict[str, Any]) -> None:
        """Count what a child says of a mutant."""
        if "signature" in answer:
            self.fail(answer["number"], answer["signature"], answer["message"])
        else:
            self.ends[answer["end"]] = self.ends.get(answer["end"], 0) + 1
            if answer["asked"]:
                self.library[answer["asked"]] = self.library.get(answer["asked"], 0) + 1
            self.methods_refused += answer["methods_refused"] > 0
        self.slowest = max(self.slowest, (answer["seconds"], answer["number"]))
        self.next = answer["number"] + 1

    @classmethod
    def load(cls, format: str, seed: int, folder: Path, *, fresh: bool) -> "State":
        path, now = folder / f"{format}-{seed}.json", digest(format)
        if fresh or not path.exists():
            return cls(format, seed, now)
        state = cls(**json.loads(path.read_text()))
        state.slowest = tuple(state.slowest)
        if state.digest != now:
            raise SystemExit(
                f"{path} is of other seeds, so its numbers mean other mutants; pass --fresh to begin again."
            )
        return state

    def save(self, folder: Path) -> None:
        path = folder / f"{self.format}-{self.seed}.json"
        path.with_suffix(".new").write_text(json.dumps(asdict(self), indent=1))
        path.with_suffix(".new").replace(path)


def run(state: State, stop: int, seconds: float, folder: Path = FOLDER) -> None:
    """Go on until mutant `stop`, or until the time is up."""
    end, saved = time.monotonic() + seconds, time.monotonic()
    while state.next < stop and time.monotonic() < end:
        start = time.monotonic()
        last = min(stop, state.next + PER_CHILD)
        for answer in answers(state.format, range(state.next, last), state.seed, folder):
            state.take(answer)
            if time.monotonic() - saved > 5:
                saved = time.monotonic()
                state.save(folder)
            if time.monotonic() > end:
                break
        state.seconds += time.monotonic() - start
        state.save(folder)


def retry(state: State, folder: Path = FOLDER) -> None:
    """Run the mutants that failed once more; what fails no longer is counted as what it is now."""
    went_on, numbers = state.next, sorted(n for one in state.failures.values() for n in one["numbers"])
    state.failures = {}
    for answer in answers(state.format, numbers, state.seed, folder):
        state.take(answer)
    state.next = went_on
    state.save(folder)


def answers(format: str, numbers: Iterable[int], seed: int, folder: Path = FOLDER) -> Any:
    """What children say of these mutants; where one dies, that it did."""
    seeds(format)
    readers = [f"treeinner.readers.{name}" for name in ("xgboost", "lightgbm", "catboost")]
    for name in filter(None, ["tests.fuzz.judge", FORMATS[format].library, *readers]):
        import_module(name)  # here, and not once more in every child, which may find that somebody edited it
    todo = list(numbers)
    while todo:
        pid, pipe = child(format, todo, seed, folder)
        how = "did not answer"
        try:
            while todo and select.select([pipe], [], [], PATIENCE)[0]:
                answer = receive(pipe)
                del todo[0]
                yield answer
        except EOFError:
            how = ""
        finally:
            os.close(pipe)
            if not how:
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            else:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        if todo:
            if not how:
                how = f"died by {signal.Signals(-code).name}" if code < 0 else f"left with code {code}"
            if how.endswith("SIGPROF"):
                how = "took too long"
            yield {"number": todo.pop(0), "signature": f"the process {how}", "message": "", "seconds": 0.0}


def child(format: str, numbers: list[int], seed: int, folder: Path) -> tuple[int, int]:
    """Start a process that handles these mutants; its id, and where it answers."""
    back, there = os.pipe()
    pid = os.fork()
    if pid:
        os.close(there)
        return pid, back
    os.close(back)
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        work(format, numbers, seed, folder, there)
    except BrokenPipeError:
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def work(format: str, numbers: list[int], seed: int, folder: Path, there: int) -> None:
    from tests.fuzz.judge import Judge

    memory = Path("/dev/shm")  # a file system without a disk
    path = (memory if memory.is_dir() else folder) / f"treeinner-mutant-{os.getpid()}"
    judge = Judge(format, FORMATS[format].library, path)
    try:
        for source in seeds(format):  # which also loads what is loaded at its first use, before memory is limited
            assert judge(source, source.data).end != "refused", f"{source.name} is refused without any damage"
        limit_memory()
        for number in numbers:
            start = time.process_time()
            send(
                there, handled(judge, format, number, seed) | {"number": number, "seconds": time.process_time() - start}
            )
    finally:
        path.unlink(missing_ok=True)


def handled(judge: Any, format: str, number: int, seed: int) -> dict[str, Any]:
    """How one mutant ended; a failure has a signature, which failures of one cause share."""
    source, damages, data = mutant(format, number, seed)
    try:
        with limited():
            return asdict(judge(source, data))
    except BaseException as error:
        message = f"{source.name}, {damages}: {error!r}"[:1000]
        return {"signature": signature(error), "message": message}


def signature(error: BaseException) -> str:
    """Type of an error, and the last line of ours that it passed."""
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if "/treeinner/" in f.filename or "/tests/" in f.filename
    ]
    last = next((f for f in reversed(frames) if "/treeinner/" in f.filename), frames[-1] if frames else None)
    where = f" at {Path(last.filename).parent.name}/{Path(last.filename).name}:{last.lineno}" if last else ""
    detail = f" ({str(error).split(':')[0][:60]})" if isinstance(error, AssertionError) else ""
    return f"{type(error).__name__}{where}{detail}"


def summary(state: State) -> str:
    """Counts of a run, on a few lines."""
    ends = Counter(state.ends)
    lines = [
        f"{state.format}: {state.next:,} mutants in {state.seconds:,.0f} s: {ends['right']:,} read and right, "
        f"{ends['refused']:,} refused, {ends['unused']:,} read but not used, {state.n_failures:,} failures; "
        f"{state.methods_refused:,} of the first with a method or score refused; slowest {state.slowest[0]:.2f} s "
        f"(mutant {state.slowest[1]})"
    ]
    if state.library:
        counts = ", ".join(f"{name} {n:,}" for name, n in sorted(state.library.items()))
        lines.append(f"  the library: {counts}")
    for name, one in sorted(state.failures.items(), key=lambda item: -item[1]["count"]):
        lines.append(f"  {one['count']:>6,}  {name}\n          e.g. {one['numbers'][:3]} {one['message'][:250]}")
    return "\n".join(lines)
