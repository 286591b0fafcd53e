"""Keep the state of a run on disk so that a kill at any moment breaks nothing.

Knows folders and dictionaries. Knows nothing of models or of training.
"""

import os
import shutil
from pathlib import Path

import torch

KEPT = 2  # the newest, and the one before should the newest be damaged


def save_checkpoint(folder: Path, step: int, state: dict) -> Path:
    """Write `state` to folder/step-NNNNNNN and remove all but the newest two.

    The state is written to a temporary folder, forced to disk, and renamed into
    place: whatever the moment of a kill, a folder with a final name is complete.
    """
    final = folder / f"step-{step:07d}"
    temporary = final.with_suffix(".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    with open(temporary / "state.pt", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    if final.exists():
        shutil.rmtree(final)
    os.replace(temporary, final)
    for old in list_checkpoints(folder)[:-KEPT]:
        shutil.rmtree(old)
    return final


def list_checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints of a folder, oldest first."""
    return sorted(path for path in folder.glob("step-*") if path.suffix != ".tmp")


def load_checkpoint(folder: Path, identity: dict[str, str]) -> dict | None:
    """The newest state in `folder`, or None when there is none yet.

    Raises ValueError when the state is of a run with another identity, when it cannot
    be read, or when `folder` is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"checkpoints must name a folder, {folder} is a file")
    for leftover in folder.glob("step-*.tmp"):  # of a run killed while writing
        shutil.rmtree(leftover)
    found = list_checkpoints(folder)
    if not found:
        return None
    try:
        file = found[-1] / "state.pt"
        state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = f"cannot be read ({type(error).__name__})"
        advice = "delete it to go on from the one before"
        raise ValueError(f"checkpoint {found[-1]} {reason}; {advice}") from error
    for name, value in identity.items():
        saved = state["identity"].get(name)
        if saved != value:
            there, here = _first_difference(str(saved), value)
            other = f"another run: {name} is {there} there and {here} here"
            raise ValueError(f"checkpoint {found[-1]} belongs to {other}")
    return state


def _first_difference(saved: str, value: str) -> tuple[str, str]:
    """The first lines in which two descriptions differ."""
    there, here = saved.splitlines(), value.splitlines()
    for a, b in zip(there, here, strict=False):
        if a != b:
            return a.strip(), b.strip()
    return f"{len(there)} lines", f"{len(here)} lines"
