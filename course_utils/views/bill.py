"""Show what a training run costs, in memory and money."""

from collections.abc import Callable, Mapping, Sequence

import torch
from matplotlib.figure import Figure

from course_utils.views.display import show_piece
from lesson_plots.style import ROLES, number, show, styled

BILL = {"peak": 989e12, "share": 0.4, "held": 4096, "memory": 80}  # of one H100


def show_bill(
    bill: Callable, presets: Mapping[str, Mapping[str, float]], first: str
) -> None:
    """What training runs cost: sliders, and a bar of memory for each preset as a still.

    bill: the function of notebook 17, which the view repeats in its own language.
    presets: {name: {parameters, tokens, gpus, price}}; first: the one shown first.
    Sources: H100 data sheet; Kaplan et al. 2020, section 2.1; Rajbhandari et al. 2020,
    section 3.1; Korthikanti et al. 2022, section 4.1 (34 bytes a width and token).
    """
    kinds = ("weights", "gradients", "averages", "activations")
    alt = "Gigabytes on each GPU as lying bars of weights, gradients, averages and "
    alt += f"activations beside a line at {BILL['memory']}, for {', '.join(presets)}; "
    alt += "each GPU holds a copy, or its part."
    settings = [[name, dict(preset)] for name, preset in presets.items()]
    data = {**BILL, "presets": settings, "first": list(presets).index(first)}
    show_piece("bill", data, "The bill of a training run", alt)
    rows = {}
    for name, preset in presets.items():
        for label in ("a copy", "its part"):
            sums = bill(**preset, sharded=label == "its part")
            rows[f"{name}, {label}"] = [sums[kind] for kind in kinds]
    show(_stacked(rows, kinds), alt)


@styled
def _stacked(rows: dict[str, list[float]], kinds: Sequence[str]) -> Figure:
    figure = Figure(figsize=(6.4, 0.34 * len(rows) + 1.1), layout="constrained")
    axis = figure.subplots()
    colors = [ROLES[role] for role in ("query", "key", "feedforward", "value")]
    most = 2.5 * BILL["memory"]
    for row, values in enumerate(rows.values()):
        ends = torch.tensor([0.0, *values]).cumsum(0).clamp(max=most).tolist()
        for start, end, color in zip(ends, ends[1:], colors, strict=False):
            axis.barh(row, end - start, left=start, color=color)
        total = sum(values)
        text = number(round(total, 1 if total < 10 else 0))
        text = f"→ {text}" if total > most else text  # a bar that is cut off
        axis.text(ends[-1] + 2, row, text, va="center", size=9)
    for color, kind in zip(colors, kinds, strict=True):
        axis.barh(0, 0, color=color, label=kind)
    axis.axvline(BILL["memory"], color=ROLES["mistake"], lw=1.5)
    axis.set_yticks(range(len(rows)), list(rows))
    axis.set(xlim=(0, 1.12 * most), xlabel="GB on each GPU; the line is its 80")
    axis.invert_yaxis()
    figure.legend(loc="outside upper center", ncols=4)
    return figure
