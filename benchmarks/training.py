"""One training in a process of its own, so that its memory and threads are its own.

python -m benchmarks.training '{"way": "course", "rate": 0.008, ...}'
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

from benchmarks.stories import Stories
from benchmarks.ways import WAYS


def trained(
    way: str,
    rate: float,
    batch_size: int,
    seconds: float,
    *,
    folder: Path | None,
    threads: int,
) -> dict:
    """Train one way for about so many seconds; returns what `measure` found.

    The schedule is fitted to the number of steps that the machine does in that time.
    """
    asked = {
        "way": way,
        "rate": rate,
        "batch_size": batch_size,
        "seconds": seconds,
        "folder": folder and str(folder),
        "threads": threads,
    }
    command = [sys.executable, "-m", "benchmarks.training", json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{way} failed:\n{done.stderr}")
    return asked | json.loads(done.stdout.splitlines()[-1])


def measure(
    way: str,
    rate: float,
    batch_size: int,
    seconds: float,
    folder: str | None,
    threads: int,
) -> dict:
    """Seconds and steps of a training, bits per byte on both halves, peak GiB."""
    torch.set_num_threads(threads)
    stories = Stories(folder and Path(folder))
    fit = WAYS[way]
    fit(stories, rate, batch_size, 4)  # what a process does only once
    beginning = clocked(lambda: fit(stories, rate, batch_size, 4))[0]
    longer = clocked(lambda: fit(stories, rate, batch_size, 24))[0]
    per_step = (longer - beginning) / 20
    steps = max(20, round(seconds / per_step))
    took, score = clocked(lambda: fit(stories, rate, batch_size, steps))
    batches = stories.batches(batch_size)
    tokens = sum(batches(step)[1].numel() for step in range(steps))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "took": took,
        "steps": steps,
        "tokens_per_second": tokens / took,
        "GiB": peak / 2**20,
        "choose": stories.bits_per_byte(score, "choose"),
        "report": stories.bits_per_byte(score, "report"),
    }


def clocked(function) -> tuple[float, object]:
    """The seconds that a call takes, and what it returns."""
    started = time.perf_counter()
    result = function()
    return time.perf_counter() - started, result


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
