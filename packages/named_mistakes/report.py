"""The report on a check, as plain text and as HTML. Knows nothing of exercises."""

import html
import re
import sys
from dataclasses import dataclass

SIGNS = {
    "not tried": "○",
    "right": "✓",
    "stage": "…",
    "hint": "→",
    "solution": "=",
    "progress": "=",
}
COLORS = {
    "not tried": "#888888",
    "right": "#009E73",
    "stage": "#009E73",
    "hint": "#E69F00",
}
WRONG, QUIET = "#D55E00", "#56B4E9"  # Okabe and Ito: safe for color-blind readers


@dataclass(frozen=True)
class Report:
    """What one call of `check`, `hint`, `solution` or `progress` shows.

    status: "not tried", "right", "stage" (right so far), "mistake", "error",
    "different", "changed", "hint", "solution" or "progress". mistake: the name of the
    known mistake, if there is one.
    lines: sentences, with `code` and *emphasis*. code: lines in a fixed-width font.
    case: which of the cases the report is about. step: at which a hint then begins.
    """

    status: str
    title: str
    lines: tuple[str, ...] = ()
    code: str = ""
    mistake: str | None = None
    case: int = 0
    step: int = 0

    @property
    def text(self) -> str:
        """The report as plain text."""
        sign = SIGNS.get(self.status, "✗")
        code = [f"    {line}" for line in self.code.splitlines()]
        rest = [f"  {part}" for line in self.lines for part in line.splitlines()]
        return "\n".join([f"{sign} {self.title}", *code, *rest])

    @property
    def html(self) -> str:
        """The report as a box of HTML that is legible on light and dark pages."""
        quiet = QUIET if self.status in ("solution", "progress") else WRONG
        color = COLORS.get(self.status, quiet)
        head = f"{SIGNS.get(self.status, '✗')} <b>{html.escape(self.title)}</b>"
        code = f"<pre>{html.escape(self.code)}</pre>" if self.code else ""
        rest = "".join(f"<div>{_formatted(line)}</div>" for line in self.lines)
        style = f"border-left: 4px solid {color}; padding: 2px 10px; margin: 4px 0"
        return f'<div style="{style}">{head}{code}{rest}</div>'

    def show(self) -> None:
        """Display the HTML in a notebook; print the text anywhere else."""
        ipython = sys.modules.get("IPython")  # a notebook has imported it
        if ipython is None or ipython.get_ipython() is None:
            print(self.text)
            return
        from IPython.display import display

        display({"text/plain": self.text, "text/html": self.html}, raw=True)


def _formatted(line):
    """A line of plain text as HTML: `code` and *emphasis* become tags."""
    line = html.escape(line).replace("\n", "<br>")
    line = re.sub(r"`([^`]+)`", r"<code>\1</code>", line)
    return re.sub(r"(?<![\w*])\*(\w[^*]*)\*(?![\w*])", r"<em>\1</em>", line)
