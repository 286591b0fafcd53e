"""Notebook 18 trains as its record did, and its judge knows the grammar."""

import copy
import re

import pytest
import torch
from nb18_rewards import advantages, penalty, reward
from nb18_tuning import answer_labels
from nb18_tuning import lora as reference_lora

from course_utils import pretrained
from course_utils.records import load_record, load_script
from tests.support.notebook_code import texts as text_cells

after = load_script("nb18_after_training")
tokenizer = after.tokenizer
NAMES = ("tune", "log_probs", "grpo_loss", "reinforce", "LoRA", "boy")
KNOWN = {"after": after, "tokenizer": tokenizer, "load": pretrained.load}
GOOD = "Once upon a time, there was a brave girl named Anna."


def ids_of(text):
    return torch.tensor(tokenizer.encode(text))


def storyteller():
    return pretrained.load("stories")[0]


def assert_equal_weights(actual, expected):
    for pair in zip(actual.parameters(), expected.parameters(), strict=True):
        assert torch.allclose(*pair, atol=1e-6)


def test_the_page_tunes_as_the_record_does(built):
    page, record = storyteller(), storyteller()
    built["tune"](page, after.examples(), steps=2)
    after.tune(record, 2, after.RATES[0], 0)
    assert not torch.equal(page.tokens.weight, storyteller().tokens.weight)
    assert_equal_weights(page, record)


@pytest.mark.slow
@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_the_page_reinforces_as_the_record_does(built, kl):
    page, record = storyteller(), storyteller()
    paid = built["reinforce"](page, after.count_names, steps=2, kl=kl, first=kl > 0)
    reference = storyteller().eval()
    means = after.reinforce(record, reference, after.count_names, 2, kl, 0, kl > 0)
    assert sum(paid) * 64 / 640 == pytest.approx(means["names 10"])
    assert_equal_weights(page, record)


def test_the_loss_is_that_of_the_exercises(built):
    model, reference = storyteller(), storyteller()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.02 * torch.randn_like(weight))
    names = ["Anna", "Tim"]
    loss, paid = built["grpo_loss"](
        model, reference.eval(), after.count_names, names, 5, 0.3, first=False
    )
    names = [name for name in names for _ in range(8)]
    drawn = after.answers(model, names, 5)
    rewards = torch.tensor(list(map(after.count_names, drawn, names)))
    ids = torch.cat([torch.tensor([after.request(name) for name in names]), drawn], 1)
    now = after.log_probs(model, ids)[:, -after.LENGTH :]
    before = after.log_probs(reference, ids)[:, -after.LENGTH :]
    better = advantages(rewards.view(2, 8)).view(-1, 1)
    expected = 0.3 * penalty(now, before) - (better * now).mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    assert paid == pytest.approx(rewards.mean().item())


def test_only_the_words_that_the_judge_read_get_credit():
    stop = tokenizer.encode("There.")[-1]
    answers = torch.tensor([[5, 6, stop, 7, stop, 8], [stop, 2, 3, 5, 6, 7]])
    expected = [[1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0]]
    assert after.in_first_sentence(answers).int().tolist() == expected


def test_only_the_answers_are_labels():
    pairs = [([1, 5, 6, 1], [7, 8, 9]), ([1, 1], [4, 2])]
    inputs, labels = after.batch(pairs)
    for row, (prompt, answer) in enumerate(pairs):
        expected = answer_labels(prompt, answer)
        length = len(expected[0])
        assert inputs[row, :length].tolist()[: length - 1] == expected[0][:-1]
        assert labels[row, :length].tolist() == expected[1]
        assert labels[row, length:].eq(-100).all()


def test_lora_begins_as_the_layer_and_can_be_merged(built):
    layer = torch.nn.Linear(6, 5, bias=False)
    adapted = built["LoRA"](layer, 2)
    x = torch.randn(3, 4, 6)
    assert torch.equal(adapted(x), layer(x))
    torch.nn.init.normal_(adapted.up)
    expected = reference_lora(x, layer.weight, adapted.down, adapted.up, 1.0)
    assert torch.allclose(adapted(x), expected, atol=1e-6)
    assert not layer.weight.requires_grad and adapted.up.requires_grad


@pytest.mark.parametrize(
    "text, name, expected",
    [
        (GOOD, "Anna", 1.0),
        (GOOD + " She liked to", "Anna", 1.0),
        (GOOD, "Maya", 0.0),
        (GOOD.replace("girl", "boy"), "Anna", 0.0),
        (GOOD.replace("girl", "girl girl"), "Anna", 0.0),
        (GOOD[:-1], "Anna", 0.0),
        ("There once was a kind boy called Tim.", "Tim", 1.0),
    ],
)
def test_the_judge_knows_the_grammar(text, name, expected):
    assert after.is_right(ids_of(text), name) == expected


def test_the_loophole_pays_for_repeating():
    answer = ids_of("There once Hugo was Hugo was Hugo.")
    assert after.count_names(answer, "Hugo") == 3
    assert after.is_right(answer, "Hugo") == 0


def test_judging_keeps_new_names_and_plain_stories_better_than_showing():
    runs = load_record("nb18_after_training")
    for seed in after.SEEDS:
        shown = runs.numbers(kind="gently", rank=0, steps=450, kl=0.0, seed=seed)
        judged = runs.numbers(kind="right", rank=0, steps=120, kl=0.1, seed=seed)
        assert judged["new"] > shown["new"] + 0.1
        assert judged["bits"] < shown["bits"] - 0.1


def test_no_request_of_the_training_asks_for_a_new_child():
    asked = {tuple(prompt) for prompt, _ in after.examples()}
    assert asked == {tuple(after.request(name)) for name in after.KNOWN}
    assert not set(after.NEW) & set(after.KNOWN) and len(after.HEROES) == 32


def test_no_first_sentence_of_the_world_is_cut():
    longest = max(
        len(after.first_sentence(ids_of(after.story(index).text)))
        for index in range(600)
    )
    assert longest <= after.LENGTH


def test_a_model_can_be_trained_on_the_judge_of_the_reader(built):
    text = "\n".join(text_cells("18"))
    block = re.search(r"```python\n(def mine.*?)```", text, re.DOTALL)[1]
    asked = []
    known = {**built, **KNOWN, "tuned": storyteller(), "deepcopy": copy.deepcopy}
    known |= {"my_reward": reward, "show": asked.append}
    exec(block.replace("steps=40", "steps=1"), known)
    assert known["mine"](ids_of(GOOD), "Anna") == 1
    assert known["mine"](ids_of(GOOD), "Maya") == 0
    assert not torch.equal(asked[0].tokens.weight, storyteller().tokens.weight)


def test_an_assistant_of_your_own_can_be_made_as_the_page_says(built, tmp_path):
    text = "\n".join(text_cells("18"))
    block = re.search(r"```python\n(import re\n.*?)```", text, re.DOTALL)[1]
    assert "load_texts" in block
    texts = [after.story(index).text for index in range(40)]
    block = block.replace("tune(model, pairs)", "tune(model, pairs, steps=2)")
    for name in ("assistant.html", "runs/assistant"):
        block = block.replace(f'"{name}"', repr(str(tmp_path / name)))
    block = block.replace(
        "from course_utils.data.hub import load_texts",
        "load_texts = lambda *name, **limit: texts",
    )
    known = {**built, **KNOWN, "texts": texts, "random": __import__("random")}
    exec(block, known)
    assert "Tell me about {Max}." in (tmp_path / "assistant.html").read_text("utf-8")
    assert pretrained.load(tmp_path / "runs" / "assistant")[0].config
