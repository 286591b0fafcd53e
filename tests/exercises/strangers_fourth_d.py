"""Answers of a stranger, written from the prompts alone."""

import math

import torch
from einops import rearrange
from torch.nn import functional as F

from tests.exercises.entries import Entries

ANSWERS = Entries()
wrong = ANSWERS.wrong
right = ANSWERS.right


# 15: entropy


@wrong(
    "inside.entropy",
    "The nan of 0 · ln 0 is replaced after the sum, so a row with one zero loses all.",
    "[0.5, 0.5, 0.0]: 0 instead of ln 2",
)
def s_entropy_zero_too_late(weights):
    return -(weights * weights.log()).sum(dim=-1).nan_to_num(0.0)


@wrong(
    "inside.entropy",
    "Divides by the largest possible entropy: a share, not nats.",
    "four equal weights: 1 instead of ln 4",
)
def s_entropy_as_share(weights):
    safe = weights.clamp(min=torch.finfo(weights.dtype).tiny)
    nats = -(weights * safe.log()).sum(dim=-1)
    return nats / math.log(weights.shape[-1])


@right("inside.entropy", "the logarithm of 1 where nothing is")
def s_entropy_by_where(weights):
    present = weights > 0
    surprise = -torch.where(present, weights, torch.ones_like(weights)).log()
    return torch.einsum("...k, ...k -> ...", weights, surprise)


# 15: ablation


@wrong(
    "inside.ablate",
    "Takes the head's own output off; the bias goes with it.",
    "a projection with a bias: the bias is missing",
)
def s_ablate_by_difference(context, to_output, head):
    alone = torch.zeros_like(context)
    alone[:, head] = context[:, head]
    merged = [rearrange(x, "b h q d -> b q (h d)") for x in (context, alone)]
    return to_output(merged[0]) - to_output(merged[1])


@wrong(
    "inside.ablate",
    "Merges the heads with the width outside and the head inside.",
    "2 heads of width 2: the columns are (h0 h1 h0 h1), not (h0 h0 h1 h1)",
)
def s_ablate_merged_inside_out(context, to_output, head):
    silenced = context.clone()
    silenced[:, head] = 0
    return to_output(rearrange(silenced, "b h q d -> b q (d h)"))


@right("inside.ablate", "a list of heads, one replaced, joined along the width")
def s_ablate_by_cat(context, to_output, head):
    heads = list(context.unbind(dim=1))
    heads[head] = torch.zeros_like(heads[head])
    return to_output(torch.cat(heads, dim=-1))


# 15: hook


@wrong(
    "inside.hook",
    "Records what `change` made of it, not what the module returned.",
    "change = zeros: the record is all zero",
)
def s_hook_records_the_change(model, name, change, x):
    kept = []

    def hook(module, inputs, output):
        kept.append(change(output))
        return kept[-1]

    handle = model.get_submodule(name).register_forward_hook(hook)
    changed = model(x)
    handle.remove()
    return kept[0], changed, model(x)


@wrong(
    "inside.hook",
    "Clears all hooks of the module, also those that were there before.",
    "a module that had a doubling hook: the output afterwards is not doubled",
)
def s_hook_clears_all(model, name, change, x):
    kept = {}
    module = model.get_submodule(name)

    def hook(module, inputs, output):
        kept["output"] = output.clone()
        return change(output)

    module.register_forward_hook(hook)
    changed = model(x)
    module._forward_hooks.clear()
    return kept["output"], changed, model(x)


@right("inside.hook", "try and finally, and a copy for the record")
def s_hook_with_finally(model, name, change, x):
    record = None

    def hook(module, inputs, output):
        nonlocal record
        record = output.clone() if isinstance(output, torch.Tensor) else output
        return change(output)

    handle = dict(model.named_modules())[name].register_forward_hook(hook)
    try:
        changed = model(x)
    finally:
        handle.remove()
    afterwards = model(x)
    return record, changed, afterwards


# 15: the key of an induction head

wrong("inside.next_key", "the earlier 17 itself, not the one after it", "")(3)
wrong("inside.next_key", "the place after the query, which is the future", "")(10)
right("inside.next_key", "the first 17 is at 9 - 6 = 3, the next place is 4")(4)


# 15: looking back


@wrong(
    "inside.look_back",
    "Cuts the first query and the first key: the diagonal is the token itself.",
    "weights that are the identity: 1 instead of 0",
)
def s_look_back_at_itself(weights):
    return weights[:, :, 1:, 1:].diagonal(dim1=-2, dim2=-1).mean(dim=(0, 2))


@wrong(
    "inside.look_back",
    "Divides by all queries, also the first, which has no token before.",
    "4 tokens, a head that always looks back: 3/4 instead of 1",
)
def s_look_back_over_all(weights):
    batch, _, length, _ = weights.shape
    total = weights.diagonal(offset=-1, dim1=-2, dim2=-1).sum(dim=(0, 2))
    return total / (batch * length)


@right("inside.look_back", "pairs of indices")
def s_look_back_by_indices(weights):
    query = torch.arange(1, weights.shape[-2], device=weights.device)
    before = weights[:, :, query, query - 1]
    return before.transpose(0, 1).flatten(1).mean(dim=1)


# 15: induction


def s_pairs(ids, keep_first=False):
    """Row, query and key of each query that has an earlier place."""
    found = []
    for row, words in enumerate(ids.tolist()):
        places = {}
        for query, word in enumerate(words):
            if word in places:
                found.append((row, query, places[word] + 1))
            if not (keep_first and word in places):
                places[word] = query
    return torch.tensor(found, dtype=torch.int64, device=ids.device).reshape(-1, 3)


@wrong(
    "inside.induction",
    "Takes the first earlier place, not the last.",
    "ids 5 1 5 2 5: the last query's key is 1 instead of 3",
)
def s_induction_first_place(weights, ids):
    row, query, key = s_pairs(ids, keep_first=True).unbind(dim=1)
    return weights[row, :, query, key].mean(dim=0)


@wrong(
    "inside.induction",
    "Leaves out the place directly before, whose next is the query itself.",
    "ids 3 3 1: the second 3 is not counted",
)
def s_induction_no_neighbours(weights, ids):
    length = ids.shape[1]
    same = (ids[:, :, None] == ids[:, None, :]).tril(-2)
    number = torch.arange(1, length + 1, device=ids.device)
    key = (same * number).amax(dim=-1)
    row, query = key.nonzero(as_tuple=True)
    return weights[row, :, query, key[row, query]].mean(dim=0)


@right("inside.induction", "a dictionary of last places")
def s_induction_by_dictionary(weights, ids):
    row, query, key = s_pairs(ids).unbind(dim=1)
    return weights[row, :, query, key].mean(dim=0)


# 16: a number known beforehand


def s_confident(labels, vocab_size, size):
    """Logits with `size` at the label, and nothing where there is no label."""
    known = labels >= 0
    return F.one_hot(labels.clamp(min=0), vocab_size) * known[..., None] * float(size)


@wrong(
    "clinic.misjudges",
    "Rings only if both numbers are wrong.",
    "a loss in bits is wrong for zeros alone, and gets away",
)
def s_misjudges_both(loss, labels, vocab_size):
    zeros = float(loss(torch.zeros(*labels.shape, vocab_size), labels))
    sure = float(loss(s_confident(labels, vocab_size, 50), labels))
    return abs(zeros - math.log(vocab_size)) > 1e-3 and abs(sure) > 1e-3


@wrong(
    "clinic.misjudges",
    "A one-hot row as logits is correct, but far from confident.",
    "cross-entropy with 10 tokens: the loss is 1.5, and the healthy loss is accused",
)
def s_misjudges_timid(loss, labels, vocab_size):
    zeros = float(loss(torch.zeros(*labels.shape, vocab_size), labels))
    sure = float(loss(s_confident(labels, vocab_size, 1), labels))
    return abs(zeros - math.log(vocab_size)) > 1e-3 or abs(sure) > 1e-3


@right("clinic.misjudges", "two pairs of what came and what is wanted")
def s_misjudges_by_pairs(loss, labels, vocab_size):
    sure = s_confident(labels, vocab_size, 50)
    wanted = [(torch.zeros_like(sure), math.log(vocab_size)), (sure, 0.0)]
    return not all(
        math.isclose(float(loss(logits, labels)), number, rel_tol=1e-4, abs_tol=1e-4)
        for logits, number in wanted
    )


# 16: order


def s_stays(before, after):
    """Equal up to rounding, measured by the size of the numbers."""
    scale = before.abs().max().item()
    return torch.allclose(before, after, rtol=0.0, atol=1e-5 * scale)


@wrong(
    "clinic.order_blind",
    "Compares exactly, though sums in another order round differently.",
    "a decoder of one layer without positions: moves by 1e-8 and gets away",
)
def s_order_blind_exactly(outputs, ids):
    turned = torch.cat([ids[:, :-1].flip(1), ids[:, -1:]], dim=1)
    return torch.equal(outputs(ids)[:, -1], outputs(turned)[:, -1])


@wrong(
    "clinic.order_blind",
    "Turns the whole text, so the last word stands first and sees nothing before it.",
    "a causal decoder of one layer without positions is sick, and gets away",
)
def s_order_blind_last_first(outputs, ids):
    return s_stays(outputs(ids)[:, -1], outputs(ids.flip(1)).flip(1)[:, -1])


@right("clinic.order_blind", "an order of columns: the last stays, the rest turned")
def s_order_blind_by_columns(outputs, ids):
    last = ids.shape[1] - 1
    order = [*range(last - 1, -1, -1), last]
    with torch.no_grad():
        return s_stays(outputs(ids)[:, -1], outputs(ids[:, order])[:, -1])


# 16: the source


@wrong(
    "clinic.ignores_source",
    "Changes only the order of the source, not its words.",
    "a model that reads the source as a bag of words is healthy, and accused",
)
def s_ignores_source_turned(logits, source, target, vocab_size):
    return s_stays(logits(source, target), logits(source.flip(1), target))


@wrong(
    "clinic.ignores_source",
    "Watches the best token instead of the logits.",
    "a newborn whose logits move a little: the best token stays, it is accused",
)
def s_ignores_source_best(logits, source, target, vocab_size):
    other = (source + 1) % vocab_size
    before = logits(source, target).argmax(dim=-1)
    return torch.equal(before, logits(other, target).argmax(dim=-1))


@right("clinic.ignores_source", "several other sources, drawn with an own generator")
def s_ignores_source_often(logits, source, target, vocab_size):
    generator = torch.Generator().manual_seed(1)
    shape = tuple(source.shape)
    with torch.no_grad():
        before = logits(source, target)
        for attempt in range(8):
            step = torch.randint(1, max(2, vocab_size), shape, generator=generator)
            if attempt == 0:
                step = torch.ones(shape, dtype=torch.int64)
            other = (source + step.to(source.device)) % vocab_size
            if not s_stays(before, logits(other, target)):
                return False
    return True


# 16: labels


@wrong(
    "clinic.never_a_label",
    "-100 is raised to 0, so token 0 counts as a label.",
    "labels [[-100, 1]], three tokens: [2] instead of [0, 2]",
)
def s_never_a_label_clamped(batches, steps, vocab_size):
    counts = torch.zeros(vocab_size, dtype=torch.int64)
    for step in range(steps):
        labels = batches(step)[-1].flatten().clamp(min=0)
        counts += torch.bincount(labels, minlength=vocab_size)
    return (counts == 0).nonzero().flatten().tolist()


@wrong(
    "clinic.never_a_label",
    "Counts tokens that are read as well as those that are asked for.",
    "inputs [[2, 1]], labels [[1, 1]]: 2 is missing from the list",
)
def s_never_a_label_nor_input(batches, steps, vocab_size):
    seen = set()
    for step in range(steps):
        for part in batches(step):
            seen |= set(part.flatten().tolist())
    return [token for token in range(vocab_size) if token not in seen]


@right("clinic.never_a_label", "a table of what was seen")
def s_never_a_label_by_table(batches, steps, vocab_size):
    unseen = torch.ones(vocab_size, dtype=torch.bool)
    for step in range(steps):
        *_, labels = batches(step)
        unseen[labels[labels >= 0].cpu()] = False
    return torch.arange(vocab_size)[unseen].tolist()


# 16: the gradient


@wrong(
    "clinic.dead_parameters",
    "Looks at .grad without emptying it: old gradients make idle parameters alive.",
    "a model whose idle layer has a .grad from an earlier step",
)
def s_dead_parameters_stale(model, loss):
    loss(model).backward()
    return [
        name
        for name, weight in model.named_parameters()
        if weight.grad is None or not weight.grad.any()
    ]


@wrong(
    "clinic.dead_parameters",
    "Adds the gradient up: what cancels counts as zero.",
    "a loss w[0] - w[1]: the gradient 1, -1 sums to 0 and w is accused",
)
def s_dead_parameters_by_sum(model, loss):
    names, weights = zip(*model.named_parameters(), strict=True)
    grads = torch.autograd.grad(loss(model), weights, allow_unused=True)
    pairs = zip(names, grads, strict=True)
    return [name for name, grad in pairs if grad is None or grad.sum() == 0]


@right("clinic.dead_parameters", "autograd.grad, also where weights are frozen")
def s_dead_parameters_by_grad(model, loss):
    named = dict(model.named_parameters())
    frozen = [weight for weight in named.values() if not weight.requires_grad]
    for weight in frozen:
        weight.requires_grad_(True)
    try:
        with torch.enable_grad():
            value = loss(model)
            grads = [None] * len(named)
            if value.requires_grad:
                weights = list(named.values())
                grads = torch.autograd.grad(value, weights, allow_unused=True)
    finally:
        for weight in frozen:
            weight.requires_grad_(False)
    dead = []
    for name, grad in zip(named, grads, strict=True):
        if grad is None or torch.count_nonzero(grad) == 0:
            dead.append(name)
    return dead


# 16: which would ring

wrong("clinic.rings", "all of them: something is always different", "")(
    (True, True, True)
)
wrong("clinic.rings", "rows are thought to be safe from dropout", "")(
    (True, False, False)
)
right("clinic.rings", "two ring when something moves, one when it stays")(
    (True, False, True)
)


# 16: the leak


@wrong(
    "clinic.leaks_future",
    "Changes the last token alone, so a leak between earlier places is not seen.",
    "position 1 sees position 2 of 6, nothing else leaks",
)
def s_leaks_future_last_only(logits, ids, vocab_size):
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 1) % vocab_size
    return not s_stays(logits(ids)[:, :-1], logits(other)[:, :-1])


@wrong(
    "clinic.leaks_future",
    "Watches the changed position, too, which may well move.",
    "every healthy model: an output depends on its own token",
)
def s_leaks_future_one_too_many(logits, ids, vocab_size):
    before = logits(ids)
    for cut in range(1, ids.shape[1]):
        other = ids.clone()
        other[:, cut:] = (other[:, cut:] + 1) % vocab_size
        if not s_stays(before[:, : cut + 1], logits(other)[:, : cut + 1]):
            return True
    return False


@right("clinic.leaks_future", "each place alone and the whole rest, by several steps")
def s_leaks_future_each_place(logits, ids, vocab_size):
    steps = sorted({1, vocab_size // 2, vocab_size - 1} - {0, vocab_size})
    length = ids.shape[1]
    place = torch.arange(length, device=ids.device)
    with torch.no_grad():
        before = logits(ids)
        for cut in range(1, length):
            for step in steps:
                for moved in (place == cut, place >= cut):
                    after = logits((ids + step * moved) % vocab_size)
                    if not s_stays(before[:, :cut], after[:, :cut]):
                        return True
    return False


# 16: by heart


@wrong(
    "clinic.cannot_memorize",
    "Trains on new batches all the time: the floor accuses healthy models.",
    "a healthy model stays at 0.35 on new tales",
)
def s_cannot_memorize_new_ones(losses_of, batches):
    return bool(losses_of(batches)[-1] > 0.3)


@wrong(
    "clinic.cannot_memorize",
    "Takes the best loss instead of the last.",
    "losses 2.0, 0.2, 5.0: a training that breaks down at the end gets away",
)
def s_cannot_memorize_best(losses_of, batches):
    return bool(min(losses_of(lambda step: batches(0))) > 0.3)


@right("clinic.cannot_memorize", "a function that has the batch already")
def s_cannot_memorize_one(losses_of, batches):
    only = batches(0)

    def again(step):
        return only

    *_, last = losses_of(again)
    return not float(last) <= 0.3


# 17: parameters


@wrong(
    "scaling.parameters",
    "Forgets the norm after the last block.",
    "d_model numbers too few for every config",
)
def s_parameters_no_last_norm(config):
    d = config.d_model
    narrow = d // config.num_heads * config.num_kv_heads
    block = 2 * d * d + 2 * d * narrow + 3 * d * config.d_ff + 2 * d
    tables = 1 if config.tied else 2
    return config.num_layers * block + tables * config.vocab_size * d


@wrong(
    "scaling.parameters",
    "Makes the output projection narrow, like keys and values.",
    "8 heads, 2 of keys and values: 3/4 of a matrix per layer is missing",
)
def s_parameters_narrow_output(config):
    d = config.d_model
    narrow = d // config.num_heads * config.num_kv_heads
    block = d * d + 3 * d * narrow + 3 * d * config.d_ff + 2 * d
    tables = 1 if config.tied else 2
    return config.num_layers * block + tables * config.vocab_size * d + d


@right("scaling.parameters", "a list of shapes")
def s_parameters_by_shapes(config):
    d = config.d_model
    narrow = config.num_kv_heads * (d // config.num_heads)
    block = [(d, d), (d, narrow), (d, narrow), (d, d), (d, 1), (d, 1)]
    block += [(d, config.d_ff)] * 3
    shapes = block * config.num_layers + [(d, 1), (config.vocab_size, d)]
    if not config.tied:
        shapes.append((config.vocab_size, d))
    return sum(math.prod(shape) for shape in shapes)


# 17: operations


@wrong(
    "scaling.flops",
    "Attention's products are counted forward only, the rule counts backward, too.",
    "matrices 0: a third of what is wanted",
)
def s_flops_forward_attention(matrices, layers, width, length, tokens):
    return 6 * matrices * tokens + 4 * layers * width * length * tokens


@wrong(
    "scaling.flops",
    "Halves attention because of the mask, though what it hides is counted.",
    "matrices 0: half of what is wanted",
)
def s_flops_masked(matrices, layers, width, length, tokens):
    seen = length / 2
    return tokens * (6 * matrices + 12 * layers * width * seen)


@right("scaling.flops", "products per token, each once forward and twice backward")
def s_flops_by_products(matrices, layers, width, length, tokens):
    forward_and_backward = 1 + 2
    multiplications = matrices
    for _ in ("queries with keys", "weights with values"):
        multiplications = multiplications + layers * length * width
    return 2 * forward_and_backward * multiplications * tokens


# 17: bytes per parameter

wrong("scaling.bytes", "weight and gradient: the averages of AdamW are forgotten", "")(
    8
)
wrong("scaling.bytes", "one average instead of two", "")(12)
right("scaling.bytes", "weight, gradient and two averages of four bytes")(16)


# 17: activations


@wrong(
    "scaling.activations",
    "Counts numbers, not bytes.",
    "half of what is wanted",
)
def s_activations_numbers(rows, length, width, hidden):
    return rows * length * (width + 4 * hidden)


@wrong(
    "scaling.activations",
    "Counts the input twice, though two matrices keep the same tensor.",
    "one token of width 1: 2 bytes too many",
)
def s_activations_input_twice(rows, length, width, hidden):
    return 2 * rows * length * (2 * width + 4 * hidden)


@right("scaling.activations", "input, gate, its silu, up and their product")
def s_activations_by_name(rows, length, width, hidden):
    kept = {"input": width, "gate": hidden, "silu": hidden, "up": hidden}
    kept["product"] = hidden
    bfloat16 = torch.finfo(torch.bfloat16).bits // 8
    return sum(kept.values()) * rows * length * bfloat16


# 17: days


@wrong(
    "scaling.days",
    "Multiplies by the utilisation instead of dividing.",
    "share 0.5: a quarter of the days",
)
def s_days_share_above(parameters, tokens, machines, speed, share):
    return 6 * parameters * tokens * share / (machines * speed) / 86_400


@wrong(
    "scaling.days",
    "Two operations per parameter and token: the backward pass is forgotten.",
    "a third of the days",
)
def s_days_forward_only(parameters, tokens, machines, speed, share):
    return 2 * parameters * tokens / (machines * speed * share) / 86_400


@right("scaling.days", "what the machines do in one day")
def s_days_by_day(parameters, tokens, machines, speed, share):
    per_day = machines * share * speed * 24 * 60 * 60
    return 6 * parameters * tokens / per_day


# 17: the exponent


@wrong(
    "scaling.power",
    "A line through the origin: there is no a.",
    "losses = 5 * compute ** -0.1",
)
def s_power_no_intercept(compute, losses):
    x, y = compute.log(), losses.log()
    return -(x * y).sum() / (x * x).sum()


@wrong(
    "scaling.power",
    "Fits compute to the losses and inverts: other squares are least.",
    "runs that do not lie on a line exactly",
)
def s_power_the_other_way(compute, losses):
    x, y = compute.log(), losses.log()
    x, y = x - x.mean(), y - y.mean()
    return -(y * y).sum() / (x * y).sum()


@right("scaling.power", "least squares with a column of ones")
def s_power_by_lstsq(compute, losses):
    x, y = compute.log(), losses.log()
    middle = x.mean()
    table = torch.stack([x - middle, torch.ones_like(x)], dim=1)
    return -torch.linalg.lstsq(table, y[:, None]).solution[0, 0]


@wrong(
    "scaling.halving",
    "The exponent is not inverted.",
    "b = 0.5: 1.41 instead of 4",
)
def s_halving_not_inverted(b):
    return 2**b


@wrong(
    "scaling.halving",
    "The sign of the exponent is lost: less compute for half the loss.",
    "b = 0.5: 0.25 instead of 4",
)
def s_halving_sign(b):
    return 0.5 ** (1 / b)


@right("scaling.halving", "a power of one half with the sign of the exponent")
def s_halving_by_half(b):
    return 0.5 ** (-1 / b)


# 17: padding


@wrong(
    "scaling.padding",
    "Averages the shares of the batches, which have unequal numbers of places.",
    "lengths 1, 2, 10, 10 by 2: 1/8 instead of 1/24",
)
def s_padding_mean_of_shares(lengths, size):
    shares = []
    for batch in torch.as_tensor(lengths).split(size):
        places = len(batch) * batch.max().item()
        shares.append(1 - batch.sum().item() / places)
    return sum(shares) / len(shares)


@wrong(
    "scaling.padding",
    "Takes the last batch for full, though fewer texts are left.",
    "three texts of length 4 by 2: 1/4 instead of 0",
)
def s_padding_last_is_full(lengths, size):
    batches = torch.as_tensor(lengths).split(size)
    places = sum(size * batch.max().item() for batch in batches)
    return 1 - sum(batch.sum().item() for batch in batches) / places


@right("scaling.padding", "counts what is missing in each text")
def s_padding_by_missing(lengths, size):
    texts = [int(length) for length in lengths]
    missing = 0
    places = 0
    for start in range(0, len(texts), size):
        batch = texts[start : start + size]
        longest = max(batch)
        missing += sum(longest - length for length in batch)
        places += longest * len(batch)
    return missing / places


# 17: processes


@wrong(
    "scaling.rows_of_rank",
    "Cuts the texts instead of the rows: the wrong axis.",
    "a batch of 4 rows: all 4 come back, shorter",
)
def s_rows_of_rank_columns(batch, rank, count):
    return batch[:, rank::count]


@wrong(
    "scaling.rows_of_rank",
    "Takes the number of processes for the number of rows of each.",
    "12 rows, 2 processes: 2 rows each, 8 are read by nobody",
)
def s_rows_of_rank_count_rows(batch, rank, count):
    return batch[rank * count : (rank + 1) * count]


@right("scaling.rows_of_rank", "every count-th row, by remainder")
def s_rows_of_rank_by_remainder(batch, rank, count):
    number = torch.arange(len(batch), device=batch.device)
    return batch[number % count == rank]


@wrong(
    "scaling.per_process",
    "Divides without sharding, too, though each process then holds everything.",
    "not sharded, 2 processes: half of what is wanted",
)
def s_per_process_always_divided(parameters, processes, sharded):
    return 16 * parameters / processes


@wrong(
    "scaling.per_process",
    "One average of AdamW instead of two.",
    "one process: 12 bytes per parameter instead of 16",
)
def s_per_process_one_average(parameters, processes, sharded):
    return 3 * 4 * parameters / (processes if sharded else 1)


@right("scaling.per_process", "weights, gradients and averages added")
def s_per_process_by_kind(parameters, processes, sharded):
    kinds = {"weights": 1, "gradients": 1, "averages": 2}
    total = sum(4 * number * parameters for number in kinds.values())
    return total / processes if sharded else total


# 17: the mean over ranks


@wrong(
    "scaling.mean_over_ranks",
    "All ranks count the same, however many labels they have.",
    "losses 1 and 3 with 3 labels and 1: 2 instead of 1.5",
)
def s_mean_over_ranks_unweighted(losses, labels):
    return torch.stack([torch.as_tensor(loss) for loss in losses]).nanmean()


@wrong(
    "scaling.mean_over_ranks",
    "Token 0 is taken for padding, though only -100 asks for nothing.",
    "labels [0, 0, 1] and [1, 1, -100], losses 1 and 3",
)
def s_mean_over_ranks_without_zero(losses, labels):
    counts = [int((own > 0).sum()) for own in labels]
    pairs = zip(losses, counts, strict=True)
    total = sum(loss * count for loss, count in pairs if count)
    return total / sum(counts) if sum(counts) else math.nan


@right("scaling.mean_over_ranks", "shares of the labels, empty ranks skipped")
def s_mean_over_ranks_by_share(losses, labels):
    counts = [int((own != -100).sum()) for own in labels]
    everything = sum(counts)
    if not everything:
        return losses[0] * math.nan
    mean = 0.0
    for loss, count in zip(losses, counts, strict=True):
        if count:
            mean = mean + loss * (count / everything)
    return mean
