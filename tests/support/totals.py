"""How large the project is: lines of code, part by part."""

from tests.support.notebook_environment import ROOT

PARTS = {
    "core": ("course_utils/*.py",),
    "training": ("course_utils/training/*.py",),
    "looking": ("course_utils/looking/*.py",),
    "views": ("packages/attention_views/*.*",),
    "data": ("course_utils/data/*.py",),
    "worlds": ("packages/known_worlds/*.py",),
    "grammars": ("packages/known_worlds/*.toml", "packages/known_worlds/*.txt"),
    "judge": ("packages/named_mistakes/*.py",),
    "benchmarks": ("benchmarks/*.py",),
    "exercises": ("notebooks/exercises/*.py",),
    "tests": ("tests/**/*.py",),
}


def totals():
    """{part: lines}"""
    return {
        part: sum(
            len(path.read_text("utf-8").splitlines())
            for pattern in patterns
            for path in ROOT.glob(pattern)
        )
        for part, patterns in PARTS.items()
    }
