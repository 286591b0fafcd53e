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
from benchmarks.ways import D_FF, SIZE, WAYS

IN_FLOAT32 = ("gpt2", "transformers_float32", "course_float32")


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
    """Seconds and steps of a training, bits per byte on both halves, peak GiB.

    How many steps fit into the seconds is tried on a tenth of them, since a CPU that
    prepares its products for each length that it meets gets faster as it goes on.
    "share" is the part of the machine's matrix peak that the training reached.
    """
    torch.set_num_threads(threads)
    stories = Stories(folder and Path(folder))
    fit = WAYS[way]
    fit(stories, rate, batch_size, 4)  # what a process does only once
    beginning = clocked(lambda: fit(stories, rate, batch_size, 4))[0]
    longer = clocked(lambda: fit(stories, rate, batch_size, 24))[0]
    per_step = (longer - beginning) / 20
    trial = max(24, round(seconds / per_step / 10))
    on_trial = clocked(lambda: fit(stories, rate, batch_size, trial))[0]
    steps = max(20, round(seconds * trial / on_trial))
    took, score = clocked(lambda: fit(stories, rate, batch_size, steps))
    batches = stories.batches(batch_size)
    shapes = [batches(step)[1].shape for step in range(steps)]
    tokens = sum(rows * length for rows, length in shapes)
    seen = sum(rows * length * (length + 1) / 2 for rows, length in shapes) / tokens
    work = operations_per_token(way, stories.tokenizer.vocab_size, seen)
    dtype = torch.float32 if way in IN_FLOAT32 else torch.bfloat16
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "took": took,
        "steps": steps,
        "tokens_per_second": tokens / took,
        "share": work * tokens / took / matrix_peak(dtype),
        "GiB": memory / 2**20,
        "choose": stories.bits_per_byte(score, "choose"),
        "report": stories.bits_per_byte(score, "report"),
    }


def operations_per_token(way: str, vocabulary: int, seen: float) -> float:
    """Multiplications and additions of a training step, for one token.

    Forward, a token meets every weight of a matrix once, and in each layer the keys and
    values of the `seen` positions at which it may look, on average: 2 operations each.
    Backward takes twice as many. Norms, softmax and the optimizer are not counted.
    """
    width, layers = SIZE["width"], SIZE["layers"]
    feedforward = 2 * 4 * width * width if way == "gpt2" else 3 * width * D_FF
    weights = vocabulary * width + layers * (4 * width * width + feedforward)
    attention = layers * 2 * width * seen
    return 3 * 2 * (weights + attention)


def matrix_peak(dtype: torch.dtype, size: int = 2048) -> float:
    """Operations per second of a large matrix product, the best of ten."""
    x = torch.randn(size, size).to(dtype)
    seconds = min(clocked(lambda: x @ x)[0] for _ in range(10))
    return 2 * size**3 / seconds


def clocked(function) -> tuple[float, object]:
    """The seconds that a call takes, and what it returns."""
    started = time.perf_counter()
    result = function()
    return time.perf_counter() - started, result


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
