"""Checks that name the mistake. A notebook says:

from named_mistakes import check, hint, solution
"""

from named_mistakes.banks import use
from named_mistakes.checking import examine
from named_mistakes.exercise import Exercise, Mistake
from named_mistakes.report import Report
from named_mistakes.session import case, check, hint, progress, solution

__all__ = ["Exercise", "Mistake", "Report", "case", "check", "examine", "hint"]
__all__ += ["progress", "solution", "use"]
