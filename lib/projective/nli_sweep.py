"""Predictions of the 76 models at natural language inference, in one sweep: what notebook 09 is made of.

    both = run.cached(nli_sweep.measure, "mini-bert-nli", "mini", 9)
    found = nli_sweep.under(both, nli_sweep.PAIRS)

The subspaces are fitted on the fine-tuned model (the paper does not say on which), and in two ways, since it does not
say on what either: on single sentences, as notebook 08 does, or on premises with hypotheses, as the classifier is used.
"""

import numpy as np
import pandas as pd

from lib import CompanionError
from lib.engine import batches, limit, models
from lib.projective import nli, projection
from lib.text import data as sources
from lib.text import pairs as sentence_pairs
from lib.text import readers

PAIRS, SINGLE = "premise and hypothesis", "single sentences"


def measure(name: str, data: str = "mini", contexts: int = 9, reading: str = "man, woman", task: bool = True,
            device=None) -> dict:
    """The predictions of all models in one sweep, for `run.cached`; without `task` on the generated pairs alone.

    fits, PAIRS and SINGLE; labels, of the classifier's outputs; probabilities [fits, 76, generated pairs, labels];
    right [fits, 76, pairs of the task]
    """
    model = _classifier(name, device)
    labels, pairs = nli.labels(model), nli.pairs(reading, contexts)
    gold = task_pairs(data) if task else pairs.head(0).assign(label="")
    texts = pd.concat([pairs, gold])
    encoded = batches.encode(model, list(texts["premise"]), list(texts["hypothesis"]))
    chosen = {PAIRS: nli.fitting_pairs(), SINGLE: sentence_pairs.written()}
    fits = [projection.fit(model, one, natural=sentence_pairs.natural(data)) for one in chosen.values()]
    logits = projection.sweeps(model, fits, projection.models(), encoded, projection.head(model),
                               progress=f"76 models, {len(texts):,} pairs")
    p = logits.softmax(-1).numpy()
    right = nli.predictions(p[:, :, len(pairs):], labels) == gold["label"].to_numpy(dtype=str)
    return {"fits": list(chosen), "labels": labels, "reading": reading, "contexts": contexts,
            "probabilities": np.ascontiguousarray(p[:, :, :len(pairs)]), "right": right}


def under(found: dict, fit: str) -> dict:
    """The part of what `measure` returned that belongs to one fit: the form that nli_tables.py takes."""
    at = found["fits"].index(fit)
    return found | {"fit": fit, "probabilities": found["probabilities"][at], "right": found["right"][at]}


def task_pairs(data: str) -> pd.DataFrame:
    """Premise, hypothesis, label of the task itself: 9,824 of SNLI's test set, or 198 of data/demo."""
    return limit.first(readers.snli("test") if data == "paper" else sources.demo("nli"))


def _classifier(name: str, device):
    if not name:
        raise CompanionError("This encoder has no classifier for natural language inference: make it by python -m "
                             "lib.nli_classifier make, then name its folder with --model.")
    return models.load(name, device=device, task="sequence-classification")
