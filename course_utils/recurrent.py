"""What came before the transformer: recurrent encoder-decoders, with attention or not.

Knows token ids, recurrent cells and ways to score a match. Knows nothing of text,
losses or training.
"""

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from course_utils.attention import attention_scores, attention_weights
from course_utils.checks import check_choice, check_ids, check_same, values_are_at_hand
from course_utils.masks import padding_mask

Queries = Float[Tensor, "b q m"]
Memory = Float[Tensor, "b k m"]
Mask = Bool[Tensor, "b 1 1 k"]  # True = may look


class DotScore(nn.Module):
    """queries · keys, not scaled. Source: Luong et al. 2015, section 3.1, "dot"."""

    def __init__(self, d_model: int):
        super().__init__()

    def forward(self, queries: Queries, keys: Memory) -> Float[Tensor, "b q k"]:
        """One score per query and key."""
        return attention_scores(queries, keys, scale=1.0)


class GeneralScore(DotScore):
    """queries · W keys. Source: Luong et al. 2015, section 3.1, "general"."""

    def __init__(self, d_model: int):
        super().__init__(d_model)
        self.to_keys = nn.Linear(d_model, d_model, bias=False)

    def forward(self, queries: Queries, keys: Memory) -> Float[Tensor, "b q k"]:
        """One score per query and key."""
        return super().forward(queries, self.to_keys(keys))


class AdditiveScore(nn.Module):
    """v · tanh(W queries + U keys). Source: Bahdanau et al. 2015, section A.1.2."""

    def __init__(self, d_model: int):
        super().__init__()
        self.to_queries = nn.Linear(d_model, d_model, bias=False)
        self.to_keys = nn.Linear(d_model, d_model, bias=False)
        self.to_score = nn.Linear(d_model, 1, bias=False)

    def forward(self, queries: Queries, keys: Memory) -> Float[Tensor, "b q k"]:
        """One score per query and key."""
        every_query = rearrange(self.to_queries(queries), "b q m -> b q 1 m")
        every_key = rearrange(self.to_keys(keys), "b k m -> b 1 k m")
        return self.to_score((every_query + every_key).tanh()).squeeze(-1)


SCORES = {"dot": DotScore, "general": GeneralScore, "additive": AdditiveScore}


class ScoredAttend(nn.Module):
    """Mix the memory for every query; `scores` and `weights` can be recorded."""

    def __init__(self, d_model: int, score: str):
        super().__init__()
        check_choice("score", score, tuple(SCORES))
        self.score = SCORES[score](d_model)
        self.scores = nn.Identity()
        self.weights = nn.Identity()

    def forward(
        self, queries: Queries, memory: Memory, mask: Mask | None = None
    ) -> Float[Tensor, "b q m"]:
        """The context of every query. The memory is both keys and values, as it is."""
        scores = rearrange(self.score(queries, memory), "b q k -> b 1 q k")
        weights = self.weights(attention_weights(self.scores(scores), mask))
        return weights.squeeze(1) @ memory


class RecurrentAttention(nn.Module):
    """tanh(W [context; state]) for every state: Luong et al. 2015, equation 5."""

    def __init__(self, d_model: int, score: str):
        super().__init__()
        self.attend = ScoredAttend(d_model, score)
        self.combine = nn.Linear(2 * d_model, d_model, bias=False)

    def forward(
        self, states: Queries, memory: Memory, mask: Mask | None = None
    ) -> Float[Tensor, "b q m"]:
        """A state that knows its context, for every state."""
        context = self.attend(states, memory, mask)
        return self.combine(torch.cat([context, states], dim=-1)).tanh()


class RecurrentSeq2Seq(nn.Module):
    """Read the source one token after the other, then write the target in the same way.

    The last state of the encoder is the first of the decoder (Sutskever et al. 2014).
    With a `score` ("dot", "general", "additive") every decoder state also
    looks at all states of the encoder (Luong et al. 2015); with None it does not.
    """

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        d_model: int = 64,
        *,
        score: str | None = "general",
        pad_id: int = 0,
    ):
        super().__init__()
        self.pad_id = pad_id
        self.source_embedding = nn.Embedding(source_vocab_size, d_model)
        self.encoder = nn.GRU(d_model, d_model, batch_first=True)
        self.target_embedding = nn.Embedding(target_vocab_size, d_model)
        self.decoder = nn.GRU(d_model, d_model, batch_first=True)
        self.attention = None if score is None else RecurrentAttention(d_model, score)
        self.head = nn.Linear(d_model, target_vocab_size)

    def encode(self, source: Int64[Tensor, "b s"]) -> Float[Tensor, "b s m"]:
        """The encoder's state after each source token: the memory."""
        check_ids(source, self.source_embedding.num_embeddings, "source")
        if values_are_at_hand(source):
            real = source != self.pad_id
            stray = ~real[:, 0] | (real[:, 1:] & ~real[:, :-1]).any(dim=1)
            if stray.any():
                raise ValueError(
                    f"source must begin with a token and hold pad_id={self.pad_id} at "
                    f"the end only; row {int(stray.nonzero()[0])} does not"
                )
        return self.encoder(self.source_embedding(source))[0]

    def decode(
        self,
        target: Int64[Tensor, "b t"],
        memory: Float[Tensor, "b s m"],
        source: Int64[Tensor, "b s"],
    ) -> Float[Tensor, "b t v"]:
        """Logits of the token after each target position; source tells the padding."""
        check_ids(target, self.target_embedding.num_embeddings, "target")
        both = tuple(memory.shape[:2]), tuple(source.shape)
        check_same("memory and source: batch and length", *both)
        last = (source != self.pad_id).sum(dim=1) - 1
        first_state = memory[torch.arange(len(memory), device=memory.device), last]
        states, _ = self.decoder(self.target_embedding(target), first_state[None])
        if self.attention is not None:
            states = self.attention(states, memory, padding_mask(source, self.pad_id))
        return self.head(states)

    def forward(
        self, source: Int64[Tensor, "b s"], target: Int64[Tensor, "b t"]
    ) -> Float[Tensor, "b t v"]:
        """Teacher forcing: logits for every target position."""
        return self.decode(target, self.encode(source), source)
