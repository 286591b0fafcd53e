"""The report on a check, as plain text and as HTML. Knows nothing of exercises."""

import html
import re
import sys
from dataclasses import dataclass

SIGNS = {
    "not tried": "○",
    "right": "✓",
    "stage": "…",
    "variant": "≈",
    "hint": "→",
    "case": "=",
    "solution": "=",
    "progress": "=",
}
COLORS = {
    "not tried": "#888888",
    "right": "#009E73",
    "stage": "#009E73",
    "variant": "#E69F00",
    "hint": "#E69F00",
    "case": "#56B4E9",
    "solution": "#56B4E9",
    "progress": "#56B4E9",
}
NOTEBOOK = re.compile(r"^\w+\.ipynb$")
WRONG = "#D55E00"  # Okabe and Ito: safe for color-blind readers


@dataclass(frozen=True)
class Report:
    """What one call of `check`, `hint`, `solution` or `progress` shows.

    status: "not tried", "right", "stage" (right so far), "mistake", "variant" (others
    mean it so), "error", "different", "changed", "hint", "case", "solution" or
    "progress". mistake: the name of the known mistake or variant, if there is one.
    lines: sentences, with `code` and *emphasis*. code: lines in a fixed-width font.
    table: rows of texts, the first of headings; the name of a notebook is a link.
    case: which of the cases the report is about. step: at which a hint then begins.
    """

    status: str
    title: str
    lines: tuple[str, ...] = ()
    code: str = ""
    table: tuple[tuple[str, ...], ...] = ()
    mistake: str | None = None
    case: int = 0
    step: int = 0

    @property
    def text(self) -> str:
        """The report as plain text."""
        sign = SIGNS.get(self.status, "✗")
        code = [f"    {line}" for line in self.code.splitlines()]
        rows = [f"    {line}" for line in _aligned(self.table)]
        rest = [f"  {part}" for line in self.lines for part in line.splitlines()]
        return "\n".join([f"{sign} {self.title}", *code, *rows, *rest])

    @property
    def html(self) -> str:
        """The report as a box of HTML that is legible on light and dark pages."""
        color = COLORS.get(self.status, WRONG)
        head = f"{SIGNS.get(self.status, '✗')} <b>{html.escape(self.title)}</b>"
        code = f"<pre>{html.escape(self.code)}</pre>" if self.code else ""
        rest = "".join(f"<div>{_formatted(line)}</div>" for line in self.lines)
        style = f"border-left: 4px solid {color}; padding: 2px 10px; margin: 4px 0"
        table = _table(self.table) if self.table else ""
        return f'<div style="{style}">{head}{code}{table}{rest}</div>'

    def show(self, style: str = "") -> None:
        """Display the HTML in a notebook; print the text anywhere else.

        style: HTML that is added, for what follows.
        """
        if not in_notebook():
            print(self.text)
            return
        from IPython.display import display

        display({"text/plain": self.text, "text/html": self.html + style}, raw=True)


def in_notebook() -> bool:
    """Whether there is somebody who draws HTML."""
    ipython = sys.modules.get("IPython")  # a notebook has imported it
    return ipython is not None and ipython.get_ipython() is not None


def _formatted(line):
    """A line of plain text as HTML: `code` and *emphasis* become tags."""
    line = html.escape(line).replace("\n", "<br>")
    line = re.sub(r"`([^`]+)`", r"<code>\1</code>", line)
    return re.sub(r"(?<![\w*])\*(\w[^*]*)\*(?![\w*])", r"<em>\1</em>", line)


def _aligned(table):
    """The rows of a table as lines: names on the left, numbers on the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for first, *others in table:
        numbers = map(str.rjust, others, widths[1:])
        yield "  ".join([first.ljust(widths[0]), *numbers]).rstrip()


def _table(rows):
    html_rows = []
    for place, (first, *others) in enumerate(rows):
        tag = "td" if place else "th"
        name = NOTEBOOK.sub(r'<a href="\g<0>">\g<0></a>', html.escape(first))
        cells = "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in others)
        left = f'<th scope="row" style="text-align: left">{name}</th>'
        html_rows.append(f"<tr>{left}{cells}</tr>")
    return f"<table>{''.join(html_rows)}</table>"
