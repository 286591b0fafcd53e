"""The page that trains: PyTorch's gradients, PyTorch's curve, and a known floor."""

import json
import math
import re
from base64 import b64decode
from importlib.resources import files

import pytest
import torch
import torch.nn.functional as F

from course_utils import page
from known_worlds.stories import plots, story
from tests.support import notebook_code
from tests.support.training_page import in_node

CODE = list(files("attention_views").joinpath("living", "kernels.wasm").read_bytes())
WORDS, WIDTH, HEADS, LENGTH, BATCH = 11, 12, 3, 10, 2
STEP = """
const decoder = makeDecoder(input.shape, new Kernels(Uint8Array.from(input.code)));
for (const { name, values } of decoder.parameters) values.set(input.start[name]);
decoder.forward(input.ids);
const loss = decoder.loss(input.labels);
decoder.backward(input.ids);
const grads = decoder.parameters.map(({ name, size, grad }) => [name, size, [...grad]]);
const off = new Set(input.silenced);
const text = input.ids.slice(0, input.shape.length);
const steps = text.map((id, i) => decoder.step(id, i, 1, off));
const { logits, weights, streams } = steps.at(-1);
const plain = (arrays) => arrays.map((array) => [...array]);
console.log(JSON.stringify({ loss, grads, logits: [...logits],
  weights: weights.map(plain), lens: plain(streams.map(decoder.read)) }));
"""


def notebook(layers, words=WORDS, width=WIDTH, heads=HEADS, length=LENGTH):
    """The names of notebook 00, with a model of these sizes."""
    sizes = {"WIDTH": width, "HEADS": heads, "LAYERS": layers, "LENGTH": length}
    vocabulary = [f"w{i}" for i in range(words)]
    known = {"vocabulary": vocabulary, "id_of": {}, "PLOTS": page.PLOTS}
    return notebook_code.built("00", **sizes, **known)


def one_step(layers, *changes, code=CODE, silenced=()):
    """PyTorch's model after one backward pass, its loss, and what the page computes."""
    torch.manual_seed(layers)
    model = notebook(layers)["Decoder"]()
    rows = torch.randint(WORDS, (BATCH, LENGTH + 1))
    loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
    loss.backward()
    shape = {"words": WORDS, "width": WIDTH, "heads": HEADS, "layers": layers}
    data = {
        "shape": shape | {"length": LENGTH, "batch": BATCH, "trains": True},
        "start": {name: w.flatten().tolist() for name, w in model.state_dict().items()},
        "ids": rows[:, :-1].flatten().tolist(),
        "labels": rows[:, 1:].flatten().tolist(),
        "code": code,
        "silenced": silenced,
    }
    return model, loss.item(), rows, in_node(STEP, data, *changes)


def worst_gradient(model, found):
    """The largest difference of a gradient, relative to the largest number in it."""
    worst = 0.0
    for (name, weight), (named, size, grad) in zip(
        model.named_parameters(), found, strict=True
    ):
        assert (named, size) == (name, list(weight.shape))
        wrong = (torch.tensor(grad).view(size) - weight.grad).abs().max()
        worst = max(worst, (wrong / weight.grad.abs().max()).item())
    return worst


@pytest.mark.parametrize("code", [CODE, [0]], ids=["wasm", "plain"])
@pytest.mark.parametrize("layers", [0, 1, 2])
def test_one_step_has_the_gradients_of_pytorch(layers, code):
    model, loss, rows, ours = one_step(layers, code=code)
    assert ours["loss"] == pytest.approx(loss, abs=1e-6)
    assert worst_gradient(model, ours["grads"]) < 5e-6
    with torch.no_grad():
        expected = model(rows[:1, :-1])[0, -1]
    torch.testing.assert_close(
        torch.tensor(ours["logits"]), expected, atol=1e-5, rtol=0
    )
    if layers:
        assert ours["lens"][-1] == pytest.approx(ours["logits"], abs=1e-6)


WRONG = {
    "a forgotten mean in softmax": ("(dWeights[o + j] - mean)", "dWeights[o + j]"),
    "a norm that forgets its mean": (
        "* weight.values[k] - sum - normed",
        "* weight.values[k] - normed",
    ),
    "no ReLU on the way back": ("if (hidden[i] <= 0) dHidden[i] = 0;", ";"),
    "a value for a key": (
        "at(qkv, key),\n            1, i + 1",
        "at(qkv, value),\n            1, i + 1",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_gradient_is_caught(mistake):
    model, _, _, ours = one_step(2, WRONG[mistake])
    assert worst_gradient(model, ours["grads"]) > 1e-2


def test_a_silenced_head_adds_nothing():
    model, _, rows, ours = one_step(1, silenced=["0.1"])
    columns = slice(WIDTH // HEADS, 2 * WIDTH // HEADS)
    with torch.no_grad():
        model.blocks[0].attn.proj.weight[:, columns] = 0
        expected = model(rows[:1, :-1])[0, -1]
    torch.testing.assert_close(
        torch.tensor(ours["logits"]), expected, atol=1e-5, rtol=0
    )
    assert sum(ours["weights"][0][1]) == pytest.approx(1, abs=1e-6)


# --- the curve -------------------------------------------------------------------

SIZES = {"width": 8, "heads": 2, "length": 12}
STEPS, ROWS, RATE = 20, 3, 0.03
SMALL = [
    ("STEPS = 450", f"STEPS = {STEPS}"),
    ("{ width: 64, heads: 4, length: 192 }", json.dumps(SIZES)),
    ("BATCH = 6", f"BATCH = {ROWS}"),
]
RUN = """
const code = Uint8Array.from(input.code);
const [train, held] = [Int32Array.from(input.train), Int32Array.from(input.held)];
const random = seeded(5); // as the trainer draws: first the weights, then the windows
const shape = { ...SIZES, words: input.words, layers: 2, batch: BATCH };
const { parameters, initialize } = makeDecoder(shape, new Kernels(code));
initialize(random);
const start = parameters.map(({ name, values }) => [name, [...values]]);
const draws = Array.from({ length: STEPS * BATCH }, random);
const losses = [];
const trainer = makeTrainer((message) => {
  if (message.step === 0) losses.push(message.held);
  else if (message.loss) losses.push(message.loss);
  else if (message.step === STEPS)
    process.stdout.write(JSON.stringify({ start, draws, losses }), process.exit);
});
trainer({ texts: { words: input.words, endId: 0, train, held } });
trainer({ begin: { seed: 5, layers: 2, rate: input.rate, kernels: code } });
"""


def both_curves(*changes):
    """The losses of the page, the first one on what is held out; then PyTorch's."""
    torch.manual_seed(0)
    train, held = torch.randint(WORDS, (2, 900))
    data = {"train": train.tolist(), "held": held.tolist(), "words": WORDS}
    run = in_node(RUN, data | {"code": CODE, "rate": RATE}, *SMALL, *changes)
    model = notebook(2, WORDS, **SIZES)["Decoder"]()
    for name, numbers in run["start"]:
        weight = model.get_parameter(name)
        weight.data = torch.tensor(numbers, dtype=torch.float32).view_as(weight)

    def windows(ids):
        rows = ids.unfold(0, SIZES["length"] + 1, 1)
        return rows[rows[:, 0] == 0]

    def loss_on(rows):
        scores = model(rows[:, :-1])
        return F.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten())

    rows = windows(train)
    batches = (torch.tensor(run["draws"]) * len(rows)).long().view(STEPS, ROWS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98))
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, STEPS, pct_start=0.1)
    losses = [loss_on(windows(held)[:ROWS]).item()]
    for batch in batches:
        loss = loss_on(rows[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rates.step()
        losses.append(loss.item())
    return run["losses"], losses


def test_its_curve_is_that_of_pytorch():
    ours, theirs = both_curves()
    assert ours == pytest.approx(theirs, abs=3e-5)


@pytest.mark.parametrize(
    "change",
    [
        ("const peak = 0.1 * steps - 1;", "const peak = 0.2 * steps - 1;"),
        ("0.85, 0.95, share)", "0.95, 0.95, share)"),
        ("start + 1, start + SIZES.length + 1", "start, start + SIZES.length"),
        ("BETA2 = 0.98", "BETA2 = 0.95"),
    ],
)
def test_a_wrong_schedule_and_a_shifted_label_are_caught(change):
    ours, theirs = both_curves(change)
    assert ours != pytest.approx(theirs, abs=3e-4)


# --- the page ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    path = page.train_page(tmp_path_factory.mktemp("training") / "train.html")
    assert path.stat().st_size < 290_000
    return path.read_text("utf-8")


def test_it_brings_the_words_of_notebook_00_and_loads_nothing(html):
    words = notebook(2)["words_of"](range(10_000))
    known = json.loads(re.search('id="known">(.*?)</script>', html)[1])
    assert known["words"] == list(dict.fromkeys(words))
    assert known["trained"] == len(words)
    assert "default-src 'none'; connect-src 'none'" in html
    assert not re.search(r"<link|src=|https?://(?!www.w3.org/2000/svg)", html)
    assert b64decode(re.search('id="kernels">(.*?)<', html)[1]) == bytes(CODE)


def test_its_floor_is_exact(html, monkeypatch):
    known = json.loads(re.search('id="known">(.*?)</script>', html)[1])
    assert known["floor"] == pytest.approx(0.4219, abs=1e-4)
    one = next(one for one in map(story, range(100)) if one.plot in page.PLOTS)
    length = len(page._words([one.text]))
    monkeypatch.setattr(page, "WINDOW", length)
    given = math.log(len(page.PLOTS) / len(plots()))  # that it is one of these plots
    cost = -(one.log_probability - given) / length
    assert page._floor([one, one]) == pytest.approx(cost, rel=1e-9)
