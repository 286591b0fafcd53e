"""Save and load the state of a run; a kill at any moment leaves no damaged checkpoint.

Knows folders, modules, optimizers and the processes that share them. Knows nothing of
losses or batches.
"""

import json
import os
import re
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.optim import Optimizer

from course_utils.training.processes import Processes

KEPT = 2  # the newest, and the one before should the newest be damaged
NOTES = "notes.json"
COMPLETE = re.compile(r"step-(\d{7,})")
UNFINISHED = re.compile(r"step-\d{7,}\.tmp")
Parts = tuple[nn.Module, Sequence[Optimizer]]


def save_checkpoint(
    folder: Path, step: int, parts: Parts, notes: dict, processes: Processes
) -> None:
    """Write a state to folder/step-NNNNNNN and remove all but the newest two.

    parts: the model and its optimizers, whole or sharded. notes: what JSON can hold,
    with an "identity". A folder is renamed into place when it is complete.
    """
    final = folder / f"step-{step:07d}"
    temporary = final.with_suffix(".tmp")
    if processes.rank == 0:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        with open(temporary / NOTES, "w", encoding="utf-8") as file:
            json.dump(notes, file)
            file.flush()
            os.fsync(file.fileno())
    processes.wait()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")  # one alone
        dcp.save(_tensors(parts), checkpoint_id=temporary, no_dist=processes.count == 1)
    if processes.rank == 0:
        os.replace(temporary, final)
        for old in list_checkpoints(folder)[:-KEPT]:
            shutil.rmtree(old)
    processes.wait()


def list_checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints of a folder, oldest first; all else in it is foreign."""
    names = (COMPLETE.fullmatch(path.name) for path in folder.glob("step-*"))
    steps = sorted((int(name[1]), name[0]) for name in names if name)
    files = (NOTES, ".metadata")  # the second is PyTorch's
    return [
        folder / name
        for _, name in steps
        if any((folder / name / file).is_file() for file in files)
    ]


def load_checkpoint(
    folder: Path, parts: Parts, identity: dict[str, str], processes: Processes
) -> dict | None:
    """Set model and optimizers to the newest state in `folder`; return its metadata.

    None when there is none yet. The number of processes may be another one now. Raises
    ValueError when the state is of another identity or cannot be read.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"checkpoints must be a folder, but {folder} is a file")
    if processes.rank == 0:
        for leftover in folder.glob("step-*.tmp"):
            if UNFINISHED.fullmatch(leftover.name) and leftover.is_dir():
                shutil.rmtree(leftover)
    processes.wait()
    if not (complete := list_checkpoints(folder)):
        return None
    newest = complete[-1]
    try:
        metadata = json.loads((newest / NOTES).read_text("utf-8"))
    except Exception as error:
        raise _damaged(newest, error) from error
    saved = metadata["identity"]
    for name, current in identity.items():
        stored = saved.get(name, current)  # a run that was not evaluated may be, later
        if stored != current:
            raise ValueError(
                f"checkpoint {newest} is of another run: {name} is {stored:.80} in the "
                f"checkpoint and {current:.80} in this run; begin a new one elsewhere"
            )
    for optimizer in parts[1]:
        optimizer.zero_grad()  # with gradients there, no moments would be laid out
    tensors = _tensors(parts)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is disabled")
            dcp.load(tensors, checkpoint_id=newest, no_dist=processes.count == 1)
    except (Exception, dcp.CheckpointException) as error:
        raise _damaged(newest, error) from error
    set_state_dict(*parts, **tensors)
    return metadata


def _tensors(parts: Parts) -> dict[str, dict]:
    """By the names of the parameters, so that another number of processes fits too."""
    model, moments = get_state_dict(*parts)
    return {"model_state_dict": model, "optim_state_dict": moments}


def _damaged(path: Path, error: BaseException) -> ValueError:
    return ValueError(
        f"checkpoint {path} cannot be read ({type(error).__name__}): delete it to "
        "resume from the previous one"
    )
