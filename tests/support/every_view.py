"""One view of each kind, as a notebook shows them. Knows nothing of browsers."""

import torch
from bertviz import head_view, model_view

from course_utils.views import (
    show_attention,
    show_bertviz,
    show_comparison,
    show_query,
    show_rotation,
    show_sampling,
)
from course_utils.views.frames import show_frames

HEADS, LAYERS, SOURCE, TARGET = 2, 3, 7, 5
SPANISH = ["<bos>", "la", " casa", " roja", "."]
ENGLISH = ["the", " red", " house", " is", " here", ".", "<eos>"]
KINDS = dict.fromkeys(("explorer", "comparison", "sampling", "rotation"), 1)
KINDS |= {"query": 1, "frames": 4, "bertviz head": 1, "bertviz model": 1}
STEPS = ["step 0", "step 100", "step 200"]


def random_weights(heads, queries, keys):
    scores = 3 * torch.randn(1, heads, queries, keys, dtype=torch.float64)
    if queries == keys:
        scores = scores.masked_fill(torch.ones(queries, keys).triu(1).bool(), -1e9)
    return scores.softmax(-1)


def translation(seed=0):
    """Weights of a decoder that looks at an encoder's text."""
    torch.manual_seed(seed)
    weights = {}
    for layer in range(LAYERS):
        crossed = random_weights(HEADS, TARGET, SOURCE)
        weights[f"blocks.{layer}.attention"] = random_weights(HEADS, TARGET, TARGET)
        weights[f"blocks.{layer}.cross_attention"] = crossed
    return weights


def bertviz_page(view, weights):
    """What bertviz makes of `translation()`."""
    return view(
        decoder_attention=[one for name, one in weights.items() if "cross" not in name],
        cross_attention=[one for name, one in weights.items() if "cross" in name],
        encoder_tokens=ENGLISH,
        decoder_tokens=SPANISH,
        html_action="return",
    )


def show_all_frames(title):
    """Frames of four kinds; pictures are images and nothing else."""
    maps = random_weights(3, TARGET, TARGET)[0]
    show_frames(maps, STEPS, "step", title=title, rows=SPANISH, columns=SPANISH)
    points = [{"cat": (i, 1), "dog": (-1, i)} for i in range(3)]
    show_frames(points, STEPS, "step", title=title, axes=("x", "y"))
    bars = [{"cat": i, "dog": 1 - i} for i in range(3)]
    show_frames(bars, STEPS, "step", title=title, axes=("", "logit"))
    show_frames(["Onc", "Once a", "Once upon a time"], STEPS, "step", title=title)


def show_every_kind(title="Random heads."):
    """Each view once, the three pieces among them, and four kinds of frames."""
    weights = translation()
    show_attention(weights, SPANISH, ENGLISH, title=title, layer=1)
    after = translation(1)
    show_comparison(weights, after, SPANISH, ENGLISH, title="It learned.", layer=1)
    scores = torch.linspace(3, -3, 50, dtype=torch.float64)
    show_sampling(scores, [f"word{i}" for i in range(50)], title="One leads.")
    show_rotation(title="A shift is a turn.")
    keys = {"cat": (1, 0), "dog": (0, 1), "bird": (-0.6, 0.6)}
    show_query(keys, title="It turns.")
    show_all_frames("It learns.")
    for view in (head_view, model_view):
        show_bertviz(bertviz_page(view, weights), title)
