"""An exercise of notebook 06: one step of a GRU, from its matrices.

Knows tensors. Knows nothing of how an answer is run or shown.
"""

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import GRUCell

from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal


def gru_step(x: Tensor, state: Tensor, w: Tensor, u: Tensor, b: Tensor) -> Tensor:
    """The next state "b m"; the rows of w, u and b are reset, update, candidate."""
    from_input = (x @ w.T + b).chunk(3, dim=-1)
    from_state = (state @ u.T).chunk(3, dim=-1)
    reset = (from_input[0] + from_state[0]).sigmoid()
    update = (from_input[1] + from_state[1]).sigmoid()
    candidate = (from_input[2] + reset * from_state[2]).tanh()
    return update * state + (1 - update) * candidate


def step_of_the_cell(
    x: Tensor, state: Tensor, w: Tensor, u: Tensor, b: Tensor
) -> Tensor:
    """`nn.GRUCell` with these matrices, and with 0 for its second bias."""
    weights = {"weight_ih": w, "weight_hh": u}
    weights |= {"bias_ih": b, "bias_hh": torch.zeros_like(b)}
    cell = GRUCell(x.shape[-1], state.shape[-1])
    return functional_call(cell, weights, (x, state))


def _cases(generator):
    def one(batch, width_in, width):
        u = normal(generator, 3 * width, width)
        w = normal(generator, 3 * width, width_in)
        x, state = normal(generator, batch, width_in), normal(generator, batch, width)
        return x, state.tanh(), w, u, normal(generator, 3 * width)

    first = one(3, 4, 5)
    first[1][0] = 0  # a sentence begins: nothing has been read yet
    loud = one(2, 4, 3)
    loud[0][0] *= 100  # so that gates are quite open or quite shut
    return [first, one(1, 5, 2), one(2, 3, 6), loud]


def _parts(x, state, w, u, b):
    """Of reset, update and candidate, what comes from the input and from the state."""
    return (x @ w.T + b).chunk(3, dim=-1), (state @ u.T).chunk(3, dim=-1)


def _gates(from_input, from_state):
    pairs = zip(from_input[:2], from_state[:2], strict=True)
    return [(mine + other).sigmoid() for mine, other in pairs]


def _gated(update, state, candidate):
    return update * state + (1 - update) * candidate


def _with_candidate(make):
    """The whole step with another candidate."""

    def step(x, state, w, u, b):
        from_input, from_state = _parts(x, state, w, u, b)
        reset, update = _gates(from_input, from_state)
        return _gated(update, state, make(from_input[2], from_state[2], reset))

    return step


def _with_new_state(join):
    """The whole step, ended in another way."""

    def step(x, state, w, u, b):
        from_input, from_state = _parts(x, state, w, u, b)
        reset, update = _gates(from_input, from_state)
        candidate = (from_input[2] + reset * from_state[2]).tanh()
        return join(update, state, candidate)

    return step


def _reset_before_the_matrix(x, state, w, u, b):
    from_input, from_state = _parts(x, state, w, u, b)
    reset, update = _gates(from_input, from_state)
    last_matrix = u.chunk(3)[2]
    candidate = (from_input[2] + (reset * state) @ last_matrix.T).tanh()
    return _gated(update, state, candidate)


def _bias_behind_the_gate(x, state, w, u, b):
    from_input, from_state = _parts(x, state, w, u, b)
    reset, update = _gates(from_input, from_state)
    bias = b.chunk(3)[2]
    candidate = (from_input[2] - bias + reset * (from_state[2] + bias)).tanh()
    return _gated(update, state, candidate)


def _gates_exchanged(x, state, w, u, b):
    from_input, from_state = _parts(x, state, w, u, b)
    update, reset = _gates(from_input, from_state)
    candidate = (from_input[2] + reset * from_state[2]).tanh()
    return _gated(update, state, candidate)


def _exchanged_and_before_the_matrix(x, state, w, u, b):
    thirds = [part.chunk(3) for part in (w, u, b)]
    swapped = [torch.cat([second, first, last]) for first, second, last in thirds]
    return _reset_before_the_matrix(x, state, *swapped)


def _gates_by_tanh(x, state, w, u, b):
    from_input, from_state = _parts(x, state, w, u, b)
    reset = (from_input[0] + from_state[0]).tanh()
    update = (from_input[1] + from_state[1]).tanh()
    candidate = (from_input[2] + reset * from_state[2]).tanh()
    return _gated(update, state, candidate)


def _bare_gates(x, state, w, u, b):
    from_input, from_state = _parts(x, state, w, u, b)
    reset, update = from_input[0] + from_state[0], from_input[1] + from_state[1]
    candidate = (from_input[2] + reset * from_state[2]).tanh()
    return _gated(update, state, candidate)


def _u_from_the_left(x, state, w, u, b):
    turned = torch.cat([third.T for third in u.chunk(3)])
    return gru_step(x, state, w, turned, b)


def _gates_from_the_input(x, state, w, u, b):
    from_input, from_state = _parts(x, state, w, u, b)
    reset, update = from_input[0].sigmoid(), from_input[1].sigmoid()
    candidate = (from_input[2] + reset * from_state[2]).tanh()
    return _gated(update, state, candidate)


GRU_STEP = Exercise(
    name="recurrent.gru_step",
    statement="Gives the next state “b m” of a GRU for an input x “b n” and a state “b "
    "m”. The rows of W “3m n”, U “3m m” and b “3m” are for r, z and the candidate, m "
    "for each. A cell like this reads a whole sentence.",
    takes=("x", "state", "W", "U", "b"),
    reference=gru_step,
    cases=_cases,
    mistakes=(
        Mistake(
            name="z and 1 − z exchanged",
            function=_with_new_state(lambda z, state, new: z * new + (1 - z) * state),
            hint="All parts are right except the mixture. With z near 1 your state is "
            "new, but the formula keeps the old one.",
            more="Many texts let z stand for the share that is new. Which share is it "
            "here?",
        ),
        Mistake(
            name="no reset gate",
            function=_with_candidate(lambda mine, old, r: (mine + old).tanh()),
            hint="Your candidate always sees the whole old state.",
            more="One of the three thirds is not used in your last lines. What is it "
            "for?",
        ),
        Mistake(
            name="reset before the matrix",
            function=_reset_before_the_matrix,
            hint="Cho et al. 2014 write it this way, and it works too. But our "
            "formula, like PyTorch's, multiplies by r after U.",
            more="Compute U h first, all three thirds at once. Then close the gate.",
        ),
        Mistake(
            name="the input goes through the reset gate, too",
            function=_with_candidate(lambda mine, old, r: (r * (mine + old)).tanh()),
            hint="A shut reset gate hides the new input from you. It should hide the "
            "old state only.",
            more="In the candidate, r stands in front of one of the two terms.",
        ),
        Mistake(
            name="r and z exchanged",
            function=_gates_exchanged,
            hint="Both gates are computed correctly, but each does the other's job.",
            more="In which order do the thirds come in W, U and b?",
        ),
        Mistake(
            name="r and z exchanged, and reset before the matrix",
            function=_exchanged_and_before_the_matrix,
            hint="Each gate does the other's job. And your reset gate multiplies the "
            "state before U, where our formula multiplies U h.",
            more="In which order do the thirds come in W, U and b? Then compute U h "
            "first, all three thirds at once.",
        ),
        Mistake(
            name="tanh in the gates",
            function=_gates_by_tanh,
            hint="Some of your gates are negative. A gate is a share, from 0 to 1.",
            more="Two functions occur in the formulas. Which of them stays above 0?",
        ),
        Mistake(
            name="sigmoid in the candidate",
            function=_with_candidate(lambda mine, old, r: (mine + r * old).sigmoid()),
            hint="Your candidate is never negative, so the state can hardly go below "
            "0.",
            more="The gates are shares; the candidate is a state. They need two "
            "different functions.",
        ),
        Mistake(
            name="the gates do not see the state",
            function=_gates_from_the_input,
            hint="Your gates open and close by the input alone.",
            more="What is added to W x before the sigmoid?",
        ),
        Mistake(
            name="the whole candidate is added",
            function=_with_new_state(lambda z, state, new: z * state + new),
            hint="Some numbers lie outside −1 to 1: you add more than the formula "
            "does.",
            more="The two shares of the mixture add up to 1.",
        ),
        Mistake(
            name="the old state is forgotten",
            function=_with_new_state(lambda z, state, new: (1 - z) * new),
            hint="The old state is kept nowhere: where z is near 1 you have next to "
            "nothing.",
            more="The mixture has two terms. One is missing.",
        ),
        Mistake(
            name="b is left out",
            function=lambda x, state, w, u, b: gru_step(
                x, state, w, u, torch.zeros_like(b)
            ),
            hint="Everything is there except one argument.",
            more="Each of the three layers has its own third of b.",
        ),
        Mistake(
            name="the reset gate closes b too",
            function=_bias_behind_the_gate,
            hint="The gates are right. In the candidate, a shut reset gate hides b "
            "from you as well.",
            more="b belongs to W x. r multiplies U h alone.",
        ),
        Mistake(
            name="the candidate is the new state",
            function=_with_new_state(lambda z, state, new: new),
            hint="That is the candidate. Where does the update gate come in?",
            more="One more line: the share z of the old state, and the rest from the "
            "candidate.",
        ),
        Mistake(
            name="no sigmoid in the gates",
            function=_bare_gates,
            hint="Your gates can be any number. A gate is a share, from 0 to 1.",
            more="Which function squeezes any number into the range 0 to 1?",
        ),
        Mistake(
            name="no tanh in the candidate",
            function=_with_candidate(lambda mine, old, r: mine + r * old),
            hint="The gates are right. Your candidate can be any number, and a state "
            "lies between −1 and 1.",
            more="Which function wraps the whole candidate?",
        ),
        Mistake(
            name="the matrices U are not transposed",
            function=_u_from_the_left,
            hint="W is right. Each third of U is square, so the product works either "
            "way. Which one is U h for a state stored as a row?",
            more="Treat U as you treat W.",
        ),
    ),
    hint=(
        "Begin with W x + b and U h: each is “b 3m”. `chunk(3, dim=-1)` cuts it into "
        "the parts for r, z and the candidate.",
        "Make r and z, each from its two parts; then the candidate, with r in front of "
        "its part of U h.",
        "At the end mix the old state and the candidate, with shares that add up to 1.",
    ),
    trains=True,
    shared=step_of_the_cell,
)


EXERCISES = (GRU_STEP,)
