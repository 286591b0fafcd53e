"""Exercises of notebook 18: which tokens count, and two thin matrices.

Knows nothing of models or of how an answer is run or shown.
"""

from torch import Tensor

from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal

# --- the labels of an answer ---------------------------------------------------------


def answer_labels(prompt: list[int], answer: list[int]) -> tuple[list[int], list[int]]:
    """Inputs and labels; the labels that belong to the prompt are -100."""
    ids = prompt + answer
    hidden = [-100] * (len(prompt) - 1)
    return ids[:-1], hidden + answer


def _requests(generator):
    return [
        ([1, 64, 14, 13, 20, 4], [31, 32, 33, 34, 2]),
        ([1, 40, 4], [51, 52, 53, 54, 55, 56, 2]),
        ([1, 40, 4], [51, 52, 2]),
        ([1, 60, 61, 62, 63, 64, 65, 4], [71, 2]),
        ([9], [5, 6, 7]),
        ([1, 64, 40, 4], [31, 64, 40, 2]),  # the answer repeats a name of the prompt
        ([1, 64, 31, 4], [31, 64, 40, 2]),
    ]


def _shifted(prompt, answer, hidden):
    ids = prompt + answer
    return ids[:-1], [-100] * hidden + ids[1:][hidden:]


LABELS = Exercise(
    name="after.answer_labels",
    statement="Gives (inputs, labels) of equal length from the ids of a prompt and its "
    "answer: label −100 where the next token belongs to the prompt. The model should "
    "learn to answer, not to ask.",
    takes=("prompt", "answer"),
    reference=answer_labels,
    cases=_requests,
    mistakes=(
        Mistake(
            name="the prompt counts too",
            function=lambda prompt, answer: _shifted(prompt, answer, 0),
            hint="Your labels ask the model to write the request as well.",
            more="Which labels belong to the prompt? Put −100 there.",
        ),
        Mistake(
            name="the first token of the answer is hidden",
            function=lambda prompt, answer: _shifted(prompt, answer, len(prompt)),
            hint="One −100 too many: how does the model learn to begin an answer?",
            more="At the last token of the prompt the next token is the answer's "
            "first.",
        ),
        Mistake(
            name="the last token of the prompt is a label",
            function=lambda prompt, answer: _shifted(
                prompt, answer, max(0, len(prompt) - 2)
            ),
            hint="One −100 too few: the last token of the prompt is asked for.",
            more="A prompt of n tokens has n − 1 labels of its own.",
        ),
        Mistake(
            name="what also stands in the prompt is hidden",
            function=lambda prompt, answer: (
                (prompt + answer)[:-1],
                [-100 if id in prompt else id for id in (prompt + answer)[1:]],
            ),
            hint="The name stands in the prompt and in the answer, and it is just what "
            "the model must learn to repeat. You hide it in both.",
            more="Hide by place, not by token: the first len(prompt) − 1 labels.",
        ),
        Mistake(
            name="the labels are not shifted",
            function=lambda prompt, answer: (
                (prompt + answer)[:-1],
                [-100] * len(prompt) + answer[:-1],
            ),
            hint="Each of your labels is the token at its own place, not the one after "
            "it.",
            more="The label at place t is the token at t + 1.",
        ),
        Mistake(
            name="nothing is cut",
            function=lambda prompt, answer: (
                prompt + answer,
                [-100] * len(prompt) + answer,
            ),
            hint="Inputs and labels are as long as prompt and answer together.",
            more="The last token has nothing after it: it is a label, not an input.",
        ),
        Mistake(
            name="the inputs lack the prompt",
            function=lambda prompt, answer: (answer[:-1], answer[1:]),
            hint="The prompt is gone: what is the model answering?",
            more="It stays in the inputs. Only its labels are hidden.",
        ),
        Mistake(
            name="the answer is hidden",
            function=lambda prompt, answer: (
                (prompt + answer)[:-1],
                (prompt + answer)[1 : len(prompt)] + [-100] * len(answer),
            ),
            hint="You hide the answer and ask for the prompt.",
            more="It should be the other way around.",
        ),
    ),
    hint="Join prompt and answer. The inputs are all ids but the last. The labels are "
    "all ids but the first. A prompt of n tokens has n − 1 of them: put −100 there.",
)


# --- LoRA ----------------------------------------------------------------------------


def lora(x: Tensor, weight: Tensor, down: Tensor, up: Tensor, scale: float) -> Tensor:
    """The frozen layer, and scale times what the two thin matrices give."""
    return x @ weight.T + scale * (x @ down.T) @ up.T


def _layers(generator):
    def one(rows, length, m, n, r, scale):
        x, weight = normal(generator, rows, length, m), normal(generator, n, m)
        return x, weight, normal(generator, r, m), normal(generator, n, r), scale

    return [one(2, 3, 5, 7, 2, 0.5), one(1, 4, 6, 6, 3, 2.0), one(3, 1, 4, 5, 1, 1.5)]


LORA = Exercise(
    name="after.lora",
    statement="Gives y “b t n” for x “b t m”: the frozen layer, weight “n m”, plus "
    "`scale` times what the thin matrices down “r m” and up “n r” make of x. They have "
    "r · (m + n) numbers, not m · n.",
    takes=("x", "weight", "down", "up", "scale"),
    reference=lora,
    cases=_layers,
    mistakes=(
        Mistake(
            name="the frozen layer is missing",
            function=lambda x, weight, down, up, scale: scale * x @ down.T @ up.T,
            hint="Only the thin matrices are left: with `up` at zero it gives zeros.",
            more="LoRA adds to what the frozen layer gives.",
        ),
        Mistake(
            name="no scale",
            function=lambda x, weight, down, up, scale: lora(x, weight, down, up, 1.0),
            hint="You add the product at full size, whatever `scale` says.",
            more="Multiply it before you add it.",
        ),
        Mistake(
            name="the scale is divided by the rank",
            function=lambda x, weight, down, up, scale: lora(
                x, weight, down, up, scale / len(down)
            ),
            hint="In the paper α is divided by the rank. Here `scale` is the whole "
            "factor already.",
            more="Multiply by scale as it is.",
        ),
        Mistake(
            name="the scale is on both terms",
            function=lambda x, weight, down, up, scale: (
                scale * lora(x, weight, down, up, 1.0)
            ),
            hint="The frozen layer is scaled as well: the model does not start out "
            "unchanged.",
            more="The scale belongs to the thin matrices alone.",
        ),
        Mistake(
            name="the scale is on the frozen layer",
            function=lambda x, weight, down, up, scale: (
                scale * x @ weight.T + x @ down.T @ up.T
            ),
            hint="You scale what should stay as it was.",
            more="The scale belongs to the thin matrices.",
        ),
        Mistake(
            name="the scale is squared",
            function=lambda x, weight, down, up, scale: lora(
                x, weight, down, up, scale**2
            ),
            hint="The thin matrices are scaled twice.",
            more="Scale at one of the two matrices, or at the end.",
        ),
        Mistake(
            name="the product is subtracted",
            function=lambda x, weight, down, up, scale: lora(
                x, weight, down, up, -scale
            ),
            hint="The second term has the wrong sign.",
            more="LoRA adds.",
        ),
        Mistake(
            name="the terms are multiplied",
            function=lambda x, weight, down, up, scale: (
                x @ weight.T * (1 + scale * (x @ down.T) @ up.T)
            ),
            hint="You multiply the two terms.",
            more="Both start from x, and they are added.",
        ),
    ),
    hint="The frozen layer gives x @ weight.T. The thin matrices go down first: x @ "
    "down.T is “b t r”. Then up: times up.T it is “b t n”. Scale it and add.",
    trains=("x", "down", "up"),
)


EXERCISES = (LABELS, LORA)
