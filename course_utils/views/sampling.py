"""Show what temperature, top-k and top-p do to the next token."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from attention_views import short
from course_utils.checks import check_same, check_type
from course_utils.views.display import show_piece
from course_utils.views.tokens import token_texts
from lesson_plots.plots import bars

NAMED = 16  # so many candidates of a next token are shown by name


def show_sampling(
    scores: Float[Tensor, "v"], tokens: Sequence[str], *, title: str
) -> None:
    """Temperature, top-k and top-p, in this order, on one next-token distribution.

    scores: the logits of every token; tokens: their texts. The 16 best are named.
    """
    check_type(Tensor, scores=scores)
    tokens = token_texts(tokens)
    check_same("shape of scores and of tokens", tuple(scores.shape), (len(tokens),))
    scores = scores.detach().cpu().double()
    if scores.min() >= 0 and abs(scores.sum() - 1) < 1e-3:
        raise ValueError("scores must be logits, got probabilities: take their .log()")
    best, order = scores.sort(descending=True, stable=True)
    names = [tokens[i] for i in order[:NAMED].tolist()]
    heights = {f"temperature {t}": (best / t).softmax(0)[:8] for t in (0.5, 1, 2)}
    first = heights["temperature 1"][0]
    alt = f"{title} At temperature 1 the best token has probability {first:.2f}."
    data = {"tokens": names, "scores": _hundredths(best - best[0])}
    show_piece("sampling", data, title, alt)
    labels = [short(name, 8) for name in names[:8]]
    bars(labels, heights, ("next token", "probability"), alt=alt)


def _hundredths(scores: Tensor) -> list[int]:
    return scores.mul(100).round().long().tolist()
