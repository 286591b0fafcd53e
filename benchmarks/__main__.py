"""Measure how fast the course is, and print tables in Markdown.

python -m benchmarks [--data FOLDER] [--quick] [--only training decoding starting]
"""

import argparse
import importlib.util
import itertools
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import torch

from benchmarks import decoding
from benchmarks.training import trained
from benchmarks.ways import WAYS

RATES = {  # learning rates of the grid; a best one at an end is followed further
    "course": (0.004, 0.008, 0.016),
    "gpt2": (0.001, 0.002, 0.004),
    "transformers_bfloat16": (0.001, 0.002, 0.004),
    "transformers_float32": (0.001, 0.002, 0.004),
    "trainer": (0.001, 0.002, 0.004),
}
BATCH_SIZES = (8, 16)
BRIEF = 40  # seconds of a training that tries settings
LONG = {  # seconds of the trainings with the best settings
    "course": (75, 120, 150, 240),
    "gpt2": (600,),
    "transformers_bfloat16": (600,),
    "transformers_float32": (240,),
    "trainer": (240,),
}
STARTS = {
    "torch": "import torch",
    "torch and the teaching modules": "import torch; "
    "from course_utils import attention, blocks, config, decoding, models, positions",
}


def main() -> None:
    """Run what was asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with train.txt and valid.txt")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="only see that it runs")
    parts = ("training", "decoding", "starting")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print(f"{date.today()}, {platform.machine()}, {processor()}; torch", end=" ")
    print(f"{torch.__version__}, {given.threads} threads\n", flush=True)
    if "starting" in given.only:
        starting(1 if given.quick else 7)
    if "decoding" in given.only:
        decoded(1 if given.quick else 5)
    if "training" in given.only:
        training(given.data, given.threads, given.quick)


def processor() -> str:
    """The name of the CPU, where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.processor()


def starting(repeats: int) -> None:
    """Seconds until a new Python has imported the teaching modules."""
    seconds: dict[str, list[float]] = {name: [] for name in STARTS}
    for _ in range(repeats):
        for name, code in STARTS.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            seconds[name].append(time.perf_counter() - started)
    rows = [(name, statistics.median(one)) for name, one in seconds.items()]
    table("Importing", ("import", "seconds"), [(n, f"{s:.2f}") for n, s in rows])


def decoded(repeats: int) -> None:
    """Generation and translation: seconds, and the ratio to the first way."""
    parts = {
        "One story of 256 tokens": decoding.generation(1),
        "32 stories of 256 tokens": decoding.generation(32),
        "500 translations, beam search of width 4": decoding.translation(),
    }
    for title, ways in parts.items():
        seconds = decoding.compared(ways, repeats)
        first = next(iter(seconds.values()))
        rows = [(name, f"{s:.2f}", f"{first / s:.2f}") for name, s in seconds.items()]
        table(title, ("way", "seconds", "times as fast"), rows)


def training(folder: Path | None, threads: int, quick: bool) -> None:
    """Choose each way's settings, train the rivals long and the course briefly."""
    place = {"folder": folder, "threads": threads}
    ways = list(RATES)
    if importlib.util.find_spec("accelerate") is None:
        print("`trainer` needs the package accelerate, which is not here.\n")
        ways.remove("trainer")
    brief = 1 if quick else BRIEF
    settings = []
    long = []
    for way in ways:
        if quick:
            runs = [reported(trained(way, RATES[way][1], 8, brief, **place))]
        else:
            runs = explored(way, brief, place)
        best = min(runs, key=lambda run: run["choose"])
        settings += [row_of(run, run is best) for run in runs]
        for seconds in (1,) if quick else LONG[way]:
            chosen = best["rate"], best["batch_size"]
            long.append(row_of(reported(trained(way, *chosen, seconds, **place))))
    title = (
        f"Settings, {brief} seconds each, chosen on one half of the held-out stories"
    )
    table(title, HEADINGS, settings)
    table("The best of each, on the other half", HEADINGS, long)
    same = [
        row_of(reported(trained(way, 0.002, 16, brief, **place)))
        for way in WAYS
        if way in ways or way not in RATES
    ]
    table("Speed at equal settings", HEADINGS, same)


def explored(way: str, seconds: float, place: dict) -> list[dict]:
    """Runs of a grid, which grows while its best rate stands at an end."""
    rates = sorted(RATES[way])
    runs = [
        reported(trained(way, rate, size, seconds, **place))
        for rate, size in itertools.product(rates, BATCH_SIZES)
    ]
    while True:
        best = min(runs, key=lambda run: run["choose"])["rate"]
        if best not in (rates[0], rates[-1]):
            return runs
        rate = best / 2 if best == rates[0] else best * 2
        rates = sorted([*rates, rate])
        runs += [
            reported(trained(way, rate, size, seconds, **place)) for size in BATCH_SIZES
        ]


def reported(run: dict) -> dict:
    """The run; whoever waits sees its row."""
    print("  ".join(row_of(run)), file=sys.stderr, flush=True)
    return run


HEADINGS = (
    "way",
    "rate",
    "batch",
    "seconds",
    "steps",
    "tokens/s",
    "share of peak",
    "peak GiB",
    "bits/byte, choosing",
    "bits/byte, reported",
)


def row_of(run: dict, chosen: bool = False) -> tuple[str, ...]:
    """A run as a row of HEADINGS."""
    return (
        f"**{run['way']}**" if chosen else run["way"],
        f"{run['rate']:g}",
        str(run["batch_size"]),
        f"{run['took']:.0f}",
        str(run["steps"]),
        f"{run['tokens_per_second']:,.0f}",
        f"{run['share']:.0%}",
        f"{run['GiB']:.2f}",
        f"{run['choose']:.3f}",
        f"{run['report']:.3f}",
    )


def table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table in Markdown."""
    print(f"### {title}\n")
    print("| " + " | ".join(headings) + " |")
    print("|" + "---|" * len(headings))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


if __name__ == "__main__":
    main()
