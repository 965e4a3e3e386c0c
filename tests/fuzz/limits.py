"""Limits of a process that handles mutants: processor time for each, memory for all."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 10  # of processor time for one mutant: a busy machine is no failure
MEMORY = 3 * 2**30  # more than the process has when it begins


@contextmanager
def limited(seconds: float | None = None) -> Iterator[None]:
    """End the process by SIGPROF, also inside C, if this takes longer than SECONDS."""
    signal.setitimer(signal.ITIMER_PROF, seconds or SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def limit_memory() -> None:
    """Let the process have MEMORY more than it has now."""
    with open("/proc/self/statm") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, resource.RLIM_INFINITY))  # a child may set its own
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
