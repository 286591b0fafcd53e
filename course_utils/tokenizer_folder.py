"""Write a Tokenizer as the files that `transformers` opens, and read such files.

Knows the names that `transformers` gives to files and settings. Knows nothing of
models, and does not need `transformers` itself.
"""

import json
from pathlib import Path
from typing import Any

import tokenizers

from course_utils.shapes import check_positive, check_type, shown
from course_utils.tokenizer import ROLES, Tokenizer

TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
# Where a folder names its special tokens, and where it gives their ids.
NAMES = (TOKENIZER_CONFIG, "special_tokens_map.json")
IDS = ("generation_config.json", "config.json")
# Files of a tokenizer that comes without tokenizer.json.
OTHER_FORMS = ("tokenizer.model", "vocab.json", TOKENIZER_CONFIG)


def write_tokenizer(tokenizer: Tokenizer, folder: str | Path, max_length: int) -> None:
    """Write tokenizer.json and tokenizer_config.json into a folder that exists.

    `AutoTokenizer` then has the same ids and the four special tokens, treats their
    names inside a text as ordinary text, and pads on the left, because a model that
    continues a batch of texts needs their ends side by side. max_length: the positions
    of the model.

    Raises TypeError or ValueError for another tokenizer, a max_length below 1 or a
    folder that does not exist.
    """
    check_type(Tokenizer, tokenizer=tokenizer)
    folder = _checked_folder(folder)
    check_positive(max_length=max_length)
    path = folder / TOKENIZER
    tokenizer.save(path)
    content = read_settings(path)
    write_settings(content["tokenizer"], path)  # their file is one part of ours
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{role}_token": token for role, token in content["special"].items()},
        "split_special_tokens": True,  # "<eos>" inside a text is ordinary text
        "clean_up_tokenization_spaces": False,
        # Version 4 of transformers adds token types, which a LLaMA does not accept.
        "model_input_names": ["input_ids", "attention_mask"],
        "padding_side": "left",
        "model_max_length": max_length,
    }
    write_settings(settings, folder / TOKENIZER_CONFIG)


def read_tokenizer(folder: str | Path) -> Tokenizer:
    """The tokenizer of a folder in the layout of `transformers`, from tokenizer.json.

    Ids stay as they are, and none is added. The special tokens are those that
    tokenizer_config.json or special_tokens_map.json name, else those whose ids
    generation_config.json or config.json give. A missing bos or unk is eos. A padding
    token that is missing, or that is also bos or eos, is unk.

    Raises TypeError unless folder is a string or a path, ValueError for a folder
    without tokenizer.json, files that are damaged, or no end-of-text token.
    """
    folder = _checked_folder(folder)
    path = folder / TOKENIZER
    if not path.is_file():
        raise ValueError(f"folder must contain {TOKENIZER}, {_found(folder)}")
    try:
        backend = tokenizers.Tokenizer.from_str(path.read_text("utf-8"))
    except Exception as error:  # the Rust library raises bare Exception
        raise ValueError(
            f"{TOKENIZER} is not a file of the tokenizers library: "
            f"{str(error).splitlines()[0][:100]}"
        ) from None
    named = _named_tokens(folder, backend)
    if "eos" not in named:
        raise ValueError(
            f"{TOKENIZER_CONFIG} must name the eos_token, and no other file of the "
            f"folder does"
        )
    end = named["eos"]
    begin = named.get("bos", end)
    unknown = named.get("unk", end)
    padding = named.get("pad", unknown)
    if padding in (begin, end):
        padding = unknown
    special = {"pad": padding, "bos": begin, "eos": end, "unk": unknown}
    try:
        return Tokenizer(backend, special)
    except ValueError as error:
        raise ValueError(f"{TOKENIZER}: {error}") from None


def has_tokenizer(folder: str | Path) -> bool:
    """Whether a folder holds a tokenizer, in a form that can be read or not.

    Raises TypeError or ValueError for a folder that does not exist.
    """
    folder = _checked_folder(folder)
    return any((folder / name).is_file() for name in (TOKENIZER, *OTHER_FORMS))


def read_settings(path: str | Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises TypeError for another path, ValueError for a file that holds no object.
    """
    check_type(str | Path, path=path)
    path = Path(path)
    try:
        settings = json.loads(path.read_text("utf-8"))
    except ValueError as error:  # not UTF-8, or not JSON
        raise ValueError(f"{path.name} is not valid JSON: {error}") from None
    if not isinstance(settings, dict):
        raise ValueError(f"{path.name} must hold an object, got {shown(settings)}")
    return settings


def write_settings(settings: dict[str, Any], path: str | Path) -> None:
    """Write an object as a JSON file. Raises TypeError for anything else."""
    check_type(dict, settings=settings)
    check_type(str | Path, path=path)
    text = json.dumps(settings, ensure_ascii=False, indent=1)
    Path(path).write_text(text + "\n", "utf-8")


def _checked_folder(folder: object) -> Path:
    check_type(str | Path, folder=folder)
    if not Path(folder).is_dir():
        raise ValueError(f"folder must exist, got {shown(str(folder))}")
    return Path(folder)


def _found(folder: Path) -> str:
    for name in OTHER_FORMS:
        if (folder / name).is_file():
            return (
                f"got only {name}; AutoTokenizer.from_pretrained(folder)"
                f".save_pretrained(folder) of transformers writes it"
            )
    return f"got {shown(str(folder))}"


def _named_tokens(folder: Path, backend: tokenizers.Tokenizer) -> dict[str, str]:
    """The token of each role that the files of a folder name, by name or by id."""
    named = {}
    for file in (*NAMES, *IDS):
        if not (folder / file).is_file():
            continue
        settings = read_settings(folder / file)
        for role in ROLES:
            if file in NAMES:
                token = _by_name(settings, role)
            else:
                token = _by_id(settings, role, backend)
            if token:
                named.setdefault(role, token)
    return named


def _by_name(settings: dict[str, Any], role: str) -> str | None:
    """A token is written as a string, or as an object with its properties."""
    token = settings.get(f"{role}_token")
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _by_id(
    settings: dict[str, Any], role: str, backend: tokenizers.Tokenizer
) -> str | None:
    """An id is written as a number, or as a list of several; -1 stands for none."""
    id = settings.get(f"{role}_token_id")
    if isinstance(id, list) and id:
        id = id[0]
    if type(id) is not int or not 0 <= id < 2**32:
        return None
    return backend.id_to_token(id)
