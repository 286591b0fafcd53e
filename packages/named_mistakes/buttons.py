"""Buttons below a verdict: they show in place what somebody would have to call.

Knows ipywidgets and reports. Knows nothing of exercises.
"""

import os
from collections.abc import Callable, Mapping

from named_mistakes.report import Report, in_notebook

# The first is set by whoever opens JupyterLab for learners. JupyterLab sets the second
# for its notebooks alone: in its terminals, where tests may run, there are no buttons.
NEEDED = {"NAMED_MISTAKES_BUTTONS", "JPY_SESSION_NAME"}
# In a notebook that is opened again, JupyterLab shows an error for each lost widget.
LOST = ".jp-OutputArea-output.jupyter-widgets:not(:has(*))"
NO_ERROR = f"<style>{LOST} {{display: none}}</style>"


def are_wanted() -> bool:
    """Whether this is a kernel of a notebook that was opened for a learner."""
    return in_notebook() and os.environ.keys() >= NEEDED


def show_with_buttons(
    report: Report,
    asks: Mapping[str, Callable[[], Report]],
    label: Callable[[str], str],
) -> None:
    """Show a report and, where buttons are wanted, what can be asked then.

    asks: {kind: what its button adds below}. label: the words on it, now.
    """
    if not are_wanted():
        report.show()
        return
    import ipywidgets
    from IPython.display import display

    shown: dict[str, str] = {}
    below = ipywidgets.HTML()

    def button(kind: str) -> ipywidgets.Button:
        made = ipywidgets.Button(description=label(kind))

        def press(_) -> None:
            asked = asks[kind]()
            shown[asked.title] = asked.html
            boxes = "".join(shown.values())
            below.value = f'<div style="line-height: 1.5">{boxes}</div>'
            made.description = label(kind)

        made.on_click(press)
        return made

    report.show(NO_ERROR)
    display(ipywidgets.VBox([ipywidgets.HBox([*map(button, asks)]), below]))
