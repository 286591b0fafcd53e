"""Data-parallel training: the rank of this process, its rows, reductions, a barrier.

Knows torch.distributed and what `torchrun` tells a process. Knows nothing of losses,
optimizers or architectures. Without `torchrun` there is one process, and all is plain.
"""

import atexit
import os
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_utils.checks import IGNORED


class Processes:
    """The processes that train one model together, seen from one of them.

    Each holds the whole model (DistributedDataParallel), or, with COURSE_SHARD=1, a
    shard of every matrix (`fully_shard`: Rajbhandari et al. 2020, ZeRO stage 3).
    """

    def __init__(self, device: torch.device):
        launched = dist.is_torchelastic_launched()
        self.count = int(os.environ["WORLD_SIZE"]) if launched else 1
        self.rank = int(os.environ["RANK"]) if launched else 0
        shard = os.environ.get("COURSE_SHARD", "0") not in ("", "0")
        self.sharded = shard and self.count > 1
        self.device = device
        if self.count == 1:
            return
        local_rank = int(os.environ["LOCAL_RANK"])
        if device.type == "cuda" and device.index != local_rank:
            cure = "move each to its own GPU by model.to(find_device())"
            raise ValueError(f"model is on {device} in rank {local_rank}: {cure}")
        if device.type == "cuda":
            torch.cuda.set_device(device)
        if not dist.is_initialized():
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
            atexit.register(dist.destroy_process_group)

    def parallel(self, model: nn.Module) -> nn.Module:
        """The module to call in the forward pass; all start from rank 0's weights."""
        if self.count == 1:
            return model
        if not self.sharded:
            return nn.parallel.DistributedDataParallel(model)
        for tensor in [*model.parameters(), *model.buffers()]:
            dist.broadcast(tensor.data, 0)
        from torch.distributed.fsdp import fully_shard  # slow to import

        mesh = dist.init_device_mesh(self.device.type, (self.count,))
        stacks = [x for x in model.modules() if isinstance(x, nn.ModuleList)]
        for block in (block for stack in stacks for block in stack):
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    def rows_of_rank(self, batch: Sequence[Tensor]) -> tuple[Sequence[Tensor], float]:
        """This rank's rows, and the weight of their mean loss: its share of the labels,
        times the number of ranks, over which gradients are averaged.
        """
        if self.count == 1:
            return batch, 1.0
        labels = [batch[-1][rank :: self.count] for rank in range(self.count)]
        counts = [int((x != IGNORED).sum()) for x in labels]
        if 0 in counts:
            raise ValueError(
                f"batch must hold a label for each process, labels per rank: {counts}"
            )
        rows = [x[self.rank :: self.count] for x in batch]
        return rows, counts[self.rank] * self.count / sum(counts)

    def mean(self, value: Tensor) -> float:
        """The mean of one number per rank, the same on all of them."""
        if self.count == 1:
            return value.item()
        total = value.detach().clone()
        dist.all_reduce(total)
        return total.item() / self.count

    def wait(self) -> None:
        """Barrier."""
        if self.count > 1:
            dist.barrier()


def to_number(value: Tensor) -> float:
    """The Python number of a scalar tensor, which may be sharded over the ranks."""
    return (value.full_tensor() if hasattr(value, "full_tensor") else value).item()
