"""Write a LlamaLM as a folder that `transformers` opens, and read such a folder.

Knows the names that `transformers` gives to files, settings and weights. Knows nothing
of training. `import_llama` does not need `transformers`; `export_llama` opens with it
what it has written.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from pathlib import Path
from shutil import copymode
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from course_utils.config import LlamaConfig
from course_utils.llama_folder import (
    CONFIG,
    WEIGHTS,
    config_of,
    read_state,
    settings_of,
    tensors_of,
)
from course_utils.models import LlamaLM
from course_utils.shapes import check_index, check_text, check_type, shown
from course_utils.tokenizer import ROLES, Tokenizer
from course_utils.tokenizer_folder import (
    TOKENIZER,
    TOKENIZER_CONFIG,
    has_tokenizer,
    read_settings,
    read_tokenizer,
    write_settings,
    write_tokenizer,
)

GENERATION = "generation_config.json"
CARD = "README.md"
MADE_BY = 'exported by the course "From Attention to Stories"'  # known by an export
FILES = (CONFIG, GENERATION, WEIGHTS, TOKENIZER, TOKENIZER_CONFIG, CARD)
# What transformers may differ by, as a part of the largest logit: measured 1e-6.
TOLERANCE = 1e-4
SAMPLES = (
    "Once upon a time, a cat said: “I'm tired!”",
    "Two  spaces,\n\nan empty line, and 3.14 at the end: ",
    "bàn ăn, привет, 🙂",
)


# --- export --------------------------------------------------------------------------


def export_llama(
    model: LlamaLM,
    folder: str | Path,
    tokenizer: Tokenizer | None = None,
    *,
    begin_id: int | None = None,
    trained_on: str | None = None,
) -> None:
    """Write a folder that `transformers` opens: settings, weights and a model card.

    With a tokenizer also its files, and generation_config.json. The names of special
    tokens inside a text are ordinary text there too, nothing is added to a text, and
    `generate()` without a prompt begins a text. The weights keep their type, mixed ones
    all get the widest.

    begin_id: the token after which a text begins: eos_id after a training with
    `packed_batches`, bos_id after one with `padded_batches`. None takes that one
    of the two after which the model predicts the next token with the lower entropy.
    trained_on: what the model card says about the training data; without it the card
    says that they were not named.

    The folder is written beside its place, opened by `import_llama` and by
    `transformers`, which must give the same logits, tokens and greedy text, and renamed
    at the end. An earlier export in its place, known by its card, is replaced as a
    whole.

    Raises TypeError for an argument of the wrong type. Raises ValueError for a
    tokenizer of another vocabulary size than the model's, a begin_id outside it or
    without a tokenizer, an empty trained_on, weights that are not finite, or a folder
    that is a file or holds other files than those of an export. Raises ImportError
    without `transformers`, and RuntimeError if the written folder opens as something
    else. Nothing is left behind then.
    """
    check_type(LlamaLM, model=model)
    vocab_size = model.config.vocab_size
    if tokenizer is not None:
        check_type(Tokenizer, tokenizer=tokenizer)
        if tokenizer.vocab_size != vocab_size:
            raise ValueError(
                f"tokenizer must have the vocabulary of the model, vocab_size="
                f"{vocab_size}, got {tokenizer.vocab_size} tokens"
            )
    if begin_id is not None:
        check_index(vocab_size, "vocab_size", begin_id=begin_id)
        if tokenizer is None:
            raise ValueError(f"begin_id needs a tokenizer, got begin_id={begin_id}")
    if trained_on is not None:
        check_text(trained_on=trained_on)
    folder = _checked_place(folder)
    _import_transformers()  # before anything is written
    copy = _copy_on_cpu(model)
    if tokenizer is not None and begin_id is None:
        begin_id = _more_certain(copy, tokenizer.bos_id, tokenizer.eos_id)
    with _written_beside(folder) as made:
        _write_model(copy, tokenizer, made)
        if tokenizer is not None:
            write_tokenizer(tokenizer, made, model.config.max_length)
            write_settings(_generation(copy, tokenizer, begin_id), made / GENERATION)
        card = _card(copy, folder.name, tokenizer, begin_id, trained_on)
        (made / CARD).write_text(card, "utf-8")
        _check_own_reading(copy, tokenizer, made)
        _check_their_reading(copy.float(), tokenizer, begin_id, made)


def _checked_place(folder: object) -> Path:
    """The path of a new folder, an empty one, or one that holds an earlier export."""
    check_type(str | Path, folder=folder)
    place = Path(folder).resolve()
    if not place.exists():
        return place
    if not place.is_dir():
        raise ValueError(f"folder must not be a file, got {shown(str(folder))}")
    inside = sorted(path.name for path in place.iterdir())
    foreign = [name for name in inside if name not in FILES]
    if not foreign and not _is_ours(place / CARD):
        foreign = inside
    if foreign:
        raise ValueError(
            f"folder must be new, empty or an earlier export, got "
            f"{shown(str(folder))}, which holds {shown(foreign[0])}"
        )
    return place


def _is_ours(card: Path) -> bool:
    return card.is_file() and MADE_BY in card.read_text("utf-8", errors="replace")


@contextmanager
def _written_beside(folder: Path) -> Iterator[Path]:
    """A new folder that takes the place of `folder` unless an error comes.

    It lies in the nearest folder above that exists, so it is on the same disk.
    """
    above = folder.parent
    while not above.is_dir():
        above = above.parent
    with tempfile.TemporaryDirectory(prefix=".export-", dir=above) as work:
        made = Path(work) / "new"
        made.mkdir()
        yield made
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not folder.exists():
            made.rename(folder)
            return
        old = Path(work) / "old"
        folder.rename(old)
        try:
            made.rename(folder)
        except OSError:
            old.rename(folder)
            raise


def _copy_on_cpu(model: LlamaLM) -> LlamaLM:
    """A copy in eval mode. Raises ValueError for a weight that is not finite."""
    state = {}
    for name, weight in model.state_dict().items():
        if not weight.isfinite().all():
            raise ValueError(f"model must have finite weights, {name!r} has others")
        state[name] = weight.detach().cpu()
    return _filled(replace(model.config, dropout=0.0), state)


def _filled(config: LlamaConfig, state: dict[str, Tensor]) -> LlamaLM:
    """A LlamaLM on the CPU with a copy of these weights, in the widest of their types.

    No random numbers are drawn.
    """
    widest = reduce(torch.promote_types, {weight.dtype for weight in state.values()})
    with torch.device("meta"):
        model = LlamaLM(config)
    model = model.to(widest).to_empty(device="cpu")
    if config.tied:
        model.head.weight = model.tokens.weight
    model.load_state_dict(state)
    return model.eval()


def _more_certain(model: LlamaLM, *ids: int) -> int:
    """The id after which the next token has the lowest entropy."""
    with torch.no_grad():
        logits = model(torch.tensor(ids, device="cpu")[:, None])[:, 0].float()
    chances = logits.softmax(-1)
    entropies = torch.special.entr(chances).sum(-1)
    return ids[int(entropies.argmin())]


def _write_model(model: LlamaLM, tokenizer: Tokenizer | None, folder: Path) -> None:
    settings = settings_of(model.config) | {"torch_dtype": _type_of(model)}
    if tokenizer is not None:
        settings["pad_token_id"] = tokenizer.pad_id
        settings["bos_token_id"] = tokenizer.bos_id
        settings["eos_token_id"] = tokenizer.eos_id
    write_settings(settings, folder / CONFIG)
    save_file(tensors_of(model), folder / WEIGHTS, {"format": "pt"})
    copymode(folder / CONFIG, folder / WEIGHTS)  # else only the owner may read it


def _type_of(model: LlamaLM) -> str:
    return str(model.tokens.weight.dtype).removeprefix("torch.")


def _generation(model: LlamaLM, tokenizer: Tokenizer, begin_id: int) -> dict[str, Any]:
    """What `generate` does when it is told nothing else.

    It calls the token that it begins with bos, whatever that is in the tokenizer.
    """
    return {
        "bos_token_id": int(begin_id),
        "eos_token_id": tokenizer.eos_id,
        "pad_token_id": tokenizer.pad_id,
        # As many as in a pipeline of transformers, but no more than there is room for.
        "max_new_tokens": min(256, max(1, model.config.max_length - 1)),
    }


def _card(
    model: LlamaLM,
    name: str,
    tokenizer: Tokenizer | None,
    begin_id: int | None,
    trained_on: str | None,
) -> str:
    """The model card: what can be read off the model, and what the caller says."""
    config = model.config
    sizes = {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "layers": config.num_layers,
        "width": config.d_model,
        "width of the feed-forward layer": config.d_ff,
        "query heads": config.num_heads,
        "key-value heads": config.num_kv_heads,
        "tokens in the vocabulary": config.vocab_size,
        "longest text, in tokens": config.max_length,
    }
    rows = "\n".join(f"| {what} | {number:,} |" for what, number in sizes.items())
    matrix = "the embedding" if config.tied else "a matrix of its own"
    return f"""---
library_name: transformers
pipeline_tag: text-generation
---

# {name}

A language model of the LLaMA architecture,
{MADE_BY}.
Its weights are stored in {_type_of(model)}; its output matrix is {matrix}.

| | |
|---|---|
{rows}

## Training data

{trained_on or "The training data were not named when this model was exported."}

## Use

{_how_to_use(name, tokenizer, begin_id)}
"""


def _how_to_use(name: str, tokenizer: Tokenizer | None, begin_id: int | None) -> str:
    if tokenizer is None:
        return f"""The folder holds no tokenizer: the model takes and gives token ids.

```python
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("{name}")
```"""
    begin, end = tokenizer.tokens([begin_id, tokenizer.eos_id])
    return f"""```python
from transformers import pipeline

write = pipeline("text-generation", model="{name}")
print(write("")[0]["generated_text"])
```

The empty prompt begins a new text: the model begins one after the token `{begin}`, and
ends it with `{end}`. The tokenizer adds no token to a text, and treats the name of a
special token inside a text as ordinary text."""


# --- the written folder is opened ----------------------------------------------------


def _import_transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise ImportError(
            "export_llama opens the folder with transformers, which is not installed: "
            "pip install transformers"
        ) from error
    return transformers


def _check_own_reading(
    model: LlamaLM, tokenizer: Tokenizer | None, folder: Path
) -> None:
    """Raise RuntimeError unless `import_llama` gives the same model and tokenizer."""
    back, words = import_llama(folder)
    if back.config != model.config:
        raise RuntimeError("import_llama reads other settings from the export")
    weights = back.state_dict()
    for name, weight in model.state_dict().items():
        if not torch.equal(weights[name], weight):
            raise RuntimeError(f"import_llama reads other numbers in {name!r}")
    if tokenizer is None:
        return
    for text in _texts(tokenizer):
        if words.encode(text) != tokenizer.encode(text):
            raise RuntimeError(f"import_llama encodes {shown(text)} in another way")
    for role in ROLES:
        if getattr(words, f"{role}_id") != getattr(tokenizer, f"{role}_id"):
            raise RuntimeError(f"import_llama reads another {role} token")


def _texts(tokenizer: Tokenizer) -> list[str]:
    """Texts that every tokenizer must encode alike, special tokens spelled in some."""
    ids = (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id)
    spelled = [f"The{token} end{token}" for token in tokenizer.tokens(ids)]
    return [*SAMPLES, *spelled]


def _check_their_reading(
    model: LlamaLM, tokenizer: Tokenizer | None, begin_id: int | None, folder: Path
) -> None:
    """Raise RuntimeError unless transformers computes and writes what the model does.

    model: in float32, in which transformers computes here, too: what is rounded in
    another order in bfloat16 would hide a difference.
    """
    library = _import_transformers()
    with _silent(library), torch.device("cpu"):
        theirs = library.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True
        ).eval()
        length = min(256, model.config.max_length)
        draw = torch.Generator().manual_seed(0)
        ids = torch.randint(model.config.vocab_size, (1, length), generator=draw)
        with torch.no_grad():
            wanted = model(ids)
            gap = (theirs(ids).logits - wanted).abs().max().item()
        largest = wanted.abs().max().item()
        if not gap <= TOLERANCE * largest:
            raise RuntimeError(
                f"transformers {library.__version__} computes other logits from the "
                f"export: they differ by {gap:.2g}, and the largest is {largest:.2g}"
            )
        if tokenizer is not None:
            there = library.AutoTokenizer.from_pretrained(folder, local_files_only=True)
            _check_their_tokens(there, tokenizer)
            _check_their_text(theirs, model, begin_id, TOLERANCE * largest)


def _check_their_tokens(there: Any, tokenizer: Tokenizer) -> None:
    for text in _texts(tokenizer):
        ids = tokenizer.encode(text)
        if there.encode(text, add_special_tokens=False) != ids:
            raise RuntimeError(f"transformers encodes {shown(text)} in another way")
        if there.decode(ids, skip_special_tokens=True) != tokenizer.decode(ids):
            raise RuntimeError(f"transformers decodes {shown(text)} in another way")
    for role in ROLES:
        if getattr(there, f"{role}_token_id") != getattr(tokenizer, f"{role}_id"):
            raise RuntimeError(f"transformers reads another {role} token")
    if len(there) > tokenizer.vocab_size:
        raise RuntimeError("transformers adds tokens to the vocabulary")


def _check_their_text(
    theirs: Any, model: LlamaLM, begin_id: int, tolerance: float
) -> None:
    """Without a prompt they write what is the likeliest for the model, token by token.

    Of two tokens that are equally likely, up to the tolerance, either will do.
    """
    if model.config.max_length == 1:
        return
    most = min(16, model.config.max_length - 1)
    with torch.no_grad():
        ids = theirs.generate(max_new_tokens=most, do_sample=False)
        logits = model(ids[:, :-1])
    chosen = logits.gather(-1, ids[:, 1:, None])[..., 0]
    missed = (logits.amax(-1) - chosen).max().item()
    if ids[0, 0] != begin_id or missed > tolerance:
        raise RuntimeError("transformers writes another greedy text from the export")


@contextmanager
def _silent(library: Any) -> Iterator[None]:
    """No progress bar and no advice of transformers while the folder is opened."""
    logging = library.utils.logging
    verbosity = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


# --- import --------------------------------------------------------------------------


def import_llama(folder: str | Path) -> tuple[LlamaLM, Tokenizer | None]:
    """A LlamaLM on the CPU, in eval mode, and its tokenizer, from a folder of the hub.

    Settings: those of a plain LLaMA (see `llama_folder.config_of`). Weights: from
    model.safetensors or pytorch_model.bin, whole or in several files (see
    `llama_folder.read_state`); they keep their type, and where types are mixed the
    model has the widest. Tokenizer: from tokenizer.json (see
    `tokenizer_folder.read_tokenizer`), None for a folder without one.

    Raises TypeError unless folder is a string or a path. Raises ValueError for a folder
    without config.json or weights, another kind of model, a scaled RoPE or any other
    setting that a LlamaLM does not have, for weights that do not fit the settings, and
    for a tokenizer that cannot be read or that has more ids than the model.
    """
    check_type(str | Path, folder=folder)
    folder = Path(folder)
    if not (folder / CONFIG).is_file():
        raise ValueError(f"folder must contain {CONFIG}, got {shown(str(folder))}")
    settings = read_settings(folder / CONFIG)
    try:
        config = config_of(settings)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{CONFIG}: {error}") from None
    tokenizer = read_tokenizer(folder) if has_tokenizer(folder) else None
    if tokenizer is not None and tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"{TOKENIZER} has ids up to {tokenizer.vocab_size - 1}, but {CONFIG} says "
            f"vocab_size={config.vocab_size}"
        )
    return _filled(config, read_state(folder, config)), tokenizer
