"""Batches of labelled rows for a classifier, each a pure function of (seed, step).
Knows nothing of text, files, tokenizers or models.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from course_utils.data.batches import RowBatches
from course_utils.shapes import check_positive

Labelled = tuple[Int64[Tensor, "b t"], Int64[Tensor, "b"], Int64[Tensor, "b"]]
Whole = tuple[Int64[Tensor, "b t"], Int64[Tensor, "b"]]


class LabelledBatches(RowBatches):
    """One labelled text per row: `batches(step)` -> (ids "b t", positions "b", labels
    "b"), or (ids, labels) for rows that have no position. ids are padded with pad_id.
    """

    def __init__(
        self, rows: Sequence[tuple], batch_size: int, seed: int, pad_id: int
    ) -> None:
        super().__init__([len(row[0]) for row in rows], batch_size, seed)
        self.columns, self.pad_id = list(zip(*rows, strict=True)), pad_id

    def rows(self, indices: Sequence[int]) -> Labelled | Whole:
        """The batch made of exactly these rows."""
        ids, *numbers = ([column[i] for i in indices] for column in self.columns)
        padded = pad_sequence(
            [torch.tensor(row) for row in ids], True, padding_value=self.pad_id
        )
        return padded, *(torch.tensor(column) for column in numbers)


def labelled_batches(
    rows: Sequence[tuple], batch_size: int, seed: int, pad_id: int, max_length: int
) -> LabelledBatches:
    """Batches of rows (ids, position, label) or (ids, label) (see LabelledBatches).

    Raises ValueError for batch_size above the number of rows, a text without ids or
    of more than max_length ids, or a position outside its text.
    """
    check_positive(batch_size=batch_size, max_length=max_length)
    if batch_size > len(rows):
        raise ValueError(f"batch_size={batch_size} is more than the {len(rows)} rows")
    for number, (ids, *rest) in enumerate(rows):
        if not 0 < len(ids) <= max_length:
            raise ValueError(
                f"row {number} has {len(ids)} ids, it must have 1 to {max_length}"
            )
        if len(rest) == 2 and not 0 <= rest[0] < len(ids):
            raise ValueError(f"row {number}: position {rest[0]} lies outside its text")
    return LabelledBatches(rows, batch_size, seed, pad_id)
