"""Show rotary positions: a clock for each pair, and the score that the hands make."""

import math

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from torch import Tensor

from course_utils.checks import check_integer
from course_utils.views.display import show_piece
from lesson_plots.style import ROLES, SOFT, number, show, styled


def show_rotation(back: int = 0, *, title: str) -> None:
    """Clocks whose hands are the pairs of a query and a key, and the score they make.

    back: how many words back the query looks: where its hands meet those of the key.

    Source: Vaswani et al. 2017, section 3.5; Su et al. 2021, section 3.4.
    """
    check_integer(0, back=back)
    now = {"back": back, "position": 20, "distance": back + 6, "pairs": 4}
    ghosts = _ghosts(back, 4)
    alt = f"{title} Four dials; below them the score is highest at distance {back}, "
    alt += f"and nearly as high at its ghosts {', '.join(map(str, ghosts))}."
    show_piece("rotation", {"base": 10000.0, **now}, title, alt)
    show(_dials(ghosts, **now), alt)


def _score(distance: Tensor, back: int, pairs: int) -> Tensor:
    """The cosines between the hands, "pair distance"."""
    speeds = 10000.0 ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    return torch.cos(torch.outer(speeds, distance - back))


def _ghosts(back: int, pairs: int) -> list[int]:
    """Distances to 63 at which a hill of the score is within 1 of its peak."""
    score = _score(torch.arange(-1, 65, dtype=torch.float64), back, pairs).sum(0)
    hill = (score[1:-1] > score[:-2]) & (score[1:-1] > score[2:])
    hill &= score[1:-1] > pairs - 1
    hill[back] = False
    return hill.nonzero().flatten().tolist()


@styled
def _dials(
    ghosts: list[int], back: int, position: int, distance: int, pairs: int
) -> Figure:
    """What the view shows first: a row of dials over the score."""
    figure = Figure(figsize=(5.8, 3.4), layout="constrained")
    rows = [[f"pair {i}" for i in range(pairs)], ["score"] * pairs]
    axes = figure.subplot_mosaic(rows, height_ratios=(1.15, 1))
    for i in range(pairs):
        dial, speed = axes[f"pair {i}"], 10000.0 ** (-i / pairs)
        dial.add_patch(Circle((0, 0), 1, fill=False, color=SOFT))
        for steps, color, length in (
            (position - distance, ROLES["key"], 0.9),
            (position - back, ROLES["query"], 0.65),
        ):
            end = (length * math.sin(steps * speed), length * math.cos(steps * speed))
            hand = {"arrowstyle": "->", "color": color, "lw": 2, "shrinkA": 0}
            dial.annotate("", end, (0, 0), arrowprops=hand)
        for tick in range(12):
            x, y = math.sin(tick * math.pi / 6), math.cos(tick * math.pi / 6)
            dial.plot((0.9 * x, x), (0.9 * y, y), color=SOFT, lw=0.8)
        turn = number(round(2 * math.pi / speed, 1 if i < 2 else 0))
        about = {"size": 9, "weight": "normal", "loc": "center"}
        dial.set_title(f"pair {i}\na turn every\n{turn} words", **about)
        dial.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal")
        dial.axis("off")
    score = axes["score"]
    x = torch.arange(0, 63.1, 0.25, dtype=torch.float64)
    score.plot(x, _score(x, back, pairs).sum(0), color=SOFT)
    for peak in (back, *ghosts):
        height = _score(torch.tensor([float(peak)]), back, pairs).sum().item()
        color = ROLES["weight" if peak in ghosts else "query"]
        score.plot(peak, height, "o", color=color)
        above = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center"}
        score.annotate(str(peak), (peak, height), **above)
    score.margins(x=0.02, y=0.2)
    score.set(xlabel="distance", ylabel="score")
    return figure
