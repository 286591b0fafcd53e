"""A box for the reader's own words. Knows nothing of what is made of them."""

from collections.abc import Callable

from IPython.display import HTML, display

from course_utils.checks import check_type
from named_mistakes import buttons


def ask(
    function: Callable[[str], object], text: str, label: str = "Your own words"
) -> None:
    """Call `function(text)`, which shows something; then offer a box for other texts.

    The box is there in a notebook of `make lab` alone, and calls the function at each
    key. So what is stored and compared is the call with `text`.
    """
    check_type(Callable, function=function)
    check_type(str, text=text, label=label)
    function(text)
    if not buttons.are_wanted():
        return
    import ipywidgets

    box = ipywidgets.Text(placeholder=text, description=label)
    box.style.description_width = "initial"
    below = ipywidgets.Output()

    def show(change: dict) -> None:
        below.clear_output(wait=True)
        with below:
            try:
                function(change["new"])
            except Exception as error:  # of a text that is not whole yet
                print(error)

    box.observe(show, names="value")
    display(HTML(buttons.NO_ERROR), ipywidgets.VBox([box, below]))
