"""What a decoder keeps of the positions that it has read: their keys and values."""

import torch
import torch.nn.functional as F
from torch import Tensor


class LayerCache:
    """The keys and values "b g k d" of one layer so far, in a store that is written in
    place and doubles when full: for decoding, which needs no gradients.
    """

    def __init__(self):
        self.length = 0  # how many positions are stored
        self.store: Tensor | None = None  # "2 b h size d": keys, then values

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store new positions at the end; return all."""
        new = torch.stack([keys, values])
        start, self.length = self.length, self.length + new.shape[3]
        if self.store is None:
            self.store = new
        elif self.length > self.store.shape[3]:
            self.store = F.pad(self.store, (0, 0, 0, self.length))
        self.store[:, :, :, start : self.length] = new
        self.keys, self.values = self.store[:, :, :, : self.length]
        return self.keys, self.values


class KeyValueCache:
    """One LayerCache per block, so that decoding computes each position once."""

    def __init__(self, num_layers: int):
        self.layers = [LayerCache() for _ in range(num_layers)]

    @property
    def length(self) -> int:
        """How many positions are stored."""
        return self.layers[0].length

    @property
    def rows(self) -> int | None:
        """The size of the batch that is stored; None before the first."""
        store = self.layers[0].store
        return None if store is None else store.shape[1]
