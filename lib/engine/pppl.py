"""How well a model still models language: the pseudo-perplexity of an encoder, the perplexity of a decoder.

Salazar et al. 2020, used in Bias A-head's Table 1: every token of a line is masked in turn, and the network is asked
for it with all the others in view; PPPL = exp(- sum of log-probabilities / number of tokens). A decoder has no mask:
each token is asked for given those before it, which is ordinary perplexity. The two are not comparable.

    ppl = pppl.pseudo_perplexity(model, texts)
    ppl.value, ppl.n_tokens, ppl.interval()     # 12.3, 871, 12.3 [10.9, 14.0]"""

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from lib import CompanionError
from lib.engine import batches, fill, hooks, stats

SPECIAL = 3  # tokens that a tokenizer may put around a text, and one of the text itself


@dataclass(frozen=True)
class Perplexity:
    """The value over all lines, and what each line gave to it: enough to draw lines again for an interval."""

    value: float
    n_tokens: int
    log_likelihoods: np.ndarray  # natural log, one sum per line
    lengths: np.ndarray  # tokens asked for, per line

    def interval(self, draws: int = 2_000, seed: int = 0) -> stats.Estimate:
        """The value with a 95 % bootstrap interval over lines."""
        return stats.bootstrap(
            perplexity, self.log_likelihoods, self.lengths, draws=draws, seed=seed
        )


@torch.inference_mode()
def pseudo_perplexity(
    model, texts: list[str], tokens: int | None = None, progress: str = "", after: str = ""
) -> Perplexity:
    """Pseudo-perplexity of an encoder, perplexity of a decoder, over all tokens of all lines.

    texts    a line each; one longer than the model's positions is read in windows, side by side, of that length
    tokens   a batch, padding included; None: what suits the device
    after    a prompt that every line stands after: seen and not asked for, as the tokenizer's special tokens are, and
             the first token of a decoder's window that has none of these before it"""
    if isinstance(texts, str):
        raise CompanionError("pseudo_perplexity takes a list of lines: put the text in brackets.")
    windows, lines, asked = _windows(model, texts, after) if texts else ([], [], [])
    if not any(asked):
        raise CompanionError(
            "There is no token to ask for: give at least one line with words in it."
        )
    sums = (_causal if model.is_causal else _masked)(model, windows, asked, tokens, progress)
    likelihoods = np.bincount(lines, weights=sums, minlength=len(texts))
    lengths = np.bincount(
        lines, weights=[len(places) for places in asked], minlength=len(texts)
    ).astype(int)
    value = perplexity(likelihoods, lengths)
    # blind guessing gives the size of the vocabulary, and confident errors more: far beyond it, something is broken
    if not 1 <= value <= 100 * model.net.config.vocab_size:
        raise CompanionError(
            f"{model.name} has a perplexity of {value:.3g}, far beyond blind guessing: its weights "
            "are not those of a trained language model, choose another."
        )
    return Perplexity(value, int(lengths.sum()), likelihoods, lengths)


def perplexity(likelihoods, lengths) -> float:
    with np.errstate(over="ignore"):  # infinite then, which the caller will not take
        return float(np.exp(-likelihoods.sum() / lengths.sum()))


def _windows(model, texts, after=""):
    """Encoded windows, the line that each is of, and the places in it whose tokens are asked for."""
    seen = len(model.tokenizer(after, add_special_tokens=False).input_ids) if after else 0
    if (
        seen >= model.tokenizer.model_max_length - SPECIAL
    ):  # or the rest of it would be asked for in the next window
        raise CompanionError(
            f"The prompt has {seen} tokens, and {model.name} reads {model.tokenizer.model_max_length} "
            "with a line after it: shorten the prompt."
        )
    texts = [f"{after} {text}" for text in texts] if after else texts
    encoded = model.tokenizer(
        texts,
        truncation=True,
        max_length=model.tokenizer.model_max_length,
        return_overflowing_tokens=True,
        return_special_tokens_mask=True,
    )
    lines, special = encoded["overflow_to_sample_mapping"], encoded["special_tokens_mask"]
    asked = [
        [
            place
            for place, added in enumerate(window)
            if not added and (place or not model.is_causal)
        ]
        for window in special
    ]
    if after:  # it stands in a line's first window alone, after the special token that may open it
        start = {
            i: special[i].index(0) + seen
            for i in range(len(lines))
            if i == 0 or lines[i] != lines[i - 1]
        }
        asked = [
            [place for place in places if place >= start.get(i, 0)]
            for i, places in enumerate(asked)
        ]
    names = [name for name in model.tokenizer.model_input_names if name in encoded]
    return (
        [{name: np.array(encoded[name][i]) for name in names} for i in range(len(lines))],
        lines,
        asked,
    )


def _masked(model, windows, asked, tokens, progress) -> list[float]:
    """Sum of log-probabilities per window, one row per mask: the masked copies of one batch are all there ever are.
    Log-probabilities stay on the device until the end: a GPU computes one batch while the next is made here."""
    mask = model.tokenizer.convert_tokens_to_ids(
        model.mask_token
    )  # which says so where there is none
    owners = [window for window, places in enumerate(asked) for _ in places]
    places = torch.tensor([place for window in asked for place in window], device=model.device)
    log_p, is_cuda = torch.zeros(len(owners), device=model.device), model.device.type == "cuda"

    def at_mask(batch, indices):
        rows, which = (
            torch.arange(len(indices), device=model.device),
            batches.on(model.device, indices),
        )
        at = places[which]
        wanted = batch["input_ids"][rows, at]
        batch["input_ids"].scatter_(1, at[:, None], mask)  # by index it would wait for the GPU
        if is_cuda:  # the fastest attention there takes no mask; on a CPU it makes no difference
            del batch["attention_mask"]
        with hooks.finish(model, at):
            logits = fill.logits_at(model, batch, rows, at)
        log_p[which] = -cross_entropy(logits.float(), wanted, reduction="none")
        return indices

    if is_cuda:  # one vocabulary row a text takes little room, and few large batches little time
        tokens = tokens or 8 * batches.TOKENS["cuda"]
    batches.each(
        model, [windows[owner] for owner in owners], at_mask, tokens, progress, alike=is_cuda
    )
    return np.bincount(owners, weights=log_p.cpu(), minlength=len(windows))


def _causal(model, windows, asked, tokens, progress) -> list[float]:
    """Sum of log-probabilities per window, one row each: a token is read off where the one before it stands."""

    def at_each(batch, indices):
        rows = torch.tensor(
            [row for row, i in enumerate(indices) for _ in asked[i]], dtype=torch.long
        )
        at = torch.tensor([place for i in indices for place in asked[i]], dtype=torch.long)
        logits = fill.logits_at(model, batch, rows, at - 1)
        log_p = -cross_entropy(logits.float(), batch["input_ids"][rows, at], reduction="none")
        return np.bincount(rows, weights=log_p.cpu(), minlength=len(indices)).tolist()

    # here every token has a vocabulary row: a smaller batch keeps those in memory
    tokens = tokens or batches.TOKENS.get(model.device.type, batches.TOKENS["cpu"]) // 4
    return batches.each(model, windows, at_each, tokens, progress)
