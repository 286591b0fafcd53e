"""Recorded runs: names, places and scripts that cannot be recorded or loaded."""

PREPARE = """
import tempfile
from pathlib import Path
from course_utils.training.records import *

folder = tempfile.TemporaryDirectory()
root = Path(folder.name)
place = root / "notebooks" / "records"
place.mkdir(parents=True)


def script(name, text):
    (place / f"{name}.py").write_text(text)
    return name


run = "def run(n): return n\\n"
(place / "nb90_broken.json").write_text("{")
line = Record(
    date="2026-01-02", seconds=70.0, cores=2, threads=1, versions={"torch": "2.0"},
    seeds=[0], files={}, results=[{"point": {"n": 1}, "numbers": {"loss": 2.0}}],
)
"""

CALLS = {
    "load_record(17)": "TypeError name str int",
    "load_record('scaling')": "ValueError name nb17_scaling 'scaling'",
    "load_record('../nb17_scaling')": "ValueError name nb17_scaling",
    "load_record('nb99_none')": "FileNotFoundError name nb99_none.json make record",
    "load_record('nb17_scaling', 'here')": "TypeError root Path 'here'",
    "load_record('nb90_broken', root)": "ValueError nb90_broken.json make record NB=90",
    "load_script(None)": "TypeError name str None",
    "load_script('nb17')": "ValueError name nb17_scaling 'nb17'",
    "load_script('nb99_none')": "FileNotFoundError name nb99_none.py",
    "load_script(script('nb90_a', run), root)": "TypeError nb90_a.POINTS list None",
    "load_script(script('nb90_b', 'POINTS = []\\nSEEDS = []\\n' + run), root)": (
        "ValueError nb90_b.POINTS at least one none"
    ),
    "load_script(script('nb90_c', 'POINTS = [7]\\nSEEDS = []\\n' + run), root)": (
        "TypeError nb90_c.POINTS[0] dict 7"
    ),
    "load_script(script('nb90_d', 'POINTS = [{}]\\n' + run), root)": (
        "TypeError nb90_d.SEEDS list None"
    ),
    "load_script(script('nb90_e', 'POINTS = [{}]\\nSEEDS = [0]\\n'), root)": (
        "TypeError nb90_e.run callable None"
    ),
    "check_record('nb99_none')": "FileNotFoundError name nb99_none.json",
    "check_record(3.0)": "TypeError name str 3.0",
    "make_record('nb17_scaling', cores=0)": "ValueError cores 1 0",
    "make_record('nb17_scaling', cores=1.5)": "TypeError cores integer 1.5",
    "make_record('nb99_none')": "FileNotFoundError name nb99_none.py",
    "line.numbers(n=2)": "ValueError point {'n': 1} {'n': 2}",
    "line.numbers()": "ValueError point {'n': 1} {}",
}
