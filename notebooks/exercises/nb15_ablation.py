"""The exercise of notebook 15 on ablation: a head taken out.

Knows the shared layer. Knows nothing of how an answer is run or shown.
"""

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from named_mistakes import Exercise, Mistake


def ablated(
    context: Float[Tensor, "b h q d"], to_output: nn.Linear, head: int
) -> Float[Tensor, "b q m"]:
    """What the layer returns when this head adds nothing; the others stay."""
    keep = torch.ones(context.shape[1], dtype=context.dtype)
    keep[head] = 0
    silent = context * keep[:, None, None]
    return to_output(rearrange(silent, "b h q d -> b q (h d)"))


def _cases(generator):
    cases = []
    for (b, h, q, d, m), head in (((3, 4, 5, 6, 7), 2), ((2, 3, 4, 5, 8), 0)):
        numbers = torch.randn(b * h * q * d + m * h * d + m, generator=generator)
        numbers = numbers.to(torch.get_default_dtype()) + 0.5
        context, weight, bias = numbers.split([b * h * q * d, m * h * d, m])
        to_output = nn.Linear(h * d, m).requires_grad_(False)
        to_output.weight.copy_(weight.view(m, h * d))
        to_output.bias.copy_(bias)
        cases.append((context.view(b, h, q, d), to_output, head))
    return cases


def _merge(context):
    return rearrange(context, "b h q d -> b q (h d)")


def _zeroed(context, *place, value=0.0):
    silent = context.clone()
    silent[place] = value
    return silent


def _wrong_axis(axis):
    def function(context, to_output, head):
        place = [slice(None)] * 4
        place[axis] = head
        return to_output(_merge(_zeroed(context, *place)))

    return function


def _by_average(context, to_output, head):
    mean = context[:, head].mean(dim=(0, 1))
    return to_output(_merge(_zeroed(context, slice(None), head, value=mean)))


def _by_average_of_a_text(context, to_output, head):
    mean = context[:, head].mean(dim=1, keepdim=True)
    return to_output(_merge(_zeroed(context, slice(None), head, value=mean)))


def _in_the_stream(context, to_output, head):
    out = to_output(_merge(context)).clone()
    width = context.shape[-1]
    out[..., head * width : (head + 1) * width] = 0
    return out


def _interleaved(context, to_output, head):
    merged = _merge(context).clone()
    merged[..., head :: context.shape[1]] = 0
    return to_output(merged)


def _without_bias(context, to_output, head):
    return ablated(context, to_output, head) - to_output.bias


def _head_before(context, to_output, head):
    return to_output(_merge(_zeroed(context, slice(None), head - 1)))


def _width_first(context, to_output, head):
    silent = _zeroed(context, slice(None), head)
    return to_output(rearrange(silent, "b h q d -> b q (d h)"))


def _alone(context, to_output, head):
    only = torch.zeros_like(context)
    only[:, head] = context[:, head]
    return to_output(_merge(only))


ABLATE = Exercise(
    name="inside.ablate",
    statement="Gives the layer's output “b q m” from the context “b h q d” and its "
    "to_output, with nothing from this head. How much the loss then grows is the "
    "head's price.",
    takes=("context", "to_output", "head"),
    reference=ablated,
    cases=_cases,
    mistakes=(
        Mistake(
            name="a text is silenced, not a head",
            function=_wrong_axis(0),
            hint="You cleared one row of the batch, all heads of it.",
            more="“b h q d”: in which place is h?",
        ),
        Mistake(
            name="a query is silenced, not a head",
            function=_wrong_axis(2),
            hint="You cleared one position in all heads.",
            more="“b h q d”: in which place is h?",
        ),
        Mistake(
            name="one number of each head is silenced",
            function=_wrong_axis(3),
            hint="You cleared one component of every head's context.",
            more="“b h q d”: in which place is h?",
        ),
        Mistake(
            name="the whole layer is silenced",
            function=lambda context, to_output, head: to_output(_merge(0 * context)),
            hint="No head adds anything anymore. Whose price would you measure?",
            more="The other heads go on as if nothing had happened.",
        ),
        Mistake(
            name="no head is silenced",
            function=lambda context, to_output, head: to_output(_merge(context)),
            hint="The output is that of the whole layer. Which tensor did you clear, "
            "and which one goes into to_output?",
            more="A copy that is cleared and not used changes nothing.",
        ),
        Mistake(
            name="the head before it is silenced",
            function=_head_before,
            hint="A different head is silent, the one numbered one lower.",
            more="Heads count from 0, and so do the places of an axis.",
        ),
        Mistake(
            name="the others are silenced",
            function=_alone,
            hint="Only this head is left. Which one was to be removed?",
            more="One minus your mask.",
        ),
        Mistake(
            name="its average, not zero",
            function=_by_average,
            hint="Gentle, and a fair choice, but the head still says something.",
            more="Zero is asked for here. The mean has its turn in section 5.",
        ),
        Mistake(
            name="its average over the queries, not zero",
            function=_by_average_of_a_text,
            hint="In each text you put the mean over its queries in the head's place. "
            "Does the head then add nothing?",
            more="Zero is asked for here. The mean has its turn in section 5.",
        ),
        Mistake(
            name="cut out after the output projection",
            function=_in_the_stream,
            hint="After to_output the heads are mixed: no column belongs to a head.",
            more="Silence it where heads still have an axis of their own.",
        ),
        Mistake(
            name="every h-th column instead of one slice",
            function=_interleaved,
            hint="In your merged vector the heads lie like cards dealt around a table.",
            more="“(h d)”: the head is the slow index, its numbers lie side by side.",
        ),
        Mistake(
            name="merged without transposing",
            function=lambda context, to_output, head: to_output(
                _zeroed(context, slice(None), head).reshape(
                    len(context), context.shape[2], -1
                )
            ),
            hint="The right head is silent. Then a reshape puts several positions of a "
            "head into one row.",
            more="Before you join, heads and width must be neighbors: “b q h d”.",
        ),
        Mistake(
            name="merged with the width before the head",
            function=_width_first,
            hint="The right head is silent. But then the first numbers of all heads "
            "lie side by side, followed by their second ones.",
            more="Each slice of the output projection expects all numbers of one head.",
        ),
        Mistake(
            name="the bias goes as well",
            function=_without_bias,
            hint="The head is out, and so is the bias. Does it belong to a head?",
            more="Call to_output once, with everything that is left.",
        ),
    ),
    hint=(
        "Along which axis of “b h q d” lies the head, and what would it add if it "
        "were silent?",
        "Zero the head's slice of the context (of a copy), bring the heads side "
        "by side, call to_output.",
    ),
)


EXERCISES = (ABLATE,)
