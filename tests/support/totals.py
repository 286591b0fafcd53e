"""How large the project is: lines of code, part by part. Knows patterns of paths."""

from tools.notebook_environment import ROOT

PARTS = {
    "course_utils": ("course_utils/**/*.py",),
    "known_worlds": ("packages/known_worlds/*.py",),
    "grammars": ("packages/known_worlds/*.toml", "packages/known_worlds/*.txt"),
    "attention_views": tuple(
        f"packages/attention_views/**/*.{kind}"
        for kind in ("py", "js", "css", "html", "wat")
    ),
    "lesson_plots": ("packages/lesson_plots/*.py",),
    "bug_clinic": ("packages/bug_clinic/*.py",),
    "named_mistakes": ("packages/named_mistakes/*.py",),
    "nbval_strict": ("packages/nbval_strict/**/*.py",),
    "tools": ("tools/*.py",),
    "benchmarks": ("benchmarks/*.py",),
    "exercises": ("notebooks/exercises/*.py",),
    "tests": ("tests/**/*.py",),
    "test data": tuple(f"tests/**/*.{kind}" for kind in ("json", "jsonl", "txt")),
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
