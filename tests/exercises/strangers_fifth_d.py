"""Answers of a stranger, written from the prompts alone."""

import math
from contextlib import ExitStack

import torch
from torch.distributions import Categorical

from tests.exercises.entries import Entries

ANSWERS = Entries()
wrong = ANSWERS.wrong
right = ANSWERS.right

IGNORED = -100
DAY = 24 * 60 * 60


def w_stays(before, after):
    """Equal up to rounding, measured by the largest finite number."""
    finite = before[before.isfinite()].abs()
    scale = finite.max().item() if finite.numel() else 0.0
    limits = {"rtol": 1e-5, "atol": 1e-5 * scale, "equal_nan": True}
    return bool(torch.isclose(after, before, **limits).all())


# Notebook 15: entropy


@wrong(
    "inside.entropy",
    "A single 0 makes the sum of its row nan, and nan_to_num makes that 0.",
    "the row 0.5, 0.5, 0: gives 0 instead of ln 2",
)
def w_entropy_nan_to_num(weights):
    return -(weights * weights.log()).sum(dim=-1).nan_to_num()


@wrong(
    "inside.entropy",
    "Takes the weights for scores and sends them through one more softmax.",
    "the row 1, 0, 0: gives 0.98 instead of 0",
)
def w_entropy_of_logits(weights):
    return Categorical(logits=weights).entropy()


@right("inside.entropy", "an einsum with logarithms that are safe at 0")
def w_entropy_by_einsum(weights):
    there = weights > 0
    logs = torch.where(there, weights, torch.ones_like(weights)).log()
    return -torch.einsum("...k,...k->...", weights, logs)


# ablation


@wrong(
    "inside.ablate",
    "Subtracts the head's part with the bias in it, so the bias goes as well.",
    "a to_output with a bias: the result lacks it",
)
def w_ablate_loses_bias(context, to_output, head):
    rows, _, length, _ = context.shape
    only = torch.zeros_like(context)
    only[:, head] = context[:, head]
    whole = to_output(context.transpose(1, 2).reshape(rows, length, -1))
    part = to_output(only.transpose(1, 2).reshape(rows, length, -1))
    return whole - part


@wrong(
    "inside.ablate",
    "Sets a slice of the output to zero, behind the projection that mixes the heads.",
    "any context: numbers of the output are 0, and the head's part is in the others",
)
def w_ablate_after_projection(context, to_output, head):
    rows, _, length, depth = context.shape
    output = to_output(context.transpose(1, 2).reshape(rows, length, -1)).clone()
    output[..., head * depth : (head + 1) * depth] = 0
    return output


@right("inside.ablate", "where on the number of the head, then flatten")
def w_ablate_by_where(context, to_output, head):
    numbers = torch.arange(context.shape[1], device=context.device)
    silent = (numbers == head).view(1, -1, 1, 1)
    left = torch.where(silent, torch.zeros_like(context), context)
    return to_output(left.permute(0, 2, 1, 3).flatten(start_dim=2))


# hook


@wrong(
    "inside.hook",
    "Notes what the change made, not what the module returned.",
    "change = zeros: the first tensor is all 0",
)
def w_hook_notes_the_change(model, name, change, x):
    seen = {}

    def hook(module, inputs, output):
        seen["output"] = change(output)
        return seen["output"]

    handle = model.get_submodule(name).register_forward_hook(hook)
    changed = model(x)
    handle.remove()
    return seen["output"], changed, model(x)


@wrong(
    "inside.hook",
    "Removes the hook after the last pass only, so that pass is changed, too.",
    "change = zeros: the third tensor equals the second",
)
def w_hook_removed_late(model, name, change, x):
    seen = []

    def hook(module, inputs, output):
        seen.append(output)
        return change(output)

    handle = model.get_submodule(name).register_forward_hook(hook)
    try:
        changed = model(x)
        afterwards = model(x)
    finally:
        handle.remove()
    return seen[0], changed, afterwards


@right("inside.hook", "an exit stack takes the hook out, even after an error")
def w_hook_by_exit_stack(model, name, change, x):
    returned = []

    def swap(module, inputs, output):
        returned.append(output)
        return change(output.clone())

    module = dict(model.named_modules())[name]
    with ExitStack() as stack:
        stack.callback(module.register_forward_hook(swap).remove)
        changed = model(x)
    return returned[0], changed, model(x)


# the next key

wrong("inside.next_key", "the earlier occurrence itself", "")(3)
wrong("inside.next_key", "the token there, 20, and not its position", "")(20)
right("inside.next_key", "one after the first 17, which stands at 3")(4)


# look back


@wrong(
    "inside.look_back",
    "The first query counts as well: position 0 - 1 is the last key.",
    "causal, t = 4, all weight on the token before: 0.75 instead of 1",
)
def w_look_back_with_first(weights):
    queries = torch.arange(weights.shape[-1])
    return weights[:, :, queries, queries - 1].mean(dim=(0, 2))


@wrong(
    "inside.look_back",
    "Counts how often the token before has the largest weight, not its weight.",
    "weights 0.6 before and 0.4 on itself: 1 instead of 0.6",
)
def w_look_back_by_argmax(weights):
    top = weights[:, :, 1:].argmax(dim=-1)
    before = torch.arange(weights.shape[-1] - 1)
    return (top == before).to(weights.dtype).mean(dim=(0, 2))


@right("inside.look_back", "the trace of the weights without first row, last column")
def w_look_back_by_trace(weights):
    rows, _, length, _ = weights.shape
    total = torch.einsum("bhtt->h", weights[:, :, 1:, :-1])
    return total / (rows * (length - 1))


# induction in any text


@wrong(
    "inside.induction",
    "Averages over each text first, so that a text with few places counts as much.",
    "texts with one and with five such queries: another mean than over all six",
)
def w_induction_mean_of_means(weights, ids):
    scores = []
    for found, row in zip(weights, ids.tolist(), strict=True):
        last = {}
        picked = []
        for query, token in enumerate(row):
            if token in last:
                picked.append(found[:, query, last[token] + 1])
            last[token] = query
        if picked:
            scores.append(torch.stack(picked).mean(dim=0))
    return torch.stack(scores).mean(dim=0)


@wrong(
    "inside.induction",
    "Leaves out the place just before the query, whose next key is the query itself.",
    "ids 5 5: the query at 1 does not count, though its place is 0 and its key 1",
)
def w_induction_not_neighbors(weights, ids):
    length = ids.shape[1]
    same = (ids[:, :, None] == ids[:, None, :]).tril(-2)
    after = (same * torch.arange(1, length + 1)).amax(dim=-1)
    picked = weights.gather(3, after[:, None, :, None].expand(*weights.shape[:3], 1))
    counts = (after > 0).to(weights.dtype)
    return (picked[..., 0] * counts[:, None]).sum(dim=(0, 2)) / counts.sum()


@right("inside.induction", "a dictionary of last places, text by text")
def w_induction_by_dictionary(weights, ids):
    picked = []
    for text, row in enumerate(ids.tolist()):
        last = {}
        for query, token in enumerate(row):
            if token in last:
                picked.append(weights[text, :, query, last[token] + 1])
            last[token] = query
    if not picked:
        return weights.new_full(weights.shape[1:2], math.nan)
    return torch.stack(picked, dim=1).mean(dim=1)


# Notebook 16: a number known beforehand


@wrong(
    "clinic.misjudges",
    "Without the absolute value, a loss that is too small is fine.",
    "a loss that is half the cross-entropy: False instead of True",
)
def w_misjudges_only_above(loss, labels, vocab_size):
    zeros = torch.zeros(*labels.shape, vocab_size)
    sure = zeros.scatter(2, labels.clamp(min=0)[..., None], 50.0)
    too_high = float(loss(zeros, labels)) - math.log(vocab_size) > 0.001
    return too_high or float(loss(sure, labels)) > 0.001


@wrong(
    "clinic.misjudges",
    "Rings only if both numbers are off.",
    "a second softmax: ln V for zeros is right, so False instead of True",
)
def w_misjudges_both(loss, labels, vocab_size):
    zeros = torch.zeros(*labels.shape, vocab_size)
    sure = zeros.scatter(2, labels.clamp(min=0)[..., None], 50.0)
    blind = abs(float(loss(zeros, labels)) - math.log(vocab_size)) > 0.001
    return blind and abs(float(loss(sure, labels))) > 0.001


@right("clinic.misjudges", "isclose, asked in a loop; nan is not close")
def w_misjudges_in_a_loop(loss, labels, vocab_size):
    hits = labels[..., None] == torch.arange(vocab_size)
    for height, wanted in ((0.0, math.log(vocab_size)), (50.0, 0.0)):
        found = float(loss(height * hits.float(), labels))
        if not math.isclose(found, wanted, rel_tol=0.0, abs_tol=0.001):
            return True
    return False


# order


@wrong(
    "clinic.order_blind",
    "Compares all outputs, and those of other words stand at other places.",
    "a block without positions: the outputs before the last move, False",
)
def w_order_blind_all_outputs(outputs, ids):
    turned = torch.cat([ids[:, :-1].flip(1), ids[:, -1:]], dim=1)
    with torch.no_grad():
        return torch.allclose(outputs(ids), outputs(turned), atol=1e-5)


@wrong(
    "clinic.order_blind",
    "The tolerance is as large as what weak positions do.",
    "a healthy model whose outputs of size 0.01 depend on the order: True",
)
def w_order_blind_coarse(outputs, ids):
    turned = torch.cat([ids[:, :-1].flip(1), ids[:, -1:]], dim=1)
    with torch.no_grad():
        moved = outputs(ids)[:, -1] - outputs(turned)[:, -1]
    return bool(moved.abs().max() < 0.02)


@right("clinic.order_blind", "a list of places, and a tolerance by the size")
def w_order_blind_by_index(outputs, ids):
    last = ids.shape[1] - 1
    places = [*range(last - 1, -1, -1), last]
    with torch.no_grad():
        before = outputs(ids)[:, last].clone()
        after = outputs(ids[:, places])[:, last]
    return w_stays(before, after)


# source


@wrong(
    "clinic.ignores_source",
    "The other source is that of the next row; with one row it is the same.",
    "a healthy model and one row: True",
)
def w_ignores_source_rolled(logits, source, target, vocab_size):
    with torch.no_grad():
        before = logits(source, target)
        after = logits(source.roll(1, dims=0), target)
    return torch.allclose(before, after, atol=1e-6)


@wrong(
    "clinic.ignores_source",
    "Watches the most probable word only, not the logits.",
    "a source that moves the logits by little: the same words win, True",
)
def w_ignores_source_words(logits, source, target, vocab_size):
    other = (source + 1) % vocab_size
    with torch.no_grad():
        before = logits(source, target).argmax(dim=-1)
        after = logits(other, target).argmax(dim=-1)
    return torch.equal(before, after)


@right("clinic.ignores_source", "many random sources, without the id 0 if possible")
def w_ignores_source_many(logits, source, target, vocab_size):
    generator = torch.Generator().manual_seed(11)
    lowest = 1 if vocab_size > 2 else 0
    with torch.no_grad():
        before = logits(source, target).clone()
        for _ in range(16):
            shape = tuple(source.shape)
            other = torch.randint(lowest, vocab_size, shape, generator=generator)
            if not w_stays(before, logits(other.to(source.device), target)):
                return False
    return True


# labels


@wrong(
    "clinic.never_a_label",
    "Ids that are only inputs count as seen.",
    "<bos>, which is an input in each row and never a label, is not found",
)
def w_never_seen_at_all(batches, steps, vocab_size):
    seen = set()
    for step in range(steps):
        for ids in batches(step):
            seen.update(ids.flatten().tolist())
    return [token for token in range(vocab_size) if token not in seen]


@wrong(
    "clinic.never_a_label",
    "Gives the ids that at least one batch lacks, not those that all lack.",
    "labels 0 1 and then 2 3 of four ids: all four instead of none",
)
def w_never_in_one_batch(batches, steps, vocab_size):
    missing = set()
    for step in range(steps):
        _, labels = batches(step)
        missing |= set(range(vocab_size)) - set(labels.flatten().tolist())
    return sorted(missing)


@right("clinic.never_a_label", "a histogram over all batches")
def w_never_by_histogram(batches, steps, vocab_size):
    counts = torch.zeros(vocab_size, dtype=torch.long)
    for step in range(steps):
        labels = batches(step)[1].flatten()
        labels = labels[(labels >= 0) & (labels < vocab_size)]
        counts = counts + torch.bincount(labels, minlength=vocab_size)
    return [token for token, count in enumerate(counts.tolist()) if count == 0]


# gradient


@wrong(
    "clinic.dead_parameters",
    "Gradients of an earlier step are still there and count.",
    "a dead parameter whose grad is 1 from before is not named",
)
def w_dead_with_old_gradients(model, loss):
    loss(model).backward()
    return [
        name
        for name, weight in model.named_parameters()
        if weight.grad is None or not weight.grad.any()
    ]


@wrong(
    "clinic.dead_parameters",
    "A gradient whose numbers add up to 0 is taken for none.",
    "the bias before a cross-entropy: its gradient adds up to 0, and it is named",
)
def w_dead_by_sum(model, loss):
    model.zero_grad()
    loss(model).backward()
    dead = []
    for name, weight in model.named_parameters():
        if weight.grad is None or abs(weight.grad.sum().item()) < 1e-6:
            dead.append(name)
    return dead


@right("clinic.dead_parameters", "autograd.grad, which touches no stored gradient")
def w_dead_by_autograd(model, loss):
    named = dict(model.named_parameters())
    trained = {name: w for name, w in named.items() if w.requires_grad}
    with torch.enable_grad():
        value = loss(model)
    alive = set()
    if value.requires_grad:
        weights = list(trained.values())
        gradients = torch.autograd.grad(value, weights, allow_unused=True)
        for name, gradient in zip(trained, gradients, strict=True):
            if gradient is not None and torch.count_nonzero(gradient) > 0:
                alive.add(name)
    return [name for name in named if name not in alive]


# false alarm

wrong("clinic.rings", "noise makes everything ring", "")((True, True, True))
wrong("clinic.rings", "dropout does not cross rows", "")((True, False, False))
right("clinic.rings", "two ring if something moves, one if it stays")(
    (True, False, True)
)


# the leak


@wrong(
    "clinic.leaks_future",
    "Turns the later tokens round, which a mean over the future does not notice.",
    "outputs that hold the mean of all tokens: False instead of True",
)
def w_leaks_by_turning(logits, ids, vocab_size):
    with torch.no_grad():
        before = logits(ids)
        for cut in range(1, ids.shape[1]):
            other = torch.cat([ids[:, :cut], ids[:, cut:].flip(1)], dim=1)
            after = logits(other)
            if not torch.allclose(before[:, :cut], after[:, :cut], atol=1e-4):
                return True
    return False


@wrong(
    "clinic.leaks_future",
    "Changes one token and watches only the output just before it.",
    "outputs that see the token two places later: False instead of True",
)
def w_leaks_next_only(logits, ids, vocab_size):
    with torch.no_grad():
        before = logits(ids)
        for place in range(1, ids.shape[1]):
            other = ids.clone()
            other[:, place] = (other[:, place] + 1) % vocab_size
            after = logits(other)[:, place - 1]
            if not torch.allclose(before[:, place - 1], after, atol=1e-4):
                return True
    return False


@right("clinic.leaks_future", "at each cut all later tokens, and one alone, at random")
def w_leaks_at_each_cut(logits, ids, vocab_size):
    if vocab_size < 2:
        return False
    generator = torch.Generator().manual_seed(5)
    length = ids.shape[1]
    places = torch.arange(length, device=ids.device)
    with torch.no_grad():
        before = logits(ids).clone()
        for cut in range(1, length):
            for touched in (places >= cut, places >= cut, places == cut):
                shape = tuple(ids.shape)
                shift = torch.randint(1, vocab_size, shape, generator=generator)
                other = (ids + shift.to(ids.device) * touched) % vocab_size
                if not w_stays(before[:, :cut], logits(other)[:, :cut]):
                    return True
    return False


# by heart


@wrong(
    "clinic.cannot_memorize",
    "Takes the best loss on the way instead of the last.",
    "losses 2, 0.1, 5: False instead of True",
)
def w_cannot_memorize_best(losses_of, batches):
    batch = batches(0)
    return min(losses_of(lambda step: batch)) > 0.3


@wrong(
    "clinic.cannot_memorize",
    "Shows new tales at each step, which nobody can learn by heart.",
    "a healthy model: its last loss is the floor, 0.35, and it is accused",
)
def w_cannot_memorize_new_tales(losses_of, batches):
    return losses_of(batches)[-1] > 0.3


@right("clinic.cannot_memorize", "a named function; nan is not by heart either")
def w_cannot_memorize_kept(losses_of, batches):
    kept = batches(0)

    def always_the_first(step):
        return kept

    *_, last = losses_of(always_the_first)
    return not float(last) <= 0.3


# Notebook 17: parameters


@wrong(
    "scaling.parameters",
    "Keys and values are narrow on both sides.",
    "d_model = 16, 4 heads, 2 of keys: 8 × 8 instead of 16 × 8",
)
def w_parameters_narrow_twice(config):
    m = config.d_model
    narrow = m // config.num_heads * config.num_kv_heads
    block = 2 * m * m + 2 * narrow * narrow + 3 * m * config.d_ff + 2 * m
    tables = config.vocab_size * m * (1 if config.tied else 2)
    return config.num_layers * block + tables + m


@wrong(
    "scaling.parameters",
    "Gives the untied output table a bias, which it does not have.",
    "tied = False, vocab_size = 10: 10 too many",
)
def w_parameters_bias_of_head(config):
    m = config.d_model
    narrow = m // config.num_heads * config.num_kv_heads
    block = 2 * m * m + 2 * m * narrow + 3 * m * config.d_ff + 2 * m
    total = config.num_layers * block + config.vocab_size * m + m
    return total if config.tied else total + config.vocab_size * (m + 1)


@right("scaling.parameters", "a list of shapes, multiplied and added")
def w_parameters_by_shapes(config):
    m = config.d_model
    narrow = config.num_kv_heads * (m // config.num_heads)
    block = [(m, m), (m, narrow), (m, narrow), (m, m)]
    block += [(m, config.d_ff)] * 3
    block += [(m,)] * 2
    everything = block * config.num_layers + [(config.vocab_size, m), (m,)]
    if not config.tied:
        everything.append((m, config.vocab_size))
    return sum(math.prod(shape) for shape in everything)


# operations


@wrong(
    "scaling.flops",
    "Halves attention's products, as if what the mask hides did not count.",
    "any length: 6 instead of 12 per length, width and layer",
)
def w_flops_causal_half(matrices, layers, width, length, tokens):
    seen = length / 2
    return tokens * (6 * matrices + 12 * layers * width * seen)


@wrong(
    "scaling.flops",
    "The square of the length for each token, though each is one row of the square.",
    "length = 64: attention's part is 64 times too large",
)
def w_flops_length_squared(matrices, layers, width, length, tokens):
    return 6 * matrices * tokens + 12 * layers * width * length**2 * tokens


@right("scaling.flops", "two products, forward and twice backward, added by steps")
def w_flops_step_by_step(matrices, layers, width, length, tokens):
    forward = 2 * matrices
    for _product in ("queries with keys", "weights with values"):
        forward += layers * 2 * length * width
    backward = 2 * forward
    return tokens * (forward + backward)


# bytes

wrong("scaling.bytes", "only one of the two averages", "")(12)
wrong("scaling.bytes", "weight and gradient, no averages", "")(8)
right("scaling.bytes", "weight, gradient, two averages, four bytes each")(16)


# activations


@wrong(
    "scaling.activations",
    "Counts x twice, for the gate and for up.",
    "rows = length = 1, width = 2, hidden = 3: 32 instead of 28",
)
def w_activations_x_twice(rows, length, width, hidden):
    return 2 * rows * length * (2 * width + 4 * hidden)


@wrong(
    "scaling.activations",
    "Forgets s, which the product with u keeps.",
    "rows = length = 1, width = 2, hidden = 3: 22 instead of 28",
)
def w_activations_without_s(rows, length, width, hidden):
    return 2 * rows * length * (width + 3 * hidden)


@right("scaling.activations", "a table of what is kept")
def w_activations_by_table(rows, length, width, hidden):
    kept = {"x": width} | dict.fromkeys(("g", "s", "u", "h"), hidden)
    bytes_per_number = 2
    return rows * length * bytes_per_number * sum(kept.values())


# days


@wrong(
    "scaling.days",
    "Multiplies by the share, so that idle machines are faster.",
    "share = 0.5: a quarter of the days",
)
def w_days_times_share(parameters, tokens, machines, speed, share):
    return 6 * parameters * tokens / (machines * speed) * share / DAY


@wrong(
    "scaling.days",
    "Rounds up to whole days.",
    "half a day: 1 instead of 0.5",
)
def w_days_rounded_up(parameters, tokens, machines, speed, share):
    return math.ceil(6 * parameters * tokens / (machines * speed * share) / DAY)


@right("scaling.days", "what the machines do in a day, then one division")
def w_days_by_daily_work(parameters, tokens, machines, speed, share):
    daily = machines * share * speed * DAY
    work = (2 + 4) * parameters * tokens
    return work / daily


# power law


@wrong(
    "scaling.power",
    "The slope between the first and the last run, without those between.",
    "losses that do not lie on one line: another slope than by least squares",
)
def w_power_two_points(compute, losses):
    run = compute.log()
    fall = losses.log()
    return (fall[0] - fall[-1]) / (run[-1] - run[0])


@wrong(
    "scaling.power",
    "Forgets the height a: its line goes through the origin of the logarithms.",
    "losses = 3 compute ** -0.5: not 0.5",
)
def w_power_without_height(compute, losses):
    x = compute.log()
    return -(x @ losses.log()) / (x @ x)


@right("scaling.power", "the pseudo-inverse, in double precision")
def w_power_by_pinv(compute, losses):
    x = compute.double().log()
    y = losses.double().log()
    middle = x.mean()
    table = torch.stack([x - middle, torch.ones_like(x)], dim=1)
    slope, _height = torch.linalg.pinv(table) @ y
    return (-slope).to(losses.dtype)


@wrong(
    "scaling.halving",
    "The power is not turned over.",
    "b = 0.5: 1.41 instead of 4",
)
def w_halving_not_inverted(b):
    return 2**b


@wrong(
    "scaling.halving",
    "Loses the minus of the exponent: the factor says how much less.",
    "b = 0.5: 0.25 instead of 4",
)
def w_halving_sign(b):
    return 0.5 ** (1 / b)


@right("scaling.halving", "by logarithms: b ln k = ln 2")
def w_halving_by_logarithms(b):
    return math.exp(math.log(2) / float(b))


# padding


@wrong(
    "scaling.padding",
    "The last batch counts as if it were full.",
    "lengths 3 3 3 in batches of 2: 0.25 instead of 0",
)
def w_padding_last_full(lengths, size):
    batches = [lengths[i : i + size] for i in range(0, len(lengths), size)]
    places = sum(size * max(batch) for batch in batches)
    return 1 - sum(lengths) / places


@wrong(
    "scaling.padding",
    "The mean of the batches' shares, though batches differ in size.",
    "lengths 1 1 10 20 in batches of 2: 0.125 instead of 0.238",
)
def w_padding_mean_of_shares(lengths, size):
    shares = []
    for start in range(0, len(lengths), size):
        batch = lengths[start : start + size]
        shares.append(1 - sum(batch) / (len(batch) * max(batch)))
    return sum(shares) / len(shares)


@right("scaling.padding", "counts each empty place")
def w_padding_place_by_place(lengths, size):
    empty = 0
    places = 0
    for start in range(0, len(lengths), size):
        batch = lengths[start : start + size]
        longest = max(batch)
        for length in batch:
            places += longest
            empty += longest - length
    return empty / places


# ranks


@wrong(
    "scaling.rows_of_rank",
    "Gives each rank a block of rows; in the drawing they take turns.",
    "4 rows, rank 0 of 2: rows 0 and 1 instead of 0 and 2",
)
def w_rows_in_blocks(batch, rank, count):
    return batch.tensor_split(count)[rank]


@wrong(
    "scaling.rows_of_rank",
    "Drops the rows that do not fill a round.",
    "5 rows, rank 0 of 2: row 4 is missing",
)
def w_rows_whole_rounds(batch, rank, count):
    rounds = len(batch) // count
    return batch[: rounds * count].unflatten(0, (rounds, count))[:, rank]


@right("scaling.rows_of_rank", "the rows whose number leaves the rank as remainder")
def w_rows_by_remainder(batch, rank, count):
    numbers = torch.arange(len(batch), device=batch.device)
    return batch[numbers % count == rank]


@wrong(
    "scaling.per_process",
    "Divides only the averages, as stage 1 of ZeRO does.",
    "100 parameters, 4 processes, sharded: 1000 instead of 400",
)
def w_per_process_stage_one(parameters, processes, sharded):
    averages = 8 * parameters / processes if sharded else 8 * parameters
    return 8 * parameters + averages


@wrong(
    "scaling.per_process",
    "Without sharding, too, the gradients are divided among the processes.",
    "100 parameters, 4 processes, not sharded: 1300 instead of 1600",
)
def w_per_process_shared_gradients(parameters, processes, sharded):
    if sharded:
        return 16 * parameters / processes
    return 12 * parameters + 4 * parameters / processes


@right("scaling.per_process", "four kinds of numbers, each in as many parts")
def w_per_process_by_kind(parameters, processes, sharded):
    parts = {True: processes, False: 1}[bool(sharded)]
    kinds = ("weight", "gradient", "first average", "second average")
    return sum(4 * parameters for _kind in kinds) / parts


# mean over ranks


@wrong(
    "scaling.mean_over_ranks",
    "Counts all places, also those that are -100.",
    "two ranks of 4 places, one with 3 labels and one with 1: equal shares",
)
def w_mean_all_places(losses, labels):
    places = torch.tensor([ids.numel() for ids in labels], dtype=losses.dtype)
    asked = ~losses.isnan()
    return (losses[asked] * places[asked]).sum() / places[asked].sum()


@wrong(
    "scaling.mean_over_ranks",
    "Makes every nan 0, also that of a rank which has labels and has diverged.",
    "losses nan and 1, each rank with 2 labels: 0.5 instead of nan",
)
def w_mean_hides_nan(losses, labels):
    counts = torch.stack([(ids != IGNORED).sum() for ids in labels])
    return (losses.nan_to_num() * counts).sum() / counts.sum()


@right("scaling.mean_over_ranks", "a loop that skips ranks without labels")
def w_mean_in_a_loop(losses, labels):
    total = losses.new_zeros(())
    count = 0
    for loss, ids in zip(losses.unbind(), labels, strict=True):
        asked = int(torch.count_nonzero(ids != IGNORED))
        if asked:
            total = total + asked * loss
            count += asked
    return total / count if count else total * math.nan
