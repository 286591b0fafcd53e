"""Data come from where they were asked for, or one clear sentence says why not."""

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import transformers

from course_utils.data import files, hub
from course_utils.data.hub import DataUnavailable, load_pairs, load_texts
from course_utils.data.splits import held_out, split_pairs
from tools.hub_mirror import HubMirror
from tools.mirror_data import (
    END,
    STORIES,
    TATOEBA,
    TOKENIZER,
    data_folder,
    fill_mirror,
)

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ["Tom has a ball.\nIt is red.", "Ana ran.", "Ñandú — 🙂"]
PAIRS = [("Go.", "Ve."), ("I see her.", "La veo.")]
QUOTED = ['"Go!" he said.\t"¡Ve!", dijo.', '"Go.\tVe.']


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_parquet(path, columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


# --- files on this machine ---------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        f"\n{END}\n".join([*TEXTS, ""]),
        f"\r\n{END}\r\n".join(text.replace("\n", "\r\n") for text in TEXTS),
        "\ufeff" + "\n \n\n".join(TEXTS) + "\n\n",
    ],
    ids=["end marker", "windows", "empty lines"],
)
def test_txt(tmp_path, content):
    path = write(tmp_path, "MY.TXT", content)
    assert load_texts(path) == load_texts(str(path)) == TEXTS
    assert load_texts(path, limit=2) == TEXTS[:2]


@pytest.mark.parametrize(
    "content, texts",
    [
        (f"One.\n\nTwo.\n{END}\nThree.", ["One.\n\nTwo.", "Three."]),
        (f"One.\n{END}Two.\n{END}Three.", ["One.", "Two.", "Three."]),
        ("One.\nTwo.\nThree.\n", ["One.", "Two.", "Three."]),
    ],
    ids=["empty lines inside a text", "a mark within a line", "a text a line"],
)
def test_how_a_txt_file_is_cut(tmp_path, content, texts):
    assert load_texts(write(tmp_path, "a.txt", content)) == texts


def test_the_first_texts_of_a_large_file_leave_the_rest_unread(tmp_path, monkeypatch):
    """A file of 2 GB took the whole memory for its first text."""
    monkeypatch.setattr(files, "SAMPLE", 40)  # where a mark may be cut in two
    texts = [f"One day {number} cats sat." for number in range(50)]
    path = write(tmp_path, "a.txt", f"\n{END}\n".join(texts))
    assert load_texts(path) == texts
    path.write_bytes(path.read_bytes() + b" " * 10_000 + b"\xff")  # never reached
    assert load_texts(path, limit=20) == texts[:20]


def test_jsonl_parquet_and_tsv_texts(tmp_path):
    lines = write(tmp_path, "a.jsonl", json_lines({"text": t} for t in TEXTS))
    assert load_texts(lines) == TEXTS
    table = write_parquet(tmp_path / "a.parquet", {"id": [1, 2, 3], "text": TEXTS})
    assert load_texts(str(table)) == TEXTS
    named = write(tmp_path, "a.tsv", "id\ttext\n1\tTom ran.\n2\tNA\n")
    assert load_texts(named) == ["Tom ran.", "NA"]


@pytest.mark.parametrize(
    "content, pairs",
    [
        ("Go.\tVe.\tnote\n\nI see her.\tLa veo.\r\n", PAIRS),
        ("Source\tTarget\tnote\nGo.\tVe.\nI see her.\tLa veo.", PAIRS),
        ("vietnamese\trussian\nGo.\tVe.\nI see her.\tLa veo.", PAIRS),
        ("id\ttarget\tsource\n1\tVe.\tGo.\n2\tLa veo.\tI see her.", PAIRS),
        ("id\tes\ten\n1\tVe.\tGo.\n2\tLa veo.\tI see her.", PAIRS),
        ("id\tspanish\tenglish\n1\tVe.\tGo.", [("Ve.", "Go.")]),
        ("english\tportuguese\nGo.\tVe.\nI see her.\tLa veo.", PAIRS),
        ("eng\tpt\nGo.\tVe.\nI see her.\tLa veo.", PAIRS),
        ('source\ttarget\n"Go,\nnow."\t"¡Ve ""ya""!"', [("Go,\nnow.", '¡Ve "ya"!')]),
        *((line, [tuple(line.split("\t"))]) for line in QUOTED),
    ],
)
def test_pairs_of_a_tsv_file(tmp_path, content, pairs):
    """A header is not a pair and may order the columns; quotes are text."""
    assert load_pairs(write(tmp_path, "a.tsv", content)) == pairs


def test_pairs_of_other_files(tmp_path):
    rows = [dict(zip(("source", "target"), pair, strict=True)) for pair in PAIRS]
    assert load_pairs(write(tmp_path, "a.jsonl", json_lines(rows))) == PAIRS
    columns = dict(zip(("en", "es"), zip(*PAIRS, strict=True), strict=True))
    assert load_pairs(write_parquet(tmp_path / "b.parquet", columns)) == PAIRS


@pytest.mark.parametrize("load", [load_texts, load_pairs])
def test_a_file_of_another_type_is_not_looked_for_on_the_hub(
    tmp_path, monkeypatch, load
):
    monkeypatch.setattr(hub, "hub_answers", lambda kind, name: 1 / 0)
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "notes", "a text")
    for name in ("my.csv", "data/my.csv", "owner/none.json", "a.txt.gz", "notes"):
        with pytest.raises(ValueError, match=r"unsupported file type .*use \.txt"):
            load(name)
    for name in ("owner/name-v1.5", "owner/name", "owner/name.com"):
        with pytest.raises(ZeroDivisionError):
            load(name)


FAULTY = {
    load_texts: [
        ("a.txt", b"\n \n\n", "a.txt has no row with text"),
        ("a.tsv", "", "a.tsv has no row with text"),
        ("a.txt", b"Good\xff.", "a.txt is not UTF-8"),
        ("a.txt", "Good.".encode("utf-16-le"), "it is not UTF-8: save it so"),
        ("a.jsonl", '{"text": "a"}\n{"text": " "}\n', "row 2: text is empty"),
        ("a.jsonl", '{"story": "b"}\n', "row 1 has no column 'text', only 'story'"),
        ("a.jsonl", '{"text": "a"}\nTom ran.\n', "a.jsonl cannot be read as .jsonl"),
        ("a.tsv", "id\ttext\n1\ta\n2\n", "row 2: text is empty"),
        ("a.tsv", "id\ttext\n1\ta\tb\n", "a.tsv cannot be read as .tsv"),
        ("a.tsv", "id\tstory\n1\ta\n", "row 1 has no column 'text', only 'id', 'st"),
        ("a.parquet", "PAR1 and then nothing", "a.parquet cannot be read as .parq"),
    ],
    load_pairs: [
        ("a.tsv", "Go.\tVe.\nRun.\n", "row 2: target is empty"),
        ("a.tsv", "en\tes\nRun.\t \n", "row 1: es is empty"),
        ("a.tsv", "sentence\tlabel\na\t1\n", "row 1 must have .*'sentence'"),
        ("a.tsv", "1276\tLet's try\t2481\tIntentemos\n", "a column of numbers"),
        ("a.tsv", "eng\tthe cat\tel gato\n", "codes such as 'eng'"),
        ("a.tsv", "Inglés\tOtro\n" + "Go.\tVe.\n" * 10, r"'otro'\], may be a pair"),
        ("a.tsv", "in\ten\nhouse\tcasa\n", "with source and target above the pairs"),
        ("a.tsv", "source\tsource\ttarget\na\tb\tc\n", "two columns have one name"),
        ("a.jsonl", '{"en": "Go.", "es": null}\n', "row 1: es is empty"),
        ("a.txt", "Go.", "row 1 must have the columns"),
    ],
}


@pytest.mark.parametrize(
    "load, name, content, message",
    [(load, *row) for load, rows in FAULTY.items() for row in rows],
)
def test_files_that_cannot_be_read_are_named(tmp_path, load, name, content, message):
    with pytest.raises(ValueError, match=message):
        load(write(tmp_path, name, content))


def test_reading_leaves_nothing_beside_a_file(tmp_path):
    path = write(tmp_path, "a[1].jsonl", json_lines({"text": t} for t in TEXTS))
    assert load_texts(path) == TEXTS
    assert [one.name for one in tmp_path.iterdir()] == ["a[1].jsonl"]


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*none\.txt"):
        load_texts(tmp_path / "none.txt")


# --- the worlds and the split ------------------------------------------------------


def test_worlds_come_by_name_and_by_split():
    train, validation = (load_texts("stories", s, 5) for s in ("train", "validation"))
    assert load_texts("stories", limit=3) == train[:3]
    assert not set(train) & set(validation)
    train, test = (load_pairs("phrases", split, 5) for split in ("train", "test"))
    assert load_pairs("phrases", limit=3) == train[:3]
    assert not set(train) & set(test)


def test_a_world_is_imported_only_when_it_is_asked_for():
    code = (
        "import sys, course_utils.data.hub as hub\n"
        "packages = {'known_worlds', 'named_mistakes', 'attention_views'}\n"
        "assert not packages & {*sys.modules}\n"
        "hub.WORLDS['texts']['mine'] = 'builtins:divmod'\n"
        "assert hub.load_texts('mine', 7, 2) == (3, 1)\n"
        "hub.load_texts('stories', limit=1)\n"
        "assert 'known_worlds' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_held_out_is_a_fraction_and_a_function_of_the_sentence():
    sentences = [f"Tom has {number} balls." for number in range(2000)]
    for fraction in (0.02, 0.3):
        held = sum(held_out(sentence, fraction) for sentence in sentences)
        assert held / len(sentences) == pytest.approx(fraction, rel=0.2)
    small = {s for s in sentences if held_out(s, 0.02)}
    assert small <= {s for s in sentences if held_out(s, 0.3)}
    assert all(held_out(f"  {s.upper()} \n") for s in small)
    with pytest.raises(ValueError, match=r"fraction must .* got 5"):
        held_out("a", 5)


def test_pairs_split_by_their_sentence_and_no_answer_of_the_test_is_learned():
    pairs = [(f"{n} cats.", f"{n} gatos.") for n in range(500)]
    pairs += [(f"{n} cats.", f"{n} gatas.") for n in range(500)]
    pairs += [("Look: " + english, spanish.upper()) for english, spanish in pairs]
    learn, test = split_pairs(pairs, 0.1)
    assert set(test) == {english for english, _ in pairs if held_out(english, 0.1)}
    assert all(len(answers) == 2 for answers in test.values())
    assert not {english for english, _ in learn} & set(test)
    answers = {text.casefold() for texts in test.values() for text in texts}
    assert not {spanish.casefold() for _, spanish in learn} & answers
    assert 0.7 * len(pairs) < len(learn) < 0.95 * len(pairs)


def test_ipython_shows_the_sentence_alone():
    error = DataUnavailable("No network. Connect.")
    assert error._render_traceback_() == ["DataUnavailable: No network. Connect."]


# --- the hub: one child process against a mirror on this machine ---------------------

WITH_GAPS = {
    "texts": {"text": ["", "One.", None, " \n", "Two.", "Three."]},
    "pairs": {"en": ["Go.", " ", "Run.", None], "es": ["", "Ve.", "Corre.", "Sí."]},
    "nothing": {"text": ["", " "]},
}
SHAPES = "[list(w.shape) for w in load_model({!r})(IDS, **GIVE).attentions]"
CALLS = {  # in one process, because each one spends seconds on its imports
    "their slice": f"datasets.load_dataset({STORIES!r}, split='train[2:5]')['text'][:]",
    "first": f"load_texts({STORIES!r}, limit=5)",
    "validation": f"load_texts({STORIES!r}, 'validation')",
    "tatoeba": f"load_pairs({TATOEBA!r}, limit=3)",
    "dev": f"load_pairs({TATOEBA!r}, 'dev')",
    "part": "load_texts('faulty/part', limit=2)",
    "texts": "load_texts('odd/texts')",
    "first texts": "load_texts('odd/texts', limit=2)",
    "pairs": "load_pairs('odd/pairs')",
    "first pair": "load_pairs('odd/pairs', limit=1)",
    "no text": "load_texts('odd/nothing', limit=3)",
    "unknown split": f"load_texts({STORIES!r}, 'nonsense')",
    "missing column": f"load_texts({TATOEBA!r}, limit=2)",
    "tokenizer": f"load_tokenizer({TOKENIZER!r})('Once upon a time').input_ids",
    "busy": "load_texts('faulty/busy')",
    "dropped": "load_texts('faulty/dropped')",
    "damaged": "load_texts('faulty/damaged')",
    "silent": "load_texts('faulty/silent')",
    "absent": "load_texts('faulty/absent')",
    "model": SHAPES.format("tiny/model"),
    "damaged model": SHAPES.format("faulty/model"),
    "offline": "os.environ.update(HF_HUB_OFFLINE='1')",
    "cached": f"load_texts({STORIES!r}, limit=5)",
    "cached texts": "load_texts('odd/texts', limit=2)",
    "cached tokenizer": f"load_tokenizer({TOKENIZER!r})('Once upon a time').input_ids",
    "cached model": SHAPES.format("tiny/model"),
    "not cached": "load_texts('faulty/healthy-v1.5')",
    "no tokenizer": "load_tokenizer('faulty/healthy')",
}
PATIENT = {  # what the libraries meet with many retries
    "stalled": "load_texts('faulty/stalled')",
    "dropped stream": "load_texts('faulty/dropped', limit=2)",
}
SETTINGS = {
    "PYTHONPATH": str(ROOT),
    "HF_HUB_DOWNLOAD_TIMEOUT": "2",
    "TQDM_DISABLE": "1",
}
PROGRAM = """
import json, os, sys
import datasets, torch
from course_utils.data.hub import *

IDS, GIVE = torch.tensor([[1, 2, 3]]), {"output_attentions": True}
answers = {}
for name, call in json.load(sys.stdin).items():
    try:
        answers[name] = {"value": eval(call)}
    except Exception as error:
        answers[name] = {"error": type(error).__name__, "message": str(error)}
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory):
    """The folders that the mirror serves."""
    root = tmp_path_factory.mktemp("mirror")
    fill_mirror(root)
    for name in ("busy", "dropped", "stalled", "damaged", "silent", "part"):
        path = root / "datasets" / "faulty" / name / "data" / "train.parquet"
        write_parquet(path, {"text": [f"Text {n} " * 40 for n in range(500)]})
    for name, columns in WITH_GAPS.items():
        write_parquet(root / "datasets" / "odd" / name / "data/train.parquet", columns)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=11, intermediate_size=16, **sizes)
    for name in ("tiny", "faulty"):
        transformers.BertModel(config).save_pretrained(root / "models" / name / "model")
    return root


def visit_hub(root, home, calls):
    """Run calls against a mirror with faults; their results, output and requests."""
    with HubMirror(root) as mirror:
        mirror.fault("GET .*busy/resolve", status=503)
        mirror.fault("GET .*dropped/resolve", after=2000)
        mirror.fault("GET .*stalled/resolve", after=2000, seconds=5)
        mirror.fault("GET /api/.*/silent", after=0, seconds=20)
        mirror.fault("GET .*damaged/resolve.*parquet", corrupt=True)
        mirror.fault("GET .*faulty/model/.*safetensors", corrupt=True)
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | mirror.env(home) | SETTINGS,
            input=json.dumps(calls),
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    return {"done": done, "log": mirror.log, **results}


@pytest.fixture(scope="module")
def visit(mirrored, tmp_path_factory):
    return visit_hub(mirrored, tmp_path_factory.mktemp("home"), CALLS)


def requests_for(visit, name):
    return sum(f"faulty/{name}" in request for request in visit["log"])


def value(visit, name):
    assert "value" in visit[name], visit[name]
    return visit[name]["value"]


def test_a_limit_reads_what_the_libraries_own_call_reads(visit):
    assert value(visit, "their slice") == value(visit, "first")[2:]


def test_pair_sets_come_in_their_own_columns(visit):
    assert len(value(visit, "tatoeba")) == 3
    assert all(len(pair) == 2 and all(pair) for pair in value(visit, "dev"))


@pytest.mark.parametrize(
    "name, rows",
    [
        ("texts", ["One.", "Two.", "Three."]),
        ("first texts", ["One.", "Two."]),
        ("cached texts", ["One.", "Two."]),
        ("pairs", [["Run.", "Corre."]]),
        ("first pair", [["Run.", "Corre."]]),
    ],
)
def test_rows_of_the_hub_without_text_are_skipped(visit, name, rows):
    """They were returned, and counted towards the limit."""
    assert value(visit, name) == rows


@pytest.mark.parametrize(
    "name, words",
    [
        ("no text", "odd/nothing has no row with text"),
        ("unknown split", "nonsense"),
        ("missing column", "has no column 'text'"),
    ],
)
def test_what_the_request_got_wrong_is_a_value_error(visit, name, words):
    assert visit[name]["error"] == "ValueError" and words in visit[name]["message"]


def test_a_refused_row_leaves_logging_as_it_was(monkeypatch):
    """It stayed silent for as long as the exception was kept, as IPython does."""
    monkeypatch.setattr(hub, "hub_answers", lambda kind, name: True)
    monkeypatch.setattr("datasets.load_dataset", lambda *_, **__: iter([{"a": "x"}]))
    with pytest.raises(ValueError, match="no column 'text'") as kept:
        load_texts("owner/name", limit=1)
    assert kept.value and logging.root.manager.disable == 0


def test_a_limit_fetches_only_a_part(visit):
    asked = [
        one for one in visit["log"] if re.search("GET .*faulty/part.*parquet", one)
    ]
    assert asked and all("bytes=" in one for one in asked)


@pytest.mark.parametrize(
    "name, words",
    [
        ("busy", "the hub answered and then failed"),
        ("dropped", "the hub answered and then failed"),
        ("damaged", "the hub answered and then failed"),
        ("damaged model", "or name a local folder"),
        ("silent", "does not answer, nothing of that name is cached"),
        ("absent", "no public repository datasets/faulty/absent"),
        ("not cached", "it is no file here"),
        ("no tokenizer", "it is no folder here"),
    ],
)
def test_each_fault_ends_in_one_sentence(visit, name, words):
    outcome = visit[name]
    assert outcome["error"] == "DataUnavailable", outcome
    assert words in outcome["message"] and "\n" not in outcome["message"]
    assert requests_for(visit, name) < 25, "the libraries would ask for minutes"


@pytest.mark.long
def test_patient_faults_end_too(mirrored, tmp_path):
    results = visit_hub(mirrored, tmp_path, PATIENT)
    for name in PATIENT:
        assert results[name]["error"] == "DataUnavailable", results[name]
        assert "and then failed" in results[name]["message"]
        assert requests_for(results, name.split()[0]) < 25


def test_what_is_cached_loads_without_a_hub(visit):
    assert value(visit, "cached") == value(visit, "first")
    assert value(visit, "model") == value(visit, "cached model") == [[1, 2, 3, 3]]
    ids = value(visit, "tokenizer")
    assert value(visit, "cached tokenizer") == ids
    if data_folder():
        assert ids == [7454, 2402, 257, 640]


def test_nothing_is_printed_beside(visit):
    assert visit["done"].stderr == ""
    assert len(visit["done"].stdout.splitlines()) == 1


def test_the_answer_of_a_captive_portal_does_not_count(monkeypatch, tmp_path):
    write(tmp_path, "page", "<html>Welcome to our hotel</html>")
    monkeypatch.setenv("HF_ENDPOINT", tmp_path.as_uri() + "/page?")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    assert not hub.hub_answers("datasets", STORIES)
