"""Exercise of notebook 11: the forward pass of a GPT, from an empty cell.

Knows the shared decoder. Knows nothing of how an answer is run or shown.
"""

from itertools import islice

import torch
from einops import rearrange
from jaxtyping import Float, Int64
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from course_utils.config import DecoderConfig, StackConfig
from course_utils.models import DecoderLM
from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal


def norm(x: Float[Tensor, "... m"]) -> Float[Tensor, "... m"]:
    """Mean 0 and variance 1 at each position."""
    return F.layer_norm(x, x.shape[-1:])


def forward(
    ids: Int64[Tensor, "b t"], W: dict[str, Tensor], num_heads: int
) -> Float[Tensor, "b t v"]:
    """Tokens and positions, block after block, the last norm, E once more."""
    x = W["E"][ids] + W["P"][: ids.shape[1]]  # b t m
    matrices = W["W_qkv"], W["W_o"], W["W_1"], W["W_2"]
    for W_qkv, W_o, W_1, W_2 in zip(*matrices, strict=True):  # one of each a block
        fused = norm(x) @ W_qkv  # b t 3m
        queries, keys, values = rearrange(
            fused, "b t (three h d) -> three b h t d", three=3, h=num_heads
        )
        scores = queries @ keys.mT / keys.shape[-1] ** 0.5  # b h t t
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        context = rearrange(weights @ values, "b h t d -> b t (h d)")
        x = x + context @ W_o
        x = x + F.gelu(norm(x) @ W_1) @ W_2
    return norm(x) @ W["E"].T  # b t v


def logits_of_the_model(ids, W, num_heads):
    """The shared decoder with these matrices."""
    blocks, _, d_ff = W["W_1"].shape
    length, d_model = W["P"].shape
    stack = StackConfig(
        d_model=d_model,
        num_heads=num_heads,
        num_layers=blocks,
        d_ff=d_ff,
        max_length=length,
        activation="gelu",
        positions="learned",
    )
    model = DecoderLM(DecoderConfig(vocab_size=len(W["E"]), stack=stack))
    state = {"tokens.weight": W["E"], "head.weight": W["E"]}
    state["positions.table"] = W["P"]
    for i in range(blocks):
        parts = dict(
            zip(("queries", "keys", "values"), W["W_qkv"][i].chunk(3, 1), strict=True)
        )
        parts["output"] = W["W_o"][i]
        for role, matrix in parts.items():
            state[f"blocks.{i}.attention.to_{role}.weight"] = matrix.T
        state[f"blocks.{i}.feedforward.up.weight"] = W["W_1"][i].T
        state[f"blocks.{i}.feedforward.down.weight"] = W["W_2"][i].T
    return functional_call(model, state, (ids,))


def _weights(generator):
    def one(b, t, v, length, heads, width, f, blocks):
        m = heads * width
        W = {"E": normal(generator, v, m), "P": normal(generator, length, m)}
        W["W_qkv"] = 2 * normal(generator, blocks, m, 3 * m) / m**0.5
        W["W_o"] = normal(generator, blocks, m, m) / m**0.5
        W["W_1"] = normal(generator, blocks, m, f) / m**0.5
        W["W_2"] = normal(generator, blocks, f, m) / f**0.5
        return torch.randint(v, (b, t), generator=generator), W, heads

    return [one(2, 5, 11, 6, 3, 4, 20, 2), one(1, 7, 13, 7, 2, 6, 16, 3)]


# --- the stages, and the same with one of them wrong ----------------------------------

NAMES = (
    "the tokens",
    "tokens and positions",
    "the norm",
    "queries, keys and values",
    "the attention weights",
    "the heads, joined again",
    "the first plus",
    "the feed-forward and the second plus",
    "every block",
    "the last norm",
)


def _cut(fused, heads):
    return rearrange(fused, "b t (three h d) -> three b h t d", three=3, h=heads)


def _heads_first(fused, heads):
    return rearrange(fused, "b t (h three d) -> three b h t d", three=3, h=heads)


def _reshaped(fused, heads):
    parts = fused.chunk(3, dim=-1)
    return torch.stack(
        [x.reshape(len(x), heads, x.shape[1], -1) for x in parts]
    )  # no axis is moved


def _attended(scores):
    return scores.masked_fill(~torch.ones_like(scores).bool().tril(), -torch.inf)


def _transposed(scores):
    return scores.masked_fill(~torch.ones_like(scores).bool().triu(), -torch.inf)


def _not_itself(scores):
    return scores.masked_fill(~torch.ones_like(scores).bool().tril(-1), -torch.inf)


def _hidden(scores):
    """The mask the wrong way round: True where one may not look."""
    return scores.masked_fill(torch.ones_like(scores).bool().tril(), -torch.inf)


def _joined(context):
    return rearrange(context, "b h t d -> b t (h d)")


def _steps(
    ids,
    W,
    heads,
    tokens=lambda E, ids: E[ids],
    positions=lambda P, ids: P[: ids.shape[1]],
    first=norm,
    second=norm,
    last=norm,
    cut=_cut,
    scale=lambda d, m: d**-0.5,
    mask=_attended,
    soften=lambda scores: scores.softmax(dim=-1),
    join=_joined,
    project=torch.matmul,
    road=lambda x, context: x,
    plus=torch.add,
    bend=F.gelu,
    depth=lambda blocks: list(range(blocks)),
    head=lambda x, E: x @ E.T,
):
    """What an answer gives that stops after 1, 2, … stages; at the end the logits."""
    x = tokens(W["E"], ids)
    yield x
    x = x + positions(W["P"], ids)
    yield x
    for place, i in enumerate(depth(len(W["W_o"]))):
        shown = [first(x)]
        shown.append(cut(shown[-1] @ W["W_qkv"][i], heads))
        queries, keys, values = shown[-1]
        factor = scale(keys.shape[-1], x.shape[-1])
        shown.append(soften(mask(queries @ keys.mT * factor)))
        shown.append(join(shown[-1] @ values))
        before = road(x, shown[0])
        x = plus(before, project(shown[-1], W["W_o"][i]))
        shown.append(x)
        x = plus(x, bend(second(x) @ W["W_1"][i]) @ W["W_2"][i])
        if place == 0:
            yield from [*shown, x]
    yield x
    x = last(x)
    yield x
    yield head(x, W["E"])


def _at(place, steps=_steps, **changes):
    """An answer that stops after this many stages, with some of its steps replaced."""
    return lambda ids, W, heads: list(
        islice(steps(ids, W, heads, **changes), place + 1)
    )[-1]


def _wrong(name, hint, more, since, steps=_steps, **changes):
    """A mistake in a whole answer, and in one that stops soon behind it."""
    places = sorted({since, max(since, 7)} - {len(NAMES)})
    stops = tuple(_at(place, steps, **changes) for place in places)
    return Mistake(
        name=name,
        function=_at(len(NAMES), steps, **changes),
        hint=hint,
        more=more,
        also=stops,
    )


def _post_norm(ids, W, heads):
    """The norm stands behind each plus."""
    x = W["E"][ids] + W["P"][: ids.shape[1]]
    yield from [W["E"][ids], x, x]
    for i, W_qkv in enumerate(W["W_qkv"]):
        qkv = _cut(x @ W_qkv, heads)
        queries, keys, values = qkv
        weights = _attended(queries @ keys.mT * keys.shape[-1] ** -0.5).softmax(-1)
        context = _joined(weights @ values)
        x1 = norm(x + context @ W["W_o"][i])
        x = norm(x1 + F.gelu(x1 @ W["W_1"][i]) @ W["W_2"][i])
        if i == 0:
            yield from [qkv, weights, context, x1, x]
    yield from [x, x, x @ W["E"].T]


def _same(x):
    return x


def _parallel(ids, W, heads):
    """Both branches read the same x."""
    x = W["E"][ids] + W["P"][: ids.shape[1]]
    for i in range(len(W["W_o"])):
        queries, keys, values = _cut(norm(x) @ W["W_qkv"][i], heads)
        weights = _attended(queries @ keys.mT * keys.shape[-1] ** -0.5).softmax(-1)
        attended = _joined(weights @ values) @ W["W_o"][i]
        x = x + attended + F.gelu(norm(x) @ W["W_1"][i]) @ W["W_2"][i]
    return norm(x) @ W["E"].T


FORWARD = Exercise(
    name="backbone.forward",
    statement="Gives the logits “b t v” for ids “b t”, a dict of six tensors and a "
    "number of heads. Return what you have after any line: the check says how far it "
    "is right. This is the whole of a GPT.",
    takes=("ids", "W", "num_heads"),
    reference=forward,
    cases=_weights,
    mistakes=(
        _wrong(
            "no positions",
            "Your stream holds the tokens alone. What tells the third word from the "
            "second?",
            "One of the six tensors, P, is not used yet. It has a row per place.",
            2,
            positions=lambda P, ids: 0 * P[: ids.shape[1]],
        ),
        _wrong(
            "the rows of P are picked by ids",
            "A row of P belongs to a *place*, whatever token stands there.",
            "The first t rows of P, in their order.",
            1,
            positions=lambda P, ids: P[ids % len(P)],
        ),
        _wrong(
            "the tokens are multiplied by √m",
            "The paper of 2017 does multiply its embeddings by √m. GPT adds P to them "
            "as they are.",
            "Drop the factor in front of E.",
            0,
            tokens=lambda E, ids: E[ids] * E.shape[-1] ** 0.5,
        ),
        _wrong(
            "no norm in front of the attention",
            "The projection to queries, keys and values reads the stream as it is, "
            "however large it has grown.",
            "Pre-norm: each branch begins with a norm. Which branch of yours does not?",
            3,
            first=_same,
        ),
        _wrong(
            "no norm in front of the feed-forward",
            "W_1 reads the stream as it is. Attention got a norm of its own; what "
            "about this branch?",
            "Each of the two branches begins with a norm.",
            7,
            second=_same,
        ),
        _wrong(
            "the last norm is missing",
            "In a pre-norm model the stream itself was never normalized. What stands "
            "at its end?",
            "One more norm, after the loop, before E.",
            10,
            last=_same,
        ),
        Mistake(
            name="no norm anywhere",
            function=_at(len(NAMES), first=_same, second=_same, last=_same),
            hint="Your stream is never normalized, and grows from block to block. How "
            "many norms are in the drawing?",
            more="One in front of each branch, and one more after the loop.",
        ),
        _wrong(
            "post-norm",
            "You put the norm behind each plus, on the road. That is the order of "
            "2017.",
            "In the drawing a norm stands on the branch: x + f(norm(x)). The road "
            "stays free.",
            6,
            steps=_post_norm,
        ),
        _wrong(
            "the normed stream is the road",
            "The branch starts from norm(x), and so does your plus: the old x is lost.",
            "Did you write x = norm(x)? Give the normed tensor another name.",
            6,
            road=lambda x, normed: normed,
        ),
        _wrong(
            "the heads come first, then the three roles",
            "You cut into heads first. Here the middle *third* of the columns makes "
            "the keys.",
            "In a pattern the first name in brackets runs slowest.",
            3,
            cut=_heads_first,
        ),
        _wrong(
            "the heads are reshaped without transposing",
            "The shape is right, but a reshape never moves a number past another: your "
            "heads mix positions.",
            "Cut the last axis into h and d, then exchange two axes.",
            3,
            cut=_reshaped,
        ),
        _wrong(
            "keys before queries",
            "The first third of the columns makes the queries, the second the keys. "
            "Yours are exchanged.",
            "Queries, keys, values, in this order.",
            3,
            cut=lambda fused, heads: _cut(fused, heads)[[1, 0, 2]],
        ),
        _wrong(
            "no mask",
            "Every position looks at the whole text, the future included. In training "
            "it would read its own label.",
            "True where the key is not later than the query; hide the rest with -inf "
            "before the softmax.",
            4,
            mask=_same,
        ),
        _wrong(
            "the mask is transposed",
            "Your words see themselves and what comes *later*.",
            "Row q, column k: may look where k ≤ q. Is that tril or triu?",
            4,
            mask=_transposed,
        ),
        Mistake(
            name="a word has nothing to look at",
            function=_at(len(NAMES), mask=_hidden),
            hint="A row of your mask hides everything, so its softmax is nan, and nan "
            "spreads.",
            more="A query may look at its own place and earlier ones. masked_fill "
            "fills where its mask is True: a tilde inverts a mask.",
            also=tuple(
                _at(place, mask=m) for place in (4, 7) for m in (_hidden, _not_itself)
            ),
        ),
        _wrong(
            "the mask comes after the softmax",
            "Your rows no longer sum to 1: the future was paid for and then erased.",
            "Hide first, with -inf in the scores. The softmax then shares out the "
            "rest.",
            4,
            mask=_same,
            soften=lambda scores: scores.softmax(dim=-1).tril(),
        ),
        _wrong(
            "no scale",
            "Your scores grow with the width of a head, and the softmax gets too "
            "sharp.",
            "A dot product of d numbers has size √d. Divide by it.",
            4,
            scale=lambda d, m: 1.0,
        ),
        _wrong(
            "scaled by the width of the stream",
            "You divide by √m. A score adds up over one head only.",
            "How many numbers does one key of one head have?",
            4,
            scale=lambda d, m: m**-0.5,
        ),
        _wrong(
            "divided by d without the root",
            "Your scores come out too small, so the weights are too even.",
            "The size of a sum of d random products is √d, not d.",
            4,
            scale=lambda d, m: 1 / d,
        ),
        _wrong(
            "softmax over the queries",
            "Your columns sum to 1. A query should share out its own attention.",
            "The last axis belongs to the keys.",
            4,
            soften=lambda scores: scores.softmax(dim=-2).nan_to_num(0.0),
        ),
        _wrong(
            "the heads are joined by a reshape",
            "The size fits, but the heads still stand before the positions, so rows "
            "are torn apart.",
            "Bring h beside d first: “b h t d” becomes “b t (h d)”.",
            5,
            join=lambda c: c.reshape(len(c), c.shape[2], -1),
        ),
        _wrong(
            "W_o is forgotten",
            "The context goes onto the stream as it is. One matrix of the attention is "
            "not used.",
            "W_o mixes what the heads have brought.",
            6,
            project=lambda context, W_o: context,
        ),
        _wrong(
            "no residual connection",
            "What a branch returns *replaces* your stream. After a few blocks the "
            "words are lost.",
            "A plus for each branch: x stays, and f(norm(x)) is added.",
            6,
            plus=lambda x, added: added,
        ),
        Mistake(
            name="both branches read the same x",
            function=_parallel,
            hint="Your feed-forward does not see what attention has just added. Some "
            "models work this way; GPT-2 does not.",
            more="Two lines, one after the other: the second reads the x of the first.",
        ),
        _wrong(
            "ReLU in place of GELU",
            "Everything fits but the activation function: yours has a kink.",
            "F.gelu; the ReLU was notebook 05's.",
            7,
            bend=F.relu,
        ),
        _wrong(
            "GELU in the tanh form",
            "OpenAI's GPT-2 does use this approximation. It differs from the exact "
            "GELU in the fourth digit.",
            "F.gelu without an argument.",
            7,
            bend=lambda x: F.gelu(x, approximate="tanh"),
        ),
        _wrong(
            "nothing bends between W_1 and W_2",
            "Two matrices with nothing in between are one matrix.",
            "An activation function stands between them.",
            7,
            bend=_same,
        ),
        _wrong(
            "only the first block",
            "Your stream passes one block. W_qkv has a matrix for each block.",
            "A loop over the first axis of W_qkv, W_o, W_1 and W_2.",
            9,
            depth=lambda blocks: [0],
        ),
        _wrong(
            "the first block again and again",
            "The loop has the right length, but it uses the matrices of block 0 every "
            "time.",
            "Is there a [0] that should be an [i]?",
            8,
            depth=lambda blocks: [0] * blocks,
        ),
        _wrong(
            "probabilities in place of logits",
            "You return a softmax. The loss and the sampler take one themselves.",
            "Return the scores as they are.",
            10,
            head=lambda x, E: (x @ E.T).softmax(dim=-1),
        ),
        _wrong(
            "the last position only",
            "One row of scores per text. Every position makes a prediction; the loss "
            "needs all.",
            "“b t v”: do not cut the positions here.",
            10,
            head=lambda x, E: x[:, -1] @ E.T,
        ),
    ),
    hint=(
        "Each id picks a row of E, and each place adds a row of P.",
        "In every block, two branches. The first: norm, one product with W_qkv, cut "
        "into three roles and heads.",
        "Scores over √d, the mask, a softmax, the mean of the values, the heads side "
        "by side, W_o, and add.",
        "The second: norm, W_1, GELU, W_2, and add.",
        "After the loop a norm, and the product with E transposed.",
    ),
    shared=logits_of_the_model,
    stages=tuple((name, _at(place)) for place, name in enumerate(NAMES)),
    trains=True,
)


EXERCISES = (FORWARD,)
