"""Data come from where they were asked for, or one clear sentence says why not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import transformers

from course_utils.data import hub
from course_utils.data.hub import DataUnavailable, load_labelled, load_pairs, load_texts
from course_utils.data.splits import held_out
from tests.support.hub_client import OPUS, STORIES, TATOEBA
from tests.support.hub_mirror import HubMirror
from tests.support.mirror_data import fill_mirror

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ["Tom has a ball.\nIt is red.", "Ana ran.", "Ñandú — 🙂"]
PAIRS = [("Go.", "Ve."), ("I see her.", "La veo.")]
END = "<|endoftext|>"


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


def test_empty_lines_inside_marked_stories_stay(tmp_path):
    path = write(tmp_path, "a.txt", f"One.\n\nTwo.\n{END}\nThree.")
    assert load_texts(path) == ["One.\n\nTwo.", "Three."]


def test_jsonl_parquet_and_tsv_texts(tmp_path):
    lines = write(tmp_path, "a.jsonl", json_lines({"text": t} for t in TEXTS))
    assert load_texts(lines) == TEXTS
    table = write_parquet(tmp_path / "a.parquet", {"id": [1, 2, 3], "text": TEXTS})
    assert load_texts(str(table)) == TEXTS
    named = write(tmp_path, "a.tsv", "id\tstory\n1\tTom ran.\n2\tNA\n")
    assert load_texts(named, column="story") == ["Tom ran.", "NA"]


@pytest.mark.parametrize(
    "header", ["Source\tTarget\tnote", "english\tnon_english", "vietnamese\trussian"]
)
def test_the_header_of_a_tsv_file_with_pairs_is_not_a_pair(tmp_path, header):
    lines = "\n".join("\t".join(pair) for pair in PAIRS)
    assert load_pairs(write(tmp_path, "a.tsv", f"{header}\n{lines}\n")) == PAIRS


def test_the_header_of_a_tsv_file_orders_the_columns(tmp_path):
    lines = "\n".join(f"{n}\t{es}\t{en}" for n, (en, es) in enumerate(PAIRS))
    for header in ("id\ttarget\tsource", "id\tes\ten"):
        assert load_pairs(write(tmp_path, "a.tsv", f"{header}\n{lines}")) == PAIRS
    turned = [(es, en) for en, es in PAIRS]
    path = write(tmp_path, "a.tsv", f"id\tspanish\tenglish\n{lines}")
    assert load_pairs(path) == turned


def test_labels_from_every_kind_of_file(tmp_path):
    rows = [("a fine film", "1"), ("a bore", "0")]
    lines = "\n".join("\t".join(row) for row in rows)
    for header in ("sentence\tlabel\n", "Text\tLabel\tnote\n", ""):
        assert load_labelled(write(tmp_path, "a.tsv", f"{header}{lines}\n")) == rows
    columns = {"sentence": [t for t, _ in rows], "label": [int(n) for _, n in rows]}
    assert load_labelled(write_parquet(tmp_path / "a.parquet", columns)) == rows


@pytest.mark.parametrize("line", ['"Go!" he said.\t"¡Ve!", dijo.', '"Go.\tVe.'])
def test_quotes_are_text(tmp_path, line):
    assert load_pairs(write(tmp_path, "a.tsv", line)) == [tuple(line.split("\t"))]


@pytest.mark.parametrize("load", [load_texts, load_pairs, load_labelled])
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


def test_pairs_from_every_kind_of_file(tmp_path):
    tabs = write(tmp_path, "a.tsv", "Go.\tVe.\tnote\n\nI see her.\tLa veo.\r\n")
    assert load_pairs(tabs) == PAIRS
    rows = [dict(zip(("source", "target"), pair, strict=True)) for pair in PAIRS]
    assert load_pairs(write(tmp_path, "a.jsonl", json_lines(rows))) == PAIRS
    rows = [dict(zip(("en", "es"), pair, strict=True)) for pair in PAIRS]
    nested = write_parquet(tmp_path / "b.parquet", {"translation": rows})
    assert load_pairs(nested) == PAIRS


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.txt", b"\n \n\n", "a.txt has no row with text"),
        ("a.tsv", b"", "a.tsv has no row with text"),
        ("a.txt", b"Good\xff.", "a.txt is not UTF-8"),
        ("a.txt", "Good.".encode("utf-16-le"), "it is not UTF-8: save it so"),
        ("a.jsonl", b'{"text": "a"}\n{"text": " "}\n', "row 2: text is empty"),
        ("a.jsonl", b'{"story": "b"}\n', "row 1 has no column 'text', only 'story'"),
        ("a.jsonl", b'{"text": "a"}\nTom ran.\n', "a.jsonl cannot be read as .jsonl"),
        ("a.tsv", b"id\ttext\n1\ta\n2\n", "row 2: text is empty"),
        ("a.tsv", b"id\ttext\n1\ta\tb\n", "a.tsv cannot be read as .tsv"),
        ("a.tsv", b"id\tstory\n1\ta\n", "row 1 has no column 'text', only 'id', 'st"),
        ("a.parquet", b"PAR1 and then nothing", "a.parquet cannot be read as .parq"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path, name, content, message):
    with pytest.raises(ValueError, match=message):
        load_texts(write(tmp_path, name, content))


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.tsv", b"Go.\tVe.\nRun.\n", "row 2: target is empty"),
        ("a.tsv", b"en\tes\nRun.\t \n", "row 1: es is empty"),
        ("a.tsv", b"sentence\tlabel\na\t1\n", "row 1 must have .*'sentence'"),
        ("a.tsv", b"1276\tLet's try\t2481\tIntentemos\n", "a column of numbers where"),
        ("a.jsonl", b'{"en": "Go.", "es": null}\n', "row 1: es is empty"),
        ("a.txt", b"Go.", "row 1 must have the columns"),
    ],
)
def test_pair_files_that_cannot_be_read_are_named(tmp_path, name, content, message):
    with pytest.raises(ValueError, match=message):
        load_pairs(write(tmp_path, name, content))


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


def test_ipython_shows_the_sentence_alone():
    error = DataUnavailable("No network. Connect.")
    assert error._render_traceback_() == ["DataUnavailable: No network. Connect."]


# --- the hub: one child process against a mirror on this machine ---------------------


WITH_GAPS = {
    "texts": {"text": ["", "One.", None, " \n", "Two.", "Three."]},
    "pairs": {"en": ["Go.", " ", "Run.", None], "es": ["", "Ve.", "Corre.", "Sí."]},
    "labelled": {"sentence": [" ", "Good.", ""], "label": [1, 0, 1]},
    "nothing": {"text": ["", " "]},
}


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory):
    """The folders that the mirror serves, and whether their stories are real."""
    root = tmp_path_factory.mktemp("mirror")
    real = fill_mirror(root)
    for name in ("busy", "dropped", "stalled", "damaged", "silent"):
        path = root / "datasets" / "faulty" / name / "data" / "train.parquet"
        write_parquet(path, {"text": [f"Text {n} " * 40 for n in range(500)]})
    for name, columns in WITH_GAPS.items():
        write_parquet(root / "datasets" / "odd" / name / "data/train.parquet", columns)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=11, intermediate_size=16, **sizes)
    for name in ("tiny", "faulty"):
        transformers.BertModel(config).save_pretrained(root / "models" / name / "model")
    return root, real


def visit_hub(root, home, *arguments):
    """Run the client against a mirror with faults; its results, output and requests."""
    with HubMirror(root) as mirror:
        mirror.fault("GET /storage.*/busy", "status", code=503)
        mirror.fault("GET /storage.*/dropped", "drop", after=2000)
        mirror.fault("GET /storage.*/stalled", "stall", after=2000, seconds=5)
        mirror.fault("GET /api/.*/silent", "stall", after=0, seconds=20)
        mirror.fault("GET .*/damaged/.*parquet", "corrupt")
        mirror.fault("GET .*/faulty/model/.*safetensors", "corrupt")
        env = {**os.environ, **mirror.env(home), "PYTHONPATH": str(ROOT)}
        env |= {"HF_HUB_DOWNLOAD_TIMEOUT": "2", "TQDM_DISABLE": "1"}
        command = [
            sys.executable,
            str(ROOT / "tests" / "support" / "hub_client.py"),
            *arguments,
        ]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        results = json.loads(done.stdout.splitlines()[-1])
        return {"done": done, "log": mirror.log, **results}


@pytest.fixture(scope="module")
def visit(mirrored, tmp_path_factory):
    root, real = mirrored
    return {"real": real, **visit_hub(root, tmp_path_factory.mktemp("home"))}


def value(visit, name):
    assert "value" in visit[name], visit[name]
    return visit[name]["value"]


def test_unmodified_load_dataset_works_against_the_mirror(visit):
    theirs, ours = value(visit, "unmodified"), value(visit, "ours")
    assert theirs["columns"] == ["text"]
    assert theirs["slice"] == ours["first"][2:5]
    assert theirs["stream"] == ours["validation"][:3]
    assert theirs["splits"]["validation"] == len(ours["validation"])
    assert theirs["splits"]["train"] > theirs["splits"]["validation"]


def test_pair_sets_come_in_their_own_columns(visit):
    ours = value(visit, "ours")
    assert len(ours["tatoeba"]) == 3
    assert ours["opus"] == ours["dev"][:2]
    assert all(len(pair) == 2 and all(pair) for pair in ours["dev"])


def test_rows_of_the_hub_without_text_are_skipped(visit):
    """Bug B10: they were returned, and counted towards the limit."""
    assert value(visit, "gaps") == {
        "texts": ["One.", "Two.", "Three."],
        "first texts": ["One.", "Two."],
        "pairs": [["Run.", "Corre."]],
        "first pair": [["Run.", "Corre."]],
        "labelled": [["Good.", "0"]],
        "first labelled": [["Good.", "0"]],
    }
    assert value(visit, "cached gaps") == ["One.", "Two."]
    assert visit["no text"]["error"] == "ValueError"
    assert "odd/nothing has no row with text" in visit["no text"]["message"]


def test_unmodified_auto_tokenizer_works_against_the_mirror(visit):
    tokens = value(visit, "tokens")
    assert tokens["text"] == "Once upon a time, there was a little girl."
    assert tokens["end"] == END
    if visit["real"]:
        assert tokens["ids"][:4] == [7454, 2402, 257, 640]


def test_a_limit_fetches_only_a_part(visit):
    first_download = visit["log"].index(
        next(line for line in visit["log"] if "tatoeba" in line and "/dev-" in line)
    )
    before = [line for line in visit["log"][:first_download] if "tatoeba" in line]
    assert any("GET" in line and "/train-" in line for line in before)


def test_what_the_request_got_wrong_is_a_value_error(visit):
    assert visit["unknown split"]["error"] == "ValueError"
    assert "nonsense" in visit["unknown split"]["message"]
    assert visit["missing column"]["error"] == "ValueError"
    assert "'story'" in visit["missing column"]["message"]


@pytest.mark.parametrize(
    "name, words",
    [
        ("busy", "the hub answered and then failed"),
        ("dropped", "the hub answered and then failed"),
        ("damaged", "download_mode='force_redownload'"),
        ("damaged model", "force_download"),
        ("silent", "does not answer, nothing of that name is cached"),
        ("absent", "no public repository datasets/faulty/absent"),
        ("not cached", "it is no file here"),
        ("no tokenizer", "it is no folder here"),
    ],
)
def test_each_fault_ends_in_one_sentence(visit, name, words):
    outcome = visit[name]
    assert outcome["error"] == "DataUnavailable", outcome
    assert words in outcome["message"]
    assert "\n" not in outcome["message"]
    assert outcome["seconds"] < 60


@pytest.mark.long
def test_patient_faults_end_too(mirrored, tmp_path):
    results = visit_hub(mirrored[0], tmp_path, "patient")
    for name in ("stalled", "dropped stream"):
        assert results[name]["error"] == "DataUnavailable", results[name]
        assert "and then failed" in results[name]["message"]
        assert results[name]["seconds"] < 120


def test_a_silent_hub_costs_seconds(visit):
    assert visit["silent"]["seconds"] < 5 * hub.ANSWER_SECONDS
    assert visit["not cached"]["seconds"] < 25


def test_cached_data_load_without_a_hub(visit):
    assert value(visit, "cached") == value(visit, "ours")["first"]
    assert value(visit, "cached tokenizer") > 1000


def test_a_model_gives_its_weights_by_name_and_from_the_cache(visit):
    assert value(visit, "model") == value(visit, "cached model") == [[1, 2, 3, 3]]


def test_nothing_is_printed_beside(visit):
    assert visit["done"].stderr == ""
    assert len(visit["done"].stdout.splitlines()) == 1


def test_the_answer_of_a_captive_portal_does_not_count(monkeypatch, tmp_path):
    write(tmp_path, "page", "<html>Welcome to our hotel</html>")
    monkeypatch.setenv("HF_ENDPOINT", tmp_path.as_uri() + "/page?")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    assert not hub.hub_answers("datasets", STORIES)


def test_names_the_course_uses_are_served():
    assert hub.PAIR_CONFIGS == {TATOEBA: "en-es", OPUS: "en-es"}
