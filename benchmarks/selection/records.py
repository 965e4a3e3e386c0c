"""Results of a long run, a line of JSON each: a run that was interrupted continues where it stopped."""

import json
import time


def load(path):
    """{key: record}; a line that was cut off is left out."""
    out = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        out[tuple(record.pop("key"))] = record
    return out


def add(path, jobs, done, measure, minutes):
    """Add a line for each job that is not done: measure(*job). Stops after so many minutes, behind the job of then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60 * minutes
    with path.open("a") as file:
        file.write("\n")  # after a line that was cut off
        for key in jobs:
            if key in done:
                continue
            if time.monotonic() > until:
                return
            file.write(json.dumps({"key": key, **measure(*key)}) + "\n")
            file.flush()
