"""One training on two processes: what one process would have seen."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from course_utils.checks import IGNORED
from course_utils.training import processes
from course_utils.training.checkpoints import list_checkpoints
from course_utils.training.processes import Processes
from tests.support.torchrun_run import run

SCRIPT = Path(__file__).parents[1] / "support" / "torchrun_run.py"


def launch(tmp_path, *more, shard="0"):
    """The run under torchrun on two processes of this machine."""
    here = {"OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1", "COURSE_SHARD": shard}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", SCRIPT, tmp_path / "result", *more]
    return subprocess.run(
        command, env=os.environ | here, capture_output=True, text=True, timeout=300
    )


def assert_as_one(tmp_path, expected):
    for rank in (0, 1):
        seen = json.loads((tmp_path / f"result-{rank}.json").read_text())
        losses, norms, tokens, evaluations = seen
        assert losses == pytest.approx(expected.losses, abs=1e-9)
        assert norms == pytest.approx(expected.gradient_norms, abs=1e-9)
        assert tokens == expected.tokens
        assert [value for _, value in evaluations] == pytest.approx(
            [value for _, value in expected.evaluations], abs=1e-9
        )


shards = pytest.mark.parametrize("shard", ["0", "1"], ids=["whole", "sharded"])


@pytest.mark.slow
@shards
def test_two_processes_see_the_losses_of_one(tmp_path, shard):
    done = launch(tmp_path, shard=shard)
    assert done.returncode == 0, done.stderr[:4000]
    assert done.stderr == ""
    assert_as_one(tmp_path, run())


@pytest.mark.slow
@pytest.mark.parametrize(
    "shard, optimizer",
    [
        pytest.param("0", "adamw", marks=pytest.mark.long),
        pytest.param("1", "adamw", marks=pytest.mark.long),
        ("1", "muon"),
    ],
)
def test_one_and_two_processes_go_on_from_each_other(tmp_path, shard, optimizer):
    """Steps 1 and 2 by one, 3 and 4 by two, the others by one again."""
    expected, checkpoints = run(optimizer=optimizer), tmp_path / "checkpoints"
    with pytest.raises(KeyboardInterrupt):
        run(checkpoints, optimizer, stop=3)
    done = launch(tmp_path, checkpoints, optimizer, "5", shard=shard)
    assert done.returncode == 0, done.stderr[:4000]
    assert [x.name[-1] for x in list_checkpoints(checkpoints)] == ["2", "4"]

    history = run(checkpoints, optimizer)
    assert history.tokens == expected.tokens
    assert history.losses == pytest.approx(expected.losses, abs=1e-9)
    assert history.gradient_norms == pytest.approx(expected.gradient_norms, abs=1e-9)


def two(rank):
    """Two processes, without a launch."""
    one = Processes(torch.device("cpu"))
    one.count, one.rank = 2, rank
    return one


def test_ranks_have_all_rows_once_and_weigh_as_their_labels():
    inputs = torch.arange(10).reshape(5, 2)
    labels = inputs.clone()
    labels[0, 0] = IGNORED
    parts = [two(rank).rows_of_rank((inputs, labels)) for rank in (0, 1)]
    assert [rows[0][:, 0].tolist() for rows, _ in parts] == [[0, 4, 8], [2, 6]]
    assert [weight for _, weight in parts] == pytest.approx([10 / 9, 8 / 9])
    with pytest.raises(
        ValueError, match=r"a label for each process, labels per rank: \[2, 0\]"
    ):
        two(0).rows_of_rank((inputs[:1], inputs[:1]))


def test_alone_all_is_plain(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "8")  # of some other tool
    alone = Processes(torch.device("cpu"))
    batch, model = (torch.ones(2, 3),), torch.nn.Linear(2, 3)
    assert (alone.count, alone.rank, alone.sharded) == (1, 0, False)
    assert alone.rows_of_rank(batch) == (batch, 1.0) and alone.parallel(model) is model
    assert (
        alone.mean(torch.tensor(2.0)) == processes.to_number(torch.tensor(2.0)) == 2.0
    )
    alone.wait()
