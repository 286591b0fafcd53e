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
        ([1, 60, 61, 62, 63, 64, 65, 4], [71, 2]),
        ([9], [5, 6, 7]),
    ]


def _shifted(prompt, answer, hidden):
    ids = prompt + answer
    return ids[:-1], [-100] * hidden + ids[1:][hidden:]


LABELS = Exercise(
    "after.answer_labels",
    "Gives (inputs, labels) of equal length from the ids of a prompt and its answer: "
    "label −100 where the next token belongs to the prompt. The model should learn to "
    "answer, not to ask.",
    ("prompt", "answer"),
    answer_labels,
    _requests,
    (
        Mistake(
            "the prompt counts too",
            lambda prompt, answer: _shifted(prompt, answer, 0),
            "Your labels ask the model to write the request as well.",
            "Which labels belong to the prompt? Put −100 there.",
        ),
        Mistake(
            "the first token of the answer is hidden",
            lambda prompt, answer: _shifted(prompt, answer, len(prompt)),
            "One −100 too many: how does the model learn to begin an answer?",
            "At the last token of the prompt the next token is the answer's first.",
        ),
        Mistake(
            "the last token of the prompt is a label",
            lambda prompt, answer: _shifted(prompt, answer, max(0, len(prompt) - 2)),
            "One −100 too few: the last token of the prompt is asked for.",
            "A prompt of n tokens has n − 1 labels of its own.",
        ),
        Mistake(
            "the labels are not shifted",
            lambda prompt, answer: (
                (prompt + answer)[:-1],
                [-100] * len(prompt) + answer[:-1],
            ),
            "Each of your labels is the token at its own place, not the one after it.",
            "The label at place t is the token at t + 1.",
        ),
        Mistake(
            "nothing is cut",
            lambda prompt, answer: (prompt + answer, [-100] * len(prompt) + answer),
            "Inputs and labels are as long as prompt and answer together.",
            "The last token has nothing after it: it is a label, not an input.",
        ),
        Mistake(
            "the inputs lack the prompt",
            lambda prompt, answer: (answer[:-1], answer[1:]),
            "The prompt is gone: what is the model answering?",
            "It stays in the inputs. Only its labels are hidden.",
        ),
        Mistake(
            "the answer is hidden",
            lambda prompt, answer: (
                (prompt + answer)[:-1],
                (prompt + answer)[1 : len(prompt)] + [-100] * len(answer),
            ),
            "You hide the answer and ask for the prompt.",
            "It should be the other way around.",
        ),
    ),
    "Join prompt and answer. The inputs are all ids but the last. The labels are all "
    "ids but the first. A prompt of n tokens has n − 1 of them: put −100 there.",
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
    "after.lora",
    "Gives y “b t n” for x “b t m”: the frozen layer, weight “n m”, plus `scale` times "
    "what the thin matrices down “r m” and up “n r” make of x. They have r · (m + n) "
    "numbers, not m · n.",
    ("x", "weight", "down", "up", "scale"),
    lora,
    _layers,
    (
        Mistake(
            "the frozen layer is missing",
            lambda x, weight, down, up, scale: scale * x @ down.T @ up.T,
            "Only the thin matrices are left: with `up` at zero it gives zeros.",
            "LoRA adds to what the frozen layer gives.",
        ),
        Mistake(
            "no scale",
            lambda x, weight, down, up, scale: lora(x, weight, down, up, 1.0),
            "You add the product at full size, whatever `scale` says.",
            "Multiply it before you add it.",
        ),
        Mistake(
            "the scale is on both terms",
            lambda x, weight, down, up, scale: scale * lora(x, weight, down, up, 1.0),
            "The frozen layer is scaled as well: the model does not start out "
            "unchanged.",
            "The scale belongs to the thin matrices alone.",
        ),
        Mistake(
            "the scale is on the frozen layer",
            lambda x, weight, down, up, scale: scale * x @ weight.T + x @ down.T @ up.T,
            "You scale what should stay as it was.",
            "The scale belongs to the thin matrices.",
        ),
        Mistake(
            "the scale is squared",
            lambda x, weight, down, up, scale: lora(x, weight, down, up, scale**2),
            "The thin matrices are scaled twice.",
            "Scale at one of the two matrices, or at the end.",
        ),
        Mistake(
            "the product is subtracted",
            lambda x, weight, down, up, scale: lora(x, weight, down, up, -scale),
            "The second term has the wrong sign.",
            "LoRA adds.",
        ),
        Mistake(
            "the terms are multiplied",
            lambda x, weight, down, up, scale: (
                x @ weight.T * (1 + scale * (x @ down.T) @ up.T)
            ),
            "You multiply the two terms.",
            "Both start from x, and they are added.",
        ),
    ),
    "The frozen layer gives x @ weight.T. The thin matrices go down first: "
    "x @ down.T is “b t r”. Then up: times up.T it is “b t n”. Scale it and add.",
    trains=True,
)


EXERCISES = (LABELS, LORA)
