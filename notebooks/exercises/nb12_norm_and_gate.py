"""Exercises of notebook 12: a norm, a gate.

Knows the shared layers. Knows nothing of how an answer is run or shown.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from course_utils.feedforward import SwiGLU
from course_utils.norms import RMSNorm
from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal

# --- the norm ----------------------------------------------------------------------


def rms_norm(
    x: Float[Tensor, "b t m"], scale: Float[Tensor, "m"], eps: float
) -> Float[Tensor, "b t m"]:
    """Square, mean, root, divide; then the scale."""
    return scale * x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()


def norm_of_the_layer(
    x: Float[Tensor, "b t m"], scale: Float[Tensor, "m"], eps: float
) -> Float[Tensor, "b t m"]:
    """The shared layer with this scale."""
    return functional_call(RMSNorm(len(scale), eps), {"weight": scale}, x)


def _norm_inputs(generator):
    def one(eps, *shape):
        x = normal(generator, *shape) + 1.5
        x[0, 0] *= 0.02  # so small that eps is heard
        return x, normal(generator, shape[-1]), eps

    return [one(0.1, 2, 5, 7), one(0.02, 3, 1, 4)]


def _square(x, axis=-1):
    return x.square().mean(axis, keepdim=True)


RMS = Exercise(
    name="llama.rms_norm",
    statement="Gives x “b t m”, each position divided by its root mean square (eps "
    "inside the root) and stretched by the scale “m”. Every block of LLaMA begins with "
    "it.",
    takes=("x", "scale", "eps"),
    reference=rms_norm,
    cases=_norm_inputs,
    mistakes=(
        Mistake(
            name="the mean is taken off",
            function=lambda x, scale, eps: (
                scale * F.layer_norm(x, x.shape[-1:], eps=eps)
            ),
            hint="That is LayerNorm without its shift. What did RMSNorm leave out?",
            more="RMSNorm lets the mean through: square x itself.",
        ),
        Mistake(
            name="the sum for the mean",
            function=lambda x, scale, eps: (
                scale * x / (x.square().sum(-1, True) + eps).sqrt()
            ),
            hint="Your positions have length 1. A wider model would have smaller "
            "numbers.",
            more="The M of the root mean square is missing: sum, or …?",
        ),
        Mistake(
            name="over the positions",
            function=lambda x, scale, eps: scale * x / (_square(x, -2) + eps).sqrt(),
            hint="Each column is divided by its size over the sentence: a word would "
            "hear of the words after it.",
            more="One position alone: which axis runs over its numbers?",
        ),
        Mistake(
            name="one size for the whole text",
            function=lambda x, scale, eps: (
                scale * x / (_square(x, (-2, -1)) + eps).sqrt()
            ),
            hint="All positions are divided by one number, and a small one stays "
            "small.",
            more="Each position has a size of its own: the mean runs over one axis.",
        ),
        Mistake(
            name="one size for the whole batch",
            function=lambda x, scale, eps: (
                scale * x / (_square(x, (0, 1, 2)) + eps).sqrt()
            ),
            hint="Your mean runs over all texts and positions at once. What does the "
            "size of one position depend on?",
            more="mean without an axis takes everything. Name the axis, and keep it.",
        ),
        Mistake(
            name="the mean is taken off before the division alone",
            function=lambda x, scale, eps: (
                scale * (x - x.mean(-1, keepdim=True)) / (_square(x) + eps).sqrt()
            ),
            hint="You divide by the right size, but what you divide has lost its mean.",
            more="RMSNorm lets the mean through: divide x itself.",
        ),
        Mistake(
            name="the standard deviation for the root mean square",
            function=lambda x, scale, eps: (
                scale * x / (x.var(-1, unbiased=False, keepdim=True) + eps).sqrt()
            ),
            hint="var and std measure from the mean of a position. From where does the "
            "root mean square measure?",
            more="Square x itself, and then take the mean.",
        ),
        Mistake(
            name="eps as a lower bound of the root",
            function=lambda x, scale, eps: scale * x / _square(x).sqrt().clamp(min=eps),
            hint="Small positions are far off. You keep the root from falling below "
            "eps. Where does ε stand in the equation?",
            more="eps is added to the mean of the squares.",
        ),
        Mistake(
            name="the root is missing",
            function=lambda x, scale, eps: scale * x / (_square(x) + eps),
            hint="Ten times x should give the same. Yours gets ten times *smaller*.",
            more="You divide by squares. What brings a square back to the size of x?",
        ),
        Mistake(
            name="eps outside the root",
            function=lambda x, scale, eps: scale * x / (_square(x).sqrt() + eps),
            hint="Small positions are far off. Where does ε stand in the equation?",
            more="Add eps while the squares are still squares.",
        ),
        Mistake(
            name="eps added to the sum",
            function=lambda x, scale, eps: (
                scale * x / ((x.square().sum(-1, True) + eps) / x.shape[-1]).sqrt()
            ),
            hint="You add eps to the sum of the squares, and then divide by the width. "
            "How much of eps is left?",
            more="First the mean of the squares, then eps.",
        ),
        Mistake(
            name="stretched by 1 + scale",
            variant="Some models keep their scales minus 1; only such scales fit.",
            function=lambda x, scale, eps: rms_norm(x, 1 + scale, eps),
            hint="With a scale of ones, your result is double what it should be.",
            more="Multiply by the scale as it is.",
        ),
        Mistake(
            name="eps forgotten",
            function=lambda x, scale, eps: scale * x / _square(x).sqrt(),
            hint="Small positions are far off. One argument is unused.",
            more="For a position of zeros, ε prevents 0 divided by 0.",
        ),
        Mistake(
            name="the scale is forgotten",
            function=lambda x, scale, eps: x / (_square(x) + eps).sqrt(),
            hint="Each position has the right size. One argument is unused.",
            more="γ stretches each column by a number of its own.",
        ),
        Mistake(
            name="eps and the scale are forgotten",
            function=lambda x, scale, eps: x / _square(x).sqrt(),
            hint="The root mean square is right. Two of the three arguments are "
            "unused.",
            more="ε stands under the root, γ in front of the fraction.",
        ),
        Mistake(
            name="divided by the length",
            function=lambda x, scale, eps: scale * x / x.norm(dim=-1, keepdim=True),
            hint="A norm is a root of a *sum* of squares, so a wider model would have "
            "smaller numbers; and eps is unused.",
            more="Three steps by hand: square, mean, and the root of mean plus eps.",
        ),
        Mistake(
            name="the mean loses its axis",
            function=lambda x, scale, eps: (
                scale * x / (x.square().mean(-1) + eps).sqrt()
            ),
            hint="A mean over the last axis takes this axis away: “b t” is lined up "
            "with “t m”.",
            more="An argument of mean keeps the axis, with size 1.",
        ),
        Mistake(
            name="eps is always the same",
            function=lambda x, scale, eps: rms_norm(x, scale, 1e-5),
            hint="Small positions are far off. Do you write 1e-5 where the argument "
            "should stand?",
            more="Each model has an ε of its own: use eps.",
            also=(lambda x, scale, eps: rms_norm(x, scale, 1e-6),),
        ),
    ),
    hint="Four steps for one position: square, mean, root, divide. Then the scale.",
    shared=norm_of_the_layer,
    trains=True,
)


# --- the gate ----------------------------------------------------------------------


def swiglu(
    x: Float[Tensor, "b t m"],
    gate: Float[Tensor, "f m"],
    up: Float[Tensor, "f m"],
    down: Float[Tensor, "m f"],
) -> Float[Tensor, "b t m"]:
    """A gate for every unit."""
    return (F.silu(x @ gate.T) * (x @ up.T)) @ down.T


def output_of_the_layer(
    x: Float[Tensor, "b t m"],
    gate: Float[Tensor, "f m"],
    up: Float[Tensor, "f m"],
    down: Float[Tensor, "m f"],
) -> Float[Tensor, "b t m"]:
    """The shared layer with these matrices."""
    with torch.device("meta"):  # the layer needs no numbers of its own
        layer = SwiGLU(gate.shape[1], len(gate))
    weights = {"gate.weight": gate, "up.weight": up, "down.weight": down}
    return functional_call(layer, weights, x)


def _gate_inputs(generator):
    def one(b, t, m, f):
        shapes = (b, t, m), (f, m), (f, m), (m, f)
        return tuple(normal(generator, *shape) for shape in shapes)

    return [one(2, 3, 5, 7), one(3, 1, 4, 2)]


GATE = Exercise(
    name="llama.swiglu",
    statement="Gives SwiGLU of x “b t m” with the matrices gate “f m”, up “f m” and "
    "down “m f”, as nn.Linear holds them. Most weights of a LLaMA block are these.",
    takes=("x", "gate", "up", "down"),
    reference=swiglu,
    cases=_gate_inputs,
    mistakes=(
        Mistake(
            name="gate and up exchanged",
            function=lambda x, g, u, d: (x @ g.T * F.silu(x @ u.T)) @ d.T,
            hint="A model trained this way learns, too. With weights from elsewhere it "
            "writes nonsense: which of the two is bent?",
            more="SiLU stands around one of the two products in the equation. Which?",
        ),
        Mistake(
            name="the logistic function for SiLU",
            function=lambda x, g, u, d: (torch.sigmoid(x @ g.T) * (x @ u.T)) @ d.T,
            hint="That gate lies between 0 and 1: the older GLU. SiLU has one factor "
            "more.",
            more="SiLU(z) = z σ(z). Where did the z go?",
        ),
        Mistake(
            name="GELU for SiLU",
            function=lambda x, g, u, d: (F.gelu(x @ g.T) * (x @ u.T)) @ d.T,
            hint="Close: your bend and the right one are nearly the same.",
            more="Your bend has a cousin that dips lower on the left.",
        ),
        Mistake(
            name="ReLU for SiLU",
            function=lambda x, g, u, d: (F.relu(x @ g.T) * (x @ u.T)) @ d.T,
            hint="Your gate is 0 for every negative z. What is SiLU at −1?",
            more="SiLU(z) = z σ(z), or `F.silu`.",
        ),
        Mistake(
            name="the gate is not bent",
            function=lambda x, g, u, d: ((x @ g.T) * (x @ u.T)) @ d.T,
            hint="Two products, multiplied as they are. Which function is missing?",
            more="One of the two products goes through SiLU first.",
        ),
        Mistake(
            name="the matrix up is unused",
            function=lambda x, g, u, d: F.silu(x @ g.T) @ d.T,
            hint="Gate and down, with a bend between them, are a plain feed-forward. "
            "What does the gate let pass?",
            more="The candidate comes from the third matrix.",
        ),
        Mistake(
            name="the sum for the product",
            function=lambda x, g, u, d: (F.silu(x @ g.T) + x @ u.T) @ d.T,
            hint="A gate at 0 should let nothing pass. Yours lets everything pass.",
            more="⊙ in the equation works number by number, but does not add.",
        ),
        Mistake(
            name="both are bent",
            function=lambda x, g, u, d: (F.silu(x @ g.T) * F.silu(x @ u.T)) @ d.T,
            hint="The candidate may be negative. You have bent it, too.",
            more="Count how often SiLU appears in the equation.",
        ),
        Mistake(
            name="the product is bent",
            function=lambda x, g, u, d: F.silu((x @ g.T) * (x @ u.T)) @ d.T,
            hint="You gate first, then bend. What is inside the parentheses of SiLU?",
            more="Bend before you multiply.",
        ),
    ),
    hint=(
        "Read the equation from the inside: which two products does x enter?",
        "Two products with x, one of them bent, multiplied number by number, and "
        "a third matrix. nn.Linear computes x @ weight.T.",
    ),
    trains=True,
    shared=output_of_the_layer,
)


EXERCISES = (RMS, GATE)
