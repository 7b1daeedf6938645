"""Next-sentence prediction: how probable a model finds it that sentence B follows sentence A."""

import torch

from lib import CompanionError, batches


@torch.inference_mode()
def is_next(model, pairs: list[tuple[str, str]], progress: str = "") -> torch.Tensor:
    """p(B follows A) for every pair (A, B), on the CPU. BERT's head has class 0 for "follows"."""
    if not model.has_nsp:
        raise CompanionError(f"{model.name} has no next-sentence head: choose a BERT, such as mini-bert or bert-base.")
    if not pairs:
        raise CompanionError("There are no sentence pairs: give at least one (A, B).")
    encoded = batches.encode(model, *(list(side) for side in zip(*pairs)))

    def follows(batch, indices):
        pooled = model.net.base_model(**batch).pooler_output
        return model.net.cls.seq_relationship(pooled).float().softmax(-1)[:, 0].cpu()

    return torch.stack(batches.each(model, encoded, follows, progress=progress))
