"""Batches, files, the hub, the generated languages, and tokenizers."""

PREPARE = """
import os, tempfile
os.environ["HF_HUB_OFFLINE"] = "1"
from math import inf, nan
from pathlib import Path
from types import SimpleNamespace as Names
import numpy as np
import tokenizers
import torch
from course_utils.text import bpe
from course_utils.text import tokenizer as tk
from course_utils.data import batches as ba
from course_utils.data import connection, files, hub, splits
from course_utils.data.worlds import grading, phrases, senses, stories
from course_utils.data.worlds import story_grammar, story_graph

folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)
os.mkdir("empty_folder")
os.mkdir("folder.txt")


def w(name, content):
    data = content if isinstance(content, bytes) else content.encode()
    Path(name).write_bytes(data)
    return name


ids = [[5, 6, 7], [8, 9], [10, 11, 12, 13]]
sp = Names(pad_id=0, bos_id=1, eos_id=2)
pad_is_eos = Names(pad_id=2, bos_id=1, eos_id=2)
pad_is_bos = Names(pad_id=1, bos_id=1, eos_id=2)
packed = ba.packed_batches(ids, batch_size=1, length=3, special=sp)
padded = ba.padded_batches(ids, batch_size=2, special=sp)
pairs = [([5, 6], [7]), ([8], [9, 10])]
labelled = [([5, 6], 0, 1), ([7], 0, 0)]
tok = tk.train_bpe(["a text", "another text"], 270)
roles = dict(zip(tk.ROLES, bpe.SPECIAL))
words = {"<unk>": 0, "a": 5, "<eos>": 9}
gaps = tk.Tokenizer(
    tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>")),
    {"pad": "<eos>", "bos": "<eos>", "eos": "<eos>", "unk": "<unk>"},
)
merged = bpe.train(["abab"], 262)
told = stories.story(0)
grammar = story_grammar.load_grammar()
first = story_graph.first_node(grammar, story_graph.load_graph())
made = senses.usage(0)
w("other.json", '{"a": 1}')
w("two.txt", "one\\n\\ntwo")
w("two.tsv", "Go.\\tVe.\\nRun.\\tCorre.\\n")
"""

CALLS = {
    # --- packed_batches, PackedBatches
    "ba.packed_batches([[1, 2, 3, -7, 4]], batch_size=1, length=2, special=sp)": (
        "ValueError rows[0] >= 0 -7"
    ),
    "ba.packed_batches(None, batch_size=1, length=2, special=sp)": (
        "TypeError rows sequence None"
    ),
    "ba.packed_batches('a text', batch_size=1, length=2, special=sp)": (
        "TypeError rows sequence text"
    ),
    "ba.packed_batches(['a text'], batch_size=1, length=2, special=sp)": (
        "TypeError rows[0] integers text"
    ),
    "ba.packed_batches({1: [2]}, batch_size=1, length=2, special=sp)": (
        "TypeError rows sequence dict"
    ),
    "ba.packed_batches((row for row in ids), batch_size=1, length=2, special=sp)": (
        "TypeError rows sequence generator"
    ),
    "ba.packed_batches([5, 6, 7], batch_size=1, length=2, special=sp)": (
        "TypeError rows[0] sequence integers 5"
    ),
    "ba.packed_batches(torch.tensor(5), batch_size=1, length=2, special=sp)": (
        "TypeError rows sequence number"
    ),
    "ba.packed_batches([], batch_size=1, length=2, special=sp)": (
        "ValueError rows empty"
    ),
    "ba.packed_batches([[5], []], batch_size=1, length=2, special=sp)": (
        "ValueError rows[1] empty"
    ),
    "ba.packed_batches([[5, None]], batch_size=1, length=2, special=sp)": (
        "TypeError rows[0][1] integer None"
    ),
    "ba.packed_batches([[5, True]], batch_size=1, length=2, special=sp)": (
        "TypeError rows[0][1] integer True"
    ),
    "ba.packed_batches([[5, 2.5]], batch_size=1, length=2, special=sp)": (
        "TypeError rows[0][1] integer 2.5"
    ),
    "ba.packed_batches([[5, 2**63]], batch_size=1, length=2, special=sp)": (
        "ValueError rows[0] below 2**63"
    ),
    "ba.packed_batches([[[5, 6]]], batch_size=1, length=2, special=sp)": (
        "TypeError rows[0][0] integer list"
    ),
    "ba.packed_batches([torch.ones(9)], batch_size=1, length=2, special=sp)": (
        "TypeError rows[0] int64 torch.float32"
    ),
    "ba.packed_batches([np.ones(9, np.int32)], batch_size=1, length=2, special=sp)": (
        "TypeError rows[0] int64 int32"
    ),
    "ba.packed_batches([np.ones((9, 9), int)], batch_size=1, length=2, special=sp)": (
        "ValueError rows[0] axis (9, 9)"
    ),
    "ba.packed_batches(ids, batch_size=0, length=2, special=sp)": (
        "ValueError batch_size >= 1 0"
    ),
    "ba.packed_batches(ids, batch_size='2', length=2, special=sp)": (
        "TypeError batch_size integer '2'"
    ),
    "ba.packed_batches(ids, batch_size=True, length=2, special=sp)": (
        "TypeError batch_size integer True"
    ),
    "ba.packed_batches(ids, batch_size=2, length=2.0, special=sp)": (
        "TypeError length integer 2.0"
    ),
    "ba.packed_batches(ids, batch_size=2, length=-1, special=sp)": (
        "ValueError length >= 1 -1"
    ),
    "ba.packed_batches(ids, batch_size=2, length=None, special=sp)": (
        "TypeError length integer None"
    ),
    "ba.packed_batches(ids, batch_size=9, length=4, special=sp)": (
        "ValueError rows batch_size length 40 13"
    ),
    "ba.packed_batches(ids, batch_size=1, length=2, special=sp, seed=-1)": (
        "ValueError seed >= 0 -1"
    ),
    "ba.packed_batches(ids, batch_size=1, length=2, special=sp, seed=1.5)": (
        "TypeError seed integer 1.5"
    ),
    "ba.packed_batches(ids, batch_size=1, length=2, special=None)": (
        "TypeError special eos_id None"
    ),
    "ba.packed_batches(ids, batch_size=1, length=2, special=Names(eos_id=None))": (
        "TypeError special.eos_id integer None"
    ),
    "ba.packed_batches(ids, batch_size=1, length=2, special=Names(eos_id=-1))": (
        "ValueError special.eos_id >= 0 -1"
    ),
    "ba.PackedBatches(torch.arange(5), batch_size=4, length=8)": (
        "ValueError stream batch_size length 40 5"
    ),
    "ba.PackedBatches(torch.zeros(99), batch_size=4, length=8)": (
        "TypeError stream int64 torch.float32"
    ),
    "ba.PackedBatches(torch.zeros(9, 9).long(), batch_size=4, length=8)": (
        "ValueError stream axis (9, 9)"
    ),
    "ba.PackedBatches(None, batch_size=4, length=8)": "TypeError stream integers None",
    "ba.PackedBatches(-torch.arange(99), batch_size=4, length=8)": (
        "ValueError stream >= 0 -98"
    ),
    "ba.PackedBatches(torch.arange(99), batch_size=4, length=8, seed=None)": (
        "TypeError seed integer None"
    ),
    "ba.PackedBatches(torch.arange(99), batch_size=4, length=0)": (
        "ValueError length >= 1 0"
    ),
    "packed(-1)": "ValueError step >= 0 -1",
    "packed(1.0)": "TypeError step integer 1.0",
    "packed(None)": "TypeError step integer None",
    "packed(True)": "TypeError step integer True",
    # --- padded_batches, RowBatches
    "ba.padded_batches([[0, 0, 0]], batch_size=1, special=sp)": (
        "ValueError rows[0] pad_id=0"
    ),
    "ba.padded_batches([], batch_size=1, special=sp)": "ValueError rows empty",
    "ba.padded_batches(['a text'], batch_size=1, special=sp)": (
        "TypeError rows[0] integers text"
    ),
    "ba.padded_batches([[5, -6]], batch_size=1, special=sp)": (
        "ValueError rows[0] >= 0 -6"
    ),
    "ba.padded_batches(ids, batch_size=4, special=sp)": (
        "ValueError batch_size=4 rows 3"
    ),
    "ba.padded_batches(ids, batch_size=1, special=sp, max_length=4)": (
        "ValueError rows[2] 5 max_length=4"
    ),
    "ba.padded_batches(ids, batch_size=1, special=sp, multiple=0)": (
        "ValueError multiple >= 1 0"
    ),
    "ba.padded_batches(ids, batch_size=1, special=sp, max_length=0)": (
        "ValueError max_length >= 1 0"
    ),
    "ba.padded_batches(ids, batch_size=1, special=sp, max_length='9')": (
        "TypeError max_length integer '9'"
    ),
    "ba.padded_batches(ids, batch_size=1, special=sp, seed='0')": (
        "TypeError seed integer '0'"
    ),
    "ba.padded_batches(ids, batch_size=1, special=Names(pad_id=0))": (
        "TypeError special bos_id"
    ),
    "ba.padded_batches(ids, batch_size=1, special=pad_is_eos)": (
        "ValueError pad_id eos_id 2"
    ),
    "ba.padded_batches(ids, batch_size=1, special=pad_is_bos)": (
        "ValueError pad_id bos_id 1"
    ),
    "ba.pair_batches(pairs, batch_size=1, special=pad_is_eos)": (
        "ValueError pad_id eos_id 2"
    ),
    "padded(-1)": "ValueError step >= 0 -1",
    "padded('0')": "TypeError step integer '0'",
    "padded.rows([])": "ValueError indices empty",
    "padded.rows([3])": "ValueError indices[0] num_rows=3 3",
    "padded.rows([0, -1])": "ValueError indices[1] num_rows=3 -1",
    "padded.rows([0.0])": "TypeError indices[0] integer 0.0",
    "padded.rows(None)": "TypeError indices Sequence None",
    "padded.rows(1)": "TypeError indices Sequence 1",
    "padded.rows('01')": "TypeError indices[0] integer '0'",
    "ba.RowBatches([3, 4], batch_size=1, rows=None)": "TypeError rows callable None",
    "ba.RowBatches([3, 'a'], batch_size=1, rows=list)": "TypeError lengths[1] 'a'",
    "ba.RowBatches(None, batch_size=1, rows=list)": "TypeError lengths integers None",
    "ba.RowBatches([3, -4], batch_size=1, rows=list)": "ValueError lengths >= 0 -4",
    "ba.RowBatches([3, 4], batch_size=3, rows=list)": "ValueError batch_size=3 2",
    "ba.RowBatches([3, 4], batch_size=2.0, rows=list)": (
        "TypeError batch_size integer 2.0"
    ),
    # --- pair_batches
    "ba.pair_batches(None, batch_size=1, special=sp)": "TypeError pairs sequence None",
    "ba.pair_batches([], batch_size=1, special=sp)": "ValueError pairs empty",
    "ba.pair_batches(['ab'], batch_size=1, special=sp)": (
        "TypeError pairs[0] target 'ab'"
    ),
    "ba.pair_batches([([5], [6], [7])], batch_size=1, special=sp)": (
        "ValueError pairs[0] target length 3"
    ),
    "ba.pair_batches([([5], None)], batch_size=1, special=sp)": (
        "TypeError pairs[0][1] integers None"
    ),
    "ba.pair_batches([([], [5])], batch_size=1, special=sp)": (
        "ValueError pairs[0][0] empty"
    ),
    "ba.pair_batches([([5], [5]), ([5, 0], [5])], batch_size=1, special=sp)": (
        "ValueError pairs[1][0] pad_id=0"
    ),
    "ba.pair_batches([([5], [-5])], batch_size=1, special=sp)": (
        "ValueError pairs[0][1] >= 0 -5"
    ),
    "ba.pair_batches([('to', 'a')], batch_size=1, special=sp)": (
        "TypeError pairs[0][0] integers 'to'"
    ),
    "ba.pair_batches(pairs, batch_size=1, special=sp, max_length=2)": (
        "ValueError pairs[1][1] 3 max_length=2"
    ),
    "ba.pair_batches(pairs, batch_size=1, special=sp, max_length=True)": (
        "TypeError max_length integer True"
    ),
    "ba.pair_batches(pairs, batch_size=1, special=7)": "TypeError special pad_id 7",
    "ba.pair_batches(pairs, batch_size=3, special=sp)": "ValueError batch_size=3 2",
    # --- labelled_batches
    "ba.labelled_batches([([1.5, 2], 0, 1)], batch_size=1, special=sp)": (
        "TypeError rows[0][0][0] integer 1.5"
    ),
    "ba.labelled_batches([([5], 0, 1), ([5], 1)], batch_size=1, special=sp)": (
        "ValueError rows[1] (ids, position, label) length 2"
    ),
    "ba.labelled_batches([([5], 1), ([5], 0, 1)], batch_size=1, special=sp)": (
        "ValueError rows[1] (ids, label) length 3"
    ),
    "ba.labelled_batches([5], batch_size=1, special=sp)": "TypeError rows[0] label 5",
    "ba.labelled_batches(['ab'], batch_size=1, special=sp)": (
        "TypeError rows[0] label 'ab'"
    ),
    "ba.labelled_batches([('a text', 1)], batch_size=1, special=sp)": (
        "TypeError rows[0][0] integers 'a"
    ),
    "ba.labelled_batches([([5], 1, 0)], batch_size=1, special=sp)": (
        "ValueError position rows[0][1] 1"
    ),
    "ba.labelled_batches([([5], -1, 0)], batch_size=1, special=sp)": (
        "ValueError position rows[0][1] -1"
    ),
    "ba.labelled_batches([([5], 0.0, 0)], batch_size=1, special=sp)": (
        "TypeError position rows[0][1] integer 0.0"
    ),
    "ba.labelled_batches([([5], None, 0)], batch_size=1, special=sp)": (
        "TypeError position rows[0][1] integer None"
    ),
    "ba.labelled_batches([([5], 0, 0.5)], batch_size=1, special=sp)": (
        "TypeError label rows[0][2] integer 0.5"
    ),
    "ba.labelled_batches([([5], '1')], batch_size=1, special=sp)": (
        "TypeError label rows[0][1] integer '1'"
    ),
    "ba.labelled_batches([([5], True)], batch_size=1, special=sp)": (
        "TypeError label rows[0][1] integer True"
    ),
    "ba.labelled_batches([([5], -1)], batch_size=1, special=sp)": (
        "ValueError label rows[0][1] >= 0 -1"
    ),
    "ba.labelled_batches([([], 1)], batch_size=1, special=sp)": (
        "ValueError rows[0][0] empty"
    ),
    "ba.labelled_batches([([0, 5], 1)], batch_size=1, special=sp)": (
        "ValueError rows[0][0] pad_id=0"
    ),
    "ba.labelled_batches(labelled, batch_size=1, special=sp, max_length=1)": (
        "ValueError rows[0][0] 2 max_length=1"
    ),
    "ba.labelled_batches(labelled, batch_size=1, special=sp, max_length='9')": (
        "TypeError max_length integer '9'"
    ),
    "ba.labelled_batches(labelled, batch_size=3, special=sp)": (
        "ValueError batch_size=3 2"
    ),
    "ba.labelled_batches(labelled, batch_size=1, special=0)": (
        "TypeError special pad_id 0"
    ),
    "ba.labelled_batches(labelled, batch_size=1, special=Names(pad_id='0'))": (
        "TypeError special.pad_id integer '0'"
    ),
    "ba.labelled_batches(labelled, batch_size=1, special=sp, seed=-1)": (
        "ValueError seed >= 0 -1"
    ),
    "ba.labelled_batches(labelled, batch_size=1, special=sp).rows([2])": (
        "ValueError indices[0] num_rows=2 2"
    ),
    # --- files
    "files.read_texts(None)": "TypeError path str Path None",
    "files.read_texts(7)": "TypeError path str Path 7",
    "files.read_texts(w('a.txt', 'one'), column='story')": (
        "ValueError column='story' a.txt no columns"
    ),
    "files.read_texts(w('a.tsv', 'text'), column=None)": "TypeError column str None",
    "files.read_texts(w('a.tsv', 'text'), column='')": "ValueError column empty",
    "files.read_texts(w('my.csv', 'text'))": (
        "ValueError my.csv unsupported '.csv' .tsv"
    ),
    "files.read_texts('')": "ValueError path empty",
    "files.read_texts('none.txt')": "FileNotFoundError no file none.txt",
    "files.read_texts('folder.txt')": "ValueError folder.txt folder",
    "files.read_texts('empty_folder')": "ValueError empty_folder unsupported .txt",
    "files.read_texts(w('b.txt', ''))": "ValueError b.txt empty",
    "files.read_texts(w('c.txt', ' \\n\\n '))": "ValueError c.txt texts",
    "files.read_texts(w('d.txt', 'text'.encode('utf-16')))": (
        "ValueError d.txt UTF-8 byte 0xff re-save"
    ),
    "files.read_texts(w('e.txt', 'text'.encode('utf-16-le')))": (
        "ValueError e.txt UTF-8 byte 1 0x00"
    ),
    "files.read_texts(w('f.txt', b'Good\\xff'))": "ValueError f.txt UTF-8 byte 4 0xff",
    'files.read_texts(w(\'a.jsonl\', \'{"text": ""}\\n{"text": " "}\'))': (
        "EmptyText a.jsonl line 1 text empty"
    ),
    'files.read_texts(w(\'b.jsonl\', \'{"text": "a"}\\n{"text": " "}\'))': (
        "EmptyText b.jsonl line 2 text empty"
    ),
    "files.read_texts(w('c.jsonl', '{\"text\": null}'))": (
        "EmptyText c.jsonl line 1 text None"
    ),
    "files.read_texts(w('d.jsonl', '{\"text\": 7}'))": (
        "ValueError d.jsonl line 1 text 7"
    ),
    "files.read_texts(w('e.jsonl', '{\"text\": [\"a\"]}'))": (
        "ValueError e.jsonl line 1 text list"
    ),
    "files.read_texts(w('f.jsonl', 'one'))": "ValueError f.jsonl line 1 JSON",
    "files.read_texts(w('g.jsonl', '[1]'))": "ValueError g.jsonl line 1 'text' list",
    'files.read_texts(w(\'h.jsonl\', \'{"text": "a", "text": "b"}\'))': (
        "ValueError h.jsonl line 1 duplicate 'text'"
    ),
    "files.read_texts(w('i.jsonl', '{\"story\": \"a\"}'))": (
        "ValueError i.jsonl line 1 'text' 'story'"
    ),
    "files.read_texts(w('j.jsonl', '[' * 9999))": "ValueError j.jsonl line 1 JSON",
    "files.read_texts(w('dup.tsv', 'text\\ttext\\na\\tb'))": (
        "ValueError dup.tsv line 1 duplicate 'text'"
    ),
    "files.read_texts(w('quoted.tsv', 'text\\tn\\n\"one\\ttwo\"\\t3'))": (
        "ValueError quoted.tsv line 2 quoted tab"
    ),
    "files.read_texts(w('emptycell.tsv', 'id\\ttext\\n1\\t\\n2\\tb'))": (
        "EmptyText emptycell.tsv line 2 text empty"
    ),
    "files.read_texts(w('wide.tsv', 'id\\ttext\\n1\\ta\\tb'))": (
        "ValueError wide.tsv line 2 3 2"
    ),
    "files.read_texts(w('short.tsv', 'id\\ttext\\n1'))": (
        "ValueError short.tsv line 2 'text'"
    ),
    "files.read_texts(w('headless.tsv', 'Go.\\tVe.\\n'))": (
        "ValueError headless.tsv line 1 'text' 'Go.'"
    ),
    "files.read_texts(w('a.parquet', 'PAR1 and nothing else'))": (
        "ValueError a.parquet complete parquet"
    ),
    "files.read_pairs(None)": "TypeError path str Path None",
    "files.read_pairs(w('p.txt', 'one'))": "ValueError p.txt source target .tsv",
    'files.read_pairs(w(\'a.jsonl\', \'{"source": "", "target": " "}\'))': (
        "EmptyText a.jsonl line 1 source empty"
    ),
    'files.read_pairs(w(\'b.jsonl\', \'{"en": "Go.", "es": 7}\'))': (
        "ValueError b.jsonl line 1 es 7"
    ),
    "files.read_pairs(w('c.jsonl', '{\"en\": \"Go.\"}'))": (
        "ValueError c.jsonl line 1 en/es 'en'"
    ),
    "files.read_pairs(w('header.tsv', 'source\\ttarget\\na\\t'))": (
        "EmptyText header.tsv line 2 target empty"
    ),
    "files.read_pairs(w('header2.tsv', 'sentence\\tlabel\\na\\t1'))": (
        "ValueError header2.tsv line 2 source/target 'sentence'"
    ),
    "files.read_pairs(w('header3.tsv', 'english\\tspanish\\na\\tb\\tc'))": (
        "ValueError header3.tsv line 2 3 2"
    ),
    "files.read_pairs(w('header4.tsv', 'english\\tenglish\\na\\tb'))": (
        "ValueError header4.tsv line 1 duplicate 'english'"
    ),
    "files.read_pairs(w('only.tsv', 'source\\ttarget\\n'))": (
        "ValueError only.tsv empty"
    ),
    "files.read_pairs(w('one.tsv', 'Go.\\n'))": (
        "ValueError one.tsv line 1 target 'Go.'"
    ),
    "files.read_pairs(w('half.tsv', 'Go.\\t \\n'))": "EmptyText half.tsv line 1 target",
    "files.read_pairs(w('cut.tsv', '\"Go,\\tnow.\"\\tVe.\\n'))": (
        "ValueError cut.tsv line 1 quoted tab"
    ),
    "files.read_labelled(['two.tsv'])": "TypeError path str Path list",
    'files.read_labelled(w(\'bool.jsonl\', \'{"text": "a", "label": true}\'))': (
        "ValueError bool.jsonl line 1 label True"
    ),
    'files.read_labelled(w(\'float.jsonl\', \'{"text": "a", "label": 1.0}\'))': (
        "ValueError float.jsonl line 1 label integer 1.0 (float)"
    ),
    'files.read_labelled(w(\'null.jsonl\', \'{"text": "a", "label": null}\'))': (
        "ValueError null.jsonl line 1 label None"
    ),
    'files.read_labelled(w(\'emptylabel.jsonl\', \'{"text": "", "label": ""}\'))': (
        "EmptyText emptylabel.jsonl line 1 text empty"
    ),
    'files.read_labelled(w(\'blank.jsonl\', \'{"text": "a", "label": " "}\'))': (
        "ValueError blank.jsonl line 1 label empty"
    ),
    'files.read_labelled(w(\'minus.jsonl\', \'{"text": "a", "label": -1}\'))': (
        "ValueError minus.jsonl line 1 label -1"
    ),
    "files.read_labelled(w('nolabel.jsonl', '{\"text\": \"a\"}'))": (
        "ValueError nolabel.jsonl line 1 label 'text'"
    ),
    "files.read_labelled(w('list.jsonl', '[\"a\", 1]'))": (
        "ValueError list.jsonl line 1 label list"
    ),
    "files.text_of(None, 'here', 'text')": "ValueError here row 'text' None",
    "files.text_of({'text': 'a'}, 'here', ['text'])": "TypeError column str list",
    "files.pair_of(7, 'here')": "ValueError here source/target 7",
    "files.labelled_of('a', 'here')": "ValueError here label 'a'",
    "files.is_file(None)": "TypeError source str Path None",
    # --- hub
    "hub.load_texts(None)": "TypeError source str Path None",
    "hub.load_texts(np.array(['stories', 'a']))": "TypeError source str Path ndarray",
    "hub.load_texts(['stories'])": "TypeError source str Path list",
    "hub.load_texts('')": "ValueError source owner/name ''",
    "hub.load_texts('storys')": "ValueError source owner/name 'storys'",
    "hub.load_texts('phrases', limit=3)": "ValueError source 'phrases' pairs",
    "hub.load_texts('../stories')": "ValueError source owner/name '../stories'",
    "hub.load_texts('Once upon a time\\n' * 99)": "ValueError source owner/name 'Once",
    "hub.load_texts('data/my.csv')": "ValueError data/my.csv unsupported '.csv' .jsonl",
    "hub.load_texts(w('my.csv', 'a'))": "ValueError my.csv unsupported '.csv' .jsonl",
    "hub.load_texts(w('notes', 'a'))": "ValueError notes unsupported .txt",
    "hub.load_texts(Path('owner/name'))": "ValueError owner/name unsupported .txt",
    "hub.load_texts('stories')": "ValueError limit 'stories'",
    "hub.load_texts('stories', limit=0)": "ValueError limit >= 1 0",
    "hub.load_texts('stories', limit='9')": "TypeError limit integer '9'",
    "hub.load_texts('stories', limit=2.0)": "TypeError limit integer 2.0",
    "hub.load_texts('stories', limit=True)": "TypeError limit integer True",
    "hub.load_texts('stories', 5)": "TypeError split str 5",
    "hub.load_texts('stories', None)": "TypeError split str None",
    "hub.load_texts('stories', 'dev', 3)": "ValueError split 'train' 'dev'",
    "hub.load_texts('stories', limit=3, column='story')": "ValueError column='story'",
    "hub.load_texts('stories', limit=3, column=7)": "TypeError column str 7",
    "hub.load_texts('two.txt', column='story')": "ValueError column='story' two.txt",
    "hub.load_texts('two.txt', 'validation')": "ValueError split 'train' 'validation'",
    "hub.load_texts('two.txt', '')": "ValueError split empty",
    "hub.load_texts('two.txt', limit=-1)": "ValueError limit >= 1 -1",
    "hub.load_texts('owner/name-v1.5')": "DataUnavailable owner/name-v1.5 no file here",
    "hub.load_pairs(None)": "TypeError source str Path None",
    "hub.load_pairs('stories', limit=3)": "ValueError source 'stories' texts",
    "hub.load_pairs('phrases')": "ValueError limit 'phrases'",
    "hub.load_pairs('phrases', 'dev', 3)": "ValueError split 'train' 'dev'",
    "hub.load_pairs('phrases', limit=nan)": "TypeError limit integer nan",
    "hub.load_pairs('two.tsv', 'test')": "ValueError split 'train' 'test'",
    "hub.load_pairs('pairs.xlsx')": "ValueError pairs.xlsx unsupported '.xlsx' .tsv",
    "hub.load_labelled(7)": "TypeError source str Path 7",
    "hub.load_labelled('senses')": "ValueError limit 'senses'",
    "hub.load_labelled('senses', 'validation', 3)": "ValueError split 'validation'",
    "hub.load_labelled('senses', limit=-3)": "ValueError limit >= 1 -3",
    "hub.load_tokenizer(None)": "TypeError name str Path None",
    "hub.load_tokenizer('gpt2')": "ValueError name owner/name folder 'gpt2'",
    "hub.load_tokenizer(Path('none/here'))": "ValueError name folder 'none/here'",
    "hub.load_tokenizer('other.json')": "ValueError name folder file other.json",
    "hub.load_tokenizer('empty_folder')": (
        "ValueError name tokenizer transformers 'empty_folder'"
    ),
    "hub.load_tokenizer('owner/name')": "DataUnavailable owner/name no folder here",
    "hub.load_model(None)": "TypeError name str Path None",
    "hub.load_model('gpt2')": "ValueError name owner/name folder 'gpt2'",
    "hub.load_model('other.json')": "ValueError name folder file other.json",
    "hub.load_model('empty_folder')": "ValueError name model transformers empty_folder",
    "hub.load_model('owner/name')": "DataUnavailable owner/name no folder here",
    "splits.held_out(None)": "TypeError sentence str None",
    "splits.held_out(['a'])": "TypeError sentence str list",
    "splits.held_out('a', 0)": "ValueError share > 0 0",
    "splits.held_out('a', 1.0)": "ValueError share [0, 1.0",
    "splits.held_out('a', nan)": "ValueError share nan",
    "splits.held_out('a', '0.1')": "TypeError share number '0.1'",
    "splits.held_out('a', True)": "TypeError share number True",
    "connection.hub_answers('spaces', 'owner/name')": "ValueError kind 'spaces'",
    "connection.hub_answers('models', '')": "ValueError name empty",
    "connection.hub_answers('models', None)": "TypeError name str None",
    "connection.hub_library('files', 'owner/name').__enter__()": (
        "ValueError kind 'files'"
    ),
    # --- the generated languages
    "stories.story(-1)": "ValueError index >= 0 -1",
    "stories.story(1.5)": "TypeError index integer 1.5",
    "stories.story(True)": "TypeError index integer True",
    "stories.story('0')": "TypeError index integer '0'",
    "stories.story(0, seed=-2)": "ValueError seed >= 0 -2",
    "stories.story(0, seed=None)": "TypeError seed integer None",
    "stories.tell(None, 5)": "TypeError grammar Grammar None",
    "stories.tell(grammar, -5)": "ValueError number >= 0 -5",
    "stories.tell(grammar, 5.0)": "TypeError number integer 5.0",
    "stories.token_costs(None)": "TypeError tokens list None",
    "stories.token_costs(told.text)": "TypeError tokens list 'There",
    "stories.token_costs([])": "ValueError tokens complete story 0",
    "stories.token_costs(told.tokens[:-1])": "ValueError tokens complete story",
    "stories.token_costs([*told.tokens, 7])": "TypeError tokens[ str 7",
    "stories.Story('a', 0.0, 'p', {}, {}, ['a'], ['wording']).floor": (
        "ValueError tokens complete story"
    ),
    "stories.Story('a', 0.0, 'p', {}, {}, told.tokens, ['wording']).floor_by_kind": (
        "ValueError tokens kinds 1"
    ),
    "stories.Story('a', 0.0, 'p', {}, {}, ['a'], ['plot']).floor_by_kind": (
        "ValueError kinds wording 'plot'"
    ),
    "stories.mean_floor(0)": "ValueError count >= 1 0",
    "stories.mean_floor(2.0)": "TypeError count integer 2.0",
    "stories.mean_floor('9')": "TypeError count integer '9'",
    "stories.mean_floor(2, start=-1)": "ValueError start >= 0 -1",
    "stories.mean_floor(2, seed=-1)": "ValueError seed >= 0 -1",
    "stories.mean_floor(2, start=None)": "TypeError start integer None",
    "story_grammar.pieces(None)": "TypeError text str None",
    "story_grammar.pieces(b'a')": "TypeError text str bytes",
    "story_grammar.read_grammar(None)": "TypeError text str None",
    "story_grammar.read_grammar('')": "GrammarError 'opening' missing",
    "story_grammar.parse_wording(None, grammar, True)": "TypeError text str None",
    "story_grammar.parse_wording('a', None, True)": "TypeError grammar Grammar None",
    "story_grammar.parse_wording('a', grammar, 1)": ("TypeError space bool 1"),
    "story_graph.build_graph(None)": "TypeError grammar Grammar None",
    "story_graph.first_node(grammar, None)": ("TypeError graph dict None"),
    "story_graph.first_node(None, {})": "TypeError grammar Grammar None",
    "list(story_graph.read(None, first, {}))": "TypeError tokens list None",
    "list(story_graph.read([], None, {}))": "TypeError start Node None",
    "list(story_graph.read([], first, None))": "TypeError slots dict None",
    "story_graph.count_parses(None, None, {})": "TypeError tokens list None",
    "story_graph.count_parses(['a', 7], first, {})": "TypeError tokens[1] str 7",
    "story_graph.totals(first, None)": "TypeError slots dict None",
    "story_graph.totals(None, {})": "TypeError start Node None",
    "phrases.pair(-1)": "ValueError index >= 0 -1",
    "phrases.pair(1.5)": "TypeError index integer 1.5",
    "phrases.pair(None)": "TypeError index integer None",
    "phrases.pair(0, 'dev')": "ValueError split 'train' 'dev'",
    "phrases.pair(0, None)": "ValueError split 'train' None",
    "phrases.pair(0, ['train'])": "ValueError split 'train' list",
    "phrases.pair(0, seed=-1)": "ValueError seed >= 0 -1",
    "phrases.pair(0, seed='a')": "TypeError seed integer 'a'",
    "senses.usage(-1)": "ValueError index >= 0 -1",
    "senses.usage(1.0)": "TypeError index integer 1.0",
    "senses.usage(True)": "TypeError index integer True",
    "senses.usage(0, 'validation')": "ValueError split 'train' 'test' 'validation'",
    "senses.usage(0, 1)": "ValueError split 'train' 1",
    "senses.usage(0, seed=-1)": "ValueError seed >= 0 -1",
    "senses.usage(0, seed=None)": "TypeError seed integer None",
    "senses.Usage('a', 'bat', 'plant', 'left', ('a',), 0, ()).label": (
        "ValueError word='bat' sense='plant' labels()"
    ),
    "grading.grade(None)": "TypeError text str None",
    "grading.grade(['a'], [])": "TypeError text str list",
    "grading.grade('a', ['Zoe'])": "TypeError extra_names dict list",
    "grading.grade('a', [])": "TypeError extra_names dict list",
    "grading.grade('a', {'zoe': 'girl'})": "ValueError extra_names capitalized 'zoe'",
    "grading.grade('a', {'7': 'girl'})": "ValueError extra_names capitalized '7'",
    "grading.grade('a', {'': 'girl'})": "ValueError extra_names capitalized ''",
    "grading.grade('a', {7: 'girl'})": "ValueError extra_names capitalized 7",
    "grading.grade('a', {'Zoe Ann': 'girl'})": "ValueError extra_names 'Zoe",
    "grading.grade('a', {'Zoe': 'cat'})": "ValueError extra_names 'girl' 'cat'",
    "grading.grade('a', {'Zoe': None})": "ValueError extra_names 'girl' None",
    # --- byte pairs
    "bpe.train(['abab'], 261.5)": "TypeError vocab_size integer 261.5",
    "bpe.train(['abab'], None)": "TypeError vocab_size integer None",
    "bpe.train(['abab'], 259)": "ValueError vocab_size >= 260 259",
    "bpe.train(['abab'], True)": "TypeError vocab_size integer True",
    "bpe.train(['a'], 300, special='<eos>')": "TypeError special list '<eos>'",
    "bpe.train(['a'], 300, special=['<eos>', '<eos>'])": "ValueError special different",
    "bpe.train(['a'], 300, special=[1])": "TypeError special[0] str 1",
    "bpe.train(['a'], 300, special=None)": "TypeError special list None",
    "bpe.train('a text', 300)": "TypeError texts list 'a",
    "bpe.train(None, 300)": "TypeError texts list None",
    "bpe.train({'en': 'a'}, 300)": "TypeError texts list dict",
    "bpe.train(['a', 7], 300)": "TypeError texts[1] str 7",
    "bpe.train(['a', '\\ud83d'], 300)": "ValueError texts[1] Unicode",
    "bpe.BytePairs([(5, 6, 7)])": "ValueError merges[0] pair two length 3",
    "bpe.BytePairs([(5, 6), (5, 6)])": "ValueError merges[1] pair new (5, 6)",
    "bpe.BytePairs([(2, 6)])": "ValueError merges[0] pair [4, (2, 6)",
    "bpe.BytePairs([(5, 260)])": "ValueError merges[0] pair 260) (5, 260)",
    "bpe.BytePairs([(5, 6.0)])": "TypeError merges[0] pair[1] integer 6.0",
    "bpe.BytePairs([5])": "TypeError merges[0] pair tuple 5",
    "bpe.BytePairs(5)": "TypeError merges list 5",
    "bpe.BytePairs(None)": "TypeError merges list None",
    "bpe.BytePairs('ab')": "TypeError merges list 'ab'",
    "merged.add(None)": "TypeError pair tuple None",
    "merged.add((5, -6))": "ValueError pair[1] >= 0 -6",
    "merged.add(next(iter(merged.made)))": "ValueError pair new",
    "merged.encode(None)": "TypeError text str bytes None",
    "merged.encode(['a'])": "TypeError text str bytes list",
    "merged.encode('a\\ud83d')": "ValueError text Unicode index 1",
    "merged.encode('a\\udc80')": "ValueError text Unicode index 1",
    "merged.encode_word('ab')": "TypeError word bytes 'ab'",
    "merged.encode_word(None)": "TypeError word bytes None",
    "merged.decode(None)": "TypeError ids integers None",
    "merged.decode('ab')": "TypeError ids integers 'ab'",
    "merged.decode(b'ab')": "TypeError ids integers bytes",
    "merged.decode(5)": "TypeError ids integers 5",
    "merged.decode({5: 6})": "TypeError ids integers dict",
    "merged.decode({5, 6})": "TypeError ids integers set",
    "merged.decode([5, -1])": "ValueError ids[1] vocab_size -1",
    "merged.decode([5, 9999])": "ValueError ids[1] vocab_size 9999",
    "merged.decode([5.0])": "TypeError ids[0] integer 5.0",
    "merged.decode([True])": "TypeError ids[0] integer True",
    "merged.decode_bytes([None])": "TypeError ids[0] integer None",
    "bpe.cut(7)": "TypeError text str bytes 7",
    "bpe.cut(None)": "TypeError text str bytes None",
    "bpe.join(None, (5, 6), 9)": "TypeError ids Sequence None",
    "bpe.join([5, 6], [5, 6], 9)": "TypeError pair tuple list",
    "bpe.join([5, 6], (5, 6, 7), 9)": "ValueError pair two length 3",
    "bpe.join([5, 6], (5, '6'), 9)": "TypeError pair[1] integer '6'",
    "bpe.join([5, 6], (5, 6), None)": "TypeError new integer None",
    "bpe.join([5, 6], (5, 6), -9)": "ValueError new >= 0 -9",
    "bpe.join('ab', (5, 6), 9)": "TypeError ids[0] integer 'a'",
    # --- tokenizers
    "tk.Tokenizer(tok._backend, dict.fromkeys(tk.ROLES, '<none>'))": (
        "ValueError special['pad'] '<none>' vocabulary"
    ),
    "tk.Tokenizer(tok._backend, {**roles, 'unk': '<none>'})": (
        "ValueError special['unk'] '<none>' vocabulary"
    ),
    "tk.Tokenizer(tok._backend, {'bos': '<bos>'})": "ValueError special 'pad' missing",
    "tk.Tokenizer(tok._backend, {**roles, 'mask': '<eos>'})": (
        "ValueError special pad 'mask'"
    ),
    "tk.Tokenizer(tok._backend, {**roles, 'pad': 0})": "TypeError special['pad'] str 0",
    "tk.Tokenizer(tok._backend, {**roles, 'pad': None})": (
        "TypeError special['pad'] str None"
    ),
    "tk.Tokenizer(tok._backend, None)": "TypeError special Mapping None",
    "tk.Tokenizer(tok._backend, list(roles))": "TypeError special Mapping list",
    "tk.Tokenizer(tok, roles)": "TypeError backend Tokenizer",
    "tk.Tokenizer(None, roles)": "TypeError backend Tokenizer None",
    "gaps.tokens([1])": "ValueError ids[0]=1 vocabulary",
    "gaps.decode([5, 8])": "ValueError ids[1]=8 vocabulary",
    "gaps.decode([10])": "ValueError ids[0] vocab_size=10 10",
    "tok.encode(None)": "TypeError text str None",
    "tok.encode(['a'])": "TypeError text str list",
    "tok.encode(b'a')": "TypeError text str bytes",
    "tok.encode('a\\ud83d')": "ValueError text Unicode index 1",
    "tok.encode_batch('a text')": "TypeError texts list 'a",
    "tok.encode_batch(None)": "TypeError texts list None",
    "tok.encode_batch([])": "ValueError texts empty",
    "tok.encode_batch(['a', None])": "TypeError texts[1] str None",
    "tok.encode_batch(['a', '\\ud83d'])": "ValueError texts[1] Unicode",
    "tok.encode_batch({'a': 'b'})": "TypeError texts list dict",
    "tok.decode(None)": "TypeError ids integers None",
    "tok.decode('abc')": "TypeError ids integers 'abc'",
    "tok.decode(b'abc')": "TypeError ids integers bytes",
    "tok.decode(5)": "TypeError ids integers 5",
    "tok.decode({5: 6})": "TypeError ids integers dict",
    "tok.decode({5, 6})": "TypeError ids integers set",
    "tok.decode([1.5])": "TypeError ids[0] integer 1.5",
    "tok.decode([5, True])": "TypeError ids[1] integer True",
    "tok.decode([5, -1])": "ValueError ids[1] vocab_size=270 -1",
    "tok.decode([5, 270])": "ValueError ids[1] vocab_size=270 270",
    "tok.decode(torch.tensor([[5]]))": "TypeError ids integers (1, 1)",
    "tok.decode(torch.tensor(5))": "TypeError ids integers ()",
    "tok.decode(torch.tensor([5.0]))": "TypeError ids[0] integer 5.0",
    "tok.decode(np.array([[5]]))": "TypeError ids integers ndarray",
    "tok.decode([5], skip_special='no')": "TypeError skip_special bool 'no'",
    "tok.decode([5], skip_special=None)": "TypeError skip_special bool None",
    "tok.tokens(None)": "TypeError ids integers None",
    "tok.tokens([5, None])": "TypeError ids[1] integer None",
    "tok.tokens([9999])": "ValueError ids[0] vocab_size=270 9999",
    "tok.save(None)": "TypeError path str Path None",
    "tok.save('')": "ValueError path empty",
    "tk.Tokenizer.load('')": "ValueError path empty",
    "tk.Tokenizer.load(None)": "TypeError path str Path None",
    "tk.Tokenizer.load('other.json')": "ValueError other.json Tokenizer.save",
    "tk.Tokenizer.load('two.txt')": "ValueError two.txt Tokenizer.save",
    "tk.Tokenizer.load('none.json')": "FileNotFoundError none.json",
    "tk.train_bpe([], 300)": "ValueError texts empty",
    "tk.train_bpe([''], 300)": "ValueError texts character",
    "tk.train_bpe('a text', 300)": "TypeError texts list 'a",
    "tk.train_bpe(['a', 3], 300)": "TypeError texts[1] str 3",
    "tk.train_bpe(['a', b'b'], 300)": "TypeError texts[1] str bytes",
    "tk.train_bpe(None, 300)": "TypeError texts list None",
    "tk.train_bpe(['\\ud83d'], 300)": "ValueError texts[0] Unicode",
    "tk.train_bpe(['a'], 259)": "ValueError vocab_size >= 260 259",
    "tk.train_bpe(['a'], 300.5)": "TypeError vocab_size integer 300.5",
    "tk.train_bpe(['a'], None)": "TypeError vocab_size integer None",
    "tk.train_words([])": "ValueError texts empty",
    "tk.train_words(['', ''])": "ValueError texts character",
    "tk.train_words('a text')": "TypeError texts list 'a",
    "tk.train_words([7])": "TypeError texts[0] str 7",
    "tk.from_transformers('EleutherAI/gpt-neo-125M')": (
        "TypeError auto_tokenizer transformers 'EleutherAI"
    ),
    "tk.from_transformers(None)": "TypeError auto_tokenizer transformers None",
    "tk.from_transformers(Names(backend_tokenizer=tok._backend, eos_token=None))": (
        "ValueError auto_tokenizer eos_token=None"
    ),
}
