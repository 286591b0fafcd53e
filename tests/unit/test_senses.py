"""The sense world: a function, fair sides, unseen contexts."""

import hashlib
import re
from collections import Counter

import numpy as np
import pytest
import torch
from tokenizers import pre_tokenizers

from course_utils import pretrained
from course_utils.config import ClassifierConfig, StackConfig, TrainConfig
from course_utils.models import Classifier
from course_utils.training.loop import train
from known_worlds.senses import SPLITS, labels, lexicon, usage
from tools.train_shipped import class_loss, sense_batches

FIRST_THOUSAND = "684188ac30b8ca5db7df6b59c239d620"
FIRST_OF_TEST = "3307ed9a27e845cc2ea8cee2230e0563"
FIRST_OF_FAR = {
    "far": "cd2abbfe0724af5a4967fee2163d0485",
    "far_test": "201f1c1a119c956a335708ce22591199",
}
COUNT = 3000
BATCH, LENGTH, CLASSES, VOCABULARY = 2, 5, 7, 11


@pytest.fixture(scope="module")
def worlds():
    return {split: [usage(i, split) for i in range(COUNT)] for split in SPLITS}


def digest(usages):
    rows = [f"{u.text}|{u.word}|{u.sense}|{u.side}|{u.clues}" for u in usages]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:32]


# ---- the world


def test_the_first_thousand_are_what_they_were(worlds):
    assert digest(worlds["train"][:1000]) == FIRST_THOUSAND
    assert digest(worlds["test"][:1000]) == FIRST_OF_TEST


def test_a_usage_depends_on_index_split_and_seed_alone():
    assert usage(7, "test", 3) == usage(7, "test", 3)
    drawn = {usage(7, split, seed) for split in SPLITS for seed in (0, 1)}
    assert len(drawn) == 2 * len(SPLITS)
    plain = usage.__wrapped__  # without the annotations that the tests execute
    assert plain(np.int64(7), np.str_("test"), np.int64(3)) == usage(7, "test", 3)


def test_at_least_twelve_words_with_two_senses_each(worlds):
    seen = {(u.word, u.sense) for u in worlds["train"]}
    words = {word for word, _ in seen}
    assert len(words) >= 12
    assert words >= {"book", "bank", "bat", "watch", "light", "train"}
    assert Counter(word for word, _ in seen) == dict.fromkeys(words, 2)
    assert {f"{word}: {sense}" for word, sense in seen} == {*labels()}
    assert seen == {(u.word, u.sense) for u in worlds["test"]}
    assert all(labels()[u.label] == f"{u.word}: {u.sense}" for u in worlds["test"])


def test_tokens_are_gpt2_pieces_and_the_word_stands_at_its_position(worlds):
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False)
    for u in worlds["train"][:500] + worlds["test"][:500]:
        pieces = [u.text[a:b] for _, (a, b) in cut.pre_tokenize_str(u.text)]
        assert pieces == list(u.tokens) and len(u.tokens) <= 30
        assert u.tokens[u.position].strip().lower() == u.word


def test_clues_stand_on_the_side_that_is_named(worlds):
    for u in worlds["train"] + worlds["test"]:
        assert u.clues
        assert {clue < u.position for clue in u.clues} == {u.side == "left"}
    sides = {(u.word, u.sense, u.side) for u in worlds["train"]}
    for word, senses in lexicon()["words"].items():
        if "action" not in senses:
            for sense in senses:
                assert {(word, sense, "left"), (word, sense, "right")} <= sides


def test_the_texts_read_as_sentences(worlds):
    for u in worlds["train"] + worlds["test"]:
        assert re.fullmatch(r"[A-Z][A-Za-z]*(,? [A-Za-z]+)+(, I think)?\.", u.text)
        assert not re.search(r"\b(\w+) \1\b|[@^{}]| a [aeiou]", u.text), u.text


def test_most_texts_are_distinct_and_no_text_is_in_both_splits(worlds):
    texts = {split: {u.text for u in usages} for split, usages in worlds.items()}
    assert min(map(len, texts.values())) > 0.9 * COUNT
    assert not texts["train"] & texts["test"]


def test_senses_and_sides_are_drawn_evenly(worlds):
    for usages in (worlds["train"], worlds["test"]):
        nouns = [u for u in usages if u.word != "it"]
        first = sum(u.sense == lexicon()["words"][u.word][0] for u in nouns)
        assert 0.45 < first / len(nouns) < 0.55
        free = [u for u in nouns if "action" not in lexicon()["words"][u.word]]
        assert 0.45 < sum(u.side == "left" for u in free) / len(free) < 0.55
        pronouns = [u for u in usages if u.word == "it"]
        assert 0.2 < len(pronouns) / COUNT < 0.3
        assert 0.4 < sum(u.sense == "first" for u in pronouns) / len(pronouns) < 0.6


def contexts(u):
    """What decides, in lower case, with the word it is said of."""
    clue = "".join(u.tokens[i] for i in u.clues).strip().lower()
    if u.word != "it":
        return u.word, u.side, clue
    table = lexicon()["pronoun"]
    others = {
        w for kind in ("movable", "crossed") for w in table[kind].get("nouns", [])
    }
    words = [token.strip() for token in u.tokens[: u.position]]
    animal = next(word for word in words if word in table["first"])
    noun = next(word for word in words if word in others)
    order = words.index(animal) < words.index(noun)
    meant = animal if order == (u.sense == "first") else noun
    frame = re.sub(rf"\b({animal}|{noun})\b", "", " ".join(words[:-2])).lower()
    return meant, clue, frame, order


def test_test_contexts_are_unseen_but_their_words_are_known(worlds):
    train_nouns = {contexts(u) for u in worlds["train"] if u.word != "it"}
    train_its = [contexts(u) for u in worlds["train"] if u.word == "it"]
    pairs = {(meant, clue) for meant, clue, _, _ in train_its}
    turns = {(frame, order) for _, _, frame, order in train_its}
    verbal = {w for w, senses in lexicon()["words"].items() if "action" in senses}
    for u in worlds["test"]:
        if u.word == "it":
            meant, clue, frame, order = contexts(u)
            assert (meant, clue) not in pairs or (frame, order) not in turns, u.text
        elif u.word not in verbal or u.sense == "action":
            assert contexts(u) not in train_nouns, u.text
    known = {token.lower() for u in worlds["train"] for token in u.tokens}
    assert {token.lower() for u in worlds["test"] for token in u.tokens} <= known


# ---- a clue that is far


def test_the_first_of_far_are_what_they_were(worlds):
    assert {split: digest(worlds[split][:1000]) for split in FIRST_OF_FAR} == (
        FIRST_OF_FAR
    )


def test_up_to_fifteen_words_stand_before_the_clue_and_nothing_else_tells(worlds):
    phrases = {sense: form["after"] for sense, form in lexicon()["senses"].items()}
    for u in worlds["far"] + worlds["far_test"]:
        assert u.side == "right" and u.clues[0] == u.position + u.distance + 1
        assert re.fullmatch(r"[A-Z][a-z]*( [A-Za-z]+)+\.", u.text)
        clue = "".join(u.tokens[i] for i in u.clues).strip()
        assert clue in phrases[u.sense]
        (decoy,) = re.findall(r" that (.*)", u.text.replace(f" {clue}", "", 1))
        said = [p for sense in lexicon()["words"][u.word] for p in phrases[sense]]
        assert any(decoy.startswith(phrase) for phrase in said), u.text
    for split in ("far", "far_test"):
        distances = Counter(u.distance for u in worlds[split])
        assert set(distances) == set(range(16))
        assert min(distances.values()) > COUNT / 16 / 2


def test_the_decoy_is_as_often_of_one_sense_as_of_the_other(worlds):
    """So the collection of a sentence's words tells the sense in half of them only."""
    phrases = {sense: form["after"] for sense, form in lexicon()["senses"].items()}
    same = 0
    for u in worlds["far_test"]:
        decoy = u.text.split(" that ")[1]
        same += any(decoy.startswith(phrase) for phrase in phrases[u.sense])
    assert 0.45 < same / COUNT < 0.55


def test_far_pairs_are_unseen_but_their_words_are_known(worlds):
    """Neither clue nor decoy tells by being new: both follow the same rule."""

    def pairs(split):
        return {
            (u.word, phrase)
            for u in worlds[split]
            for sense in lexicon()["words"][u.word]
            for phrase in lexicon()["senses"][sense]["after"]
            if phrase in u.text
        }

    assert not pairs("far") & pairs("far_test")
    known = {token for u in worlds["far"] for token in u.tokens}
    assert {token for u in worlds["far_test"] for token in u.tokens} <= known


def test_the_shipped_model_knows_unseen_contexts(worlds):
    model, tokenizer = pretrained.load("senses")
    unseen = worlds["test"][:600]
    right = 0
    for ids, positions, numbers in sense_batches(unseen, tokenizer, 100):
        assert tokenizer.unk_id not in ids
        right += (model(ids, positions).argmax(-1) == numbers).sum().item()
    assert right >= 0.97 * len(unseen)


# ---- the classifier


@pytest.fixture
def classifier():
    torch.manual_seed(0)
    stack = StackConfig(d_model=12, num_heads=3, num_layers=2, d_ff=16, max_length=9)
    sizes = {"vocab_size": VOCABULARY, "num_classes": CLASSES}
    return Classifier(ClassifierConfig(**sizes, stack=stack)).double().eval()


IDS = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 0, 0]])


def test_the_classifier_reads_the_position_it_is_given(classifier):
    hidden = classifier.encoder(IDS)
    positions = torch.tensor([3, 1])
    logits = classifier(IDS, positions)
    assert logits.shape == (BATCH, CLASSES)
    expected = torch.stack([hidden[0, 3], hidden[1, 1]])
    torch.testing.assert_close(logits, classifier.head(expected))


@pytest.mark.parametrize("positions", [None, torch.tensor([2])])
def test_padding_changes_nothing(classifier, positions):
    alone = classifier(IDS[1:, :3], positions)
    padded = classifier(IDS[1:], positions)
    torch.testing.assert_close(alone, padded)


@pytest.mark.parametrize("length", [1, LENGTH])
def test_the_mean_is_over_the_words(classifier, length):
    hidden = classifier.encoder(IDS[:1, :length])
    expected = classifier.head(hidden.mean(dim=1))
    torch.testing.assert_close(classifier(IDS[:1, :length]), expected)


def test_a_mask_is_obeyed(classifier):
    alone = torch.eye(LENGTH, dtype=torch.bool)
    changed = IDS.clone()
    changed[0, 4] = 9
    positions = torch.tensor([3, 1])
    same = [classifier(ids, positions, alone)[0] for ids in (IDS, changed)]
    assert torch.equal(*same)
    other = [classifier(ids, positions)[0] for ids in (IDS, changed)]
    assert not torch.allclose(*other)


def test_a_row_of_padding_gives_numbers(classifier):
    assert classifier(torch.zeros(1, 3, dtype=torch.int64)).isfinite().all()


def test_it_learns_a_batch_by_heart(classifier):
    labels = torch.tensor([6, 2])

    def batches(step):
        return IDS, torch.tensor([0, 2]), labels

    config = TrainConfig(steps=60, learning_rate=1e-2, warmup_steps=5)
    history = train(classifier, batches, config, loss=class_loss)
    assert history.losses[0] > 1 and history.losses[-1] < 0.05
    assert classifier(*batches(0)[:2]).argmax(-1).tolist() == [6, 2]
