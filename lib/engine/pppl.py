"""How well a model models language: an encoder's pseudo-perplexity, a decoder's perplexity.

Pseudo-perplexity is that of Salazar et al. (2020), used in Bias A-head's Table 1. Every token of a
line is masked in turn, and the network predicts it with all the others in view; PPPL = exp(- sum of
log-probabilities / number of tokens). A decoder has no mask and predicts each token from those
before it, which is ordinary perplexity. The two are not comparable.

    ppl = pppl.pseudo_perplexity(model, texts)
    ppl.value, ppl.n_tokens, ppl.interval()     # 12.3, 871, 12.3 [10.9, 14.0]
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from lib import CompanionError
from lib.engine import batches, fill, hooks, stats

SPECIAL = 3  # two special tokens that a tokenizer may put around a text, and one of the text itself


@dataclass(frozen=True)
class Perplexity:
    """The value over all lines, and what each line contributes: enough to resample lines."""

    value: float
    n_tokens: int
    log_likelihoods: np.ndarray  # natural log, one sum per line
    lengths: np.ndarray  # predicted tokens, per line

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

    texts    a line each; one longer than the model's positions is read in windows of that length
    tokens   padded tokens a batch; None: what suits the device
    after    a prompt before every line. Its tokens are seen and not predicted. The same holds for
             the tokenizer's special tokens, and for the first token of a decoder's window, if
             nothing stands before it
    """
    texts = batches.checked(model, texts, "lines")
    if after:
        batches.checked(model, [after], "prompts")
    windows, lines, asked = encode_windows(model, texts, after)
    if not any(asked):
        raise CompanionError(
            "There is no token to ask for: give at least one line with words in it."
        )
    if model.is_causal:
        sums = _causal(model, windows, asked, tokens, progress)
    else:
        sums = _masked(model, windows, asked, tokens, progress)
    counts = [len(places) for places in asked]
    likelihoods = np.bincount(lines, weights=sums, minlength=len(texts))
    lengths = np.bincount(lines, weights=counts, minlength=len(texts)).astype(int)
    value = perplexity(likelihoods, lengths)
    # Blind guessing gives the size of the vocabulary, and confident errors more. Far beyond it,
    # something is broken.
    if not 1 <= value <= 100 * model.net.config.vocab_size:
        raise CompanionError(
            f"{model.name} has a perplexity of {value:.3g}, far beyond blind guessing: its weights "
            "are not those of a trained language model, choose another."
        )
    return Perplexity(value, int(lengths.sum()), likelihoods, lengths)


def perplexity(likelihoods: np.ndarray, lengths: np.ndarray) -> float:
    """exp(- sum of log-likelihoods / number of tokens)."""
    with np.errstate(over="ignore"):  # then it is infinite, which pseudo_perplexity refuses
        return float(np.exp(-likelihoods.sum() / lengths.sum()))


def encode_windows(model, texts: list[str], after: str = "") -> tuple[list, list, list]:
    """Encoded windows, the number of each one's line, and the places whose tokens are predicted."""
    n_prompt = _prompt_length(model, after)
    if after:
        texts = [f"{after} {text}" for text in texts]
    encoded = model.tokenizer(
        texts,
        truncation=True,
        max_length=model.tokenizer.model_max_length,
        return_overflowing_tokens=True,
        return_special_tokens_mask=True,
    )
    lines = encoded["overflow_to_sample_mapping"]
    names = [name for name in model.tokenizer.model_input_names if name in encoded]
    windows = []
    asked = []
    for i, line in enumerate(lines):
        windows.append({name: np.array(encoded[name][i]) for name in names})
        is_special = encoded["special_tokens_mask"][i]
        is_first_window = i == 0 or line != lines[i - 1]
        start = 1 if model.is_causal else 0  # nothing stands before a decoder's first token
        if after and is_first_window:
            prompt_end = is_special.index(0) + n_prompt  # a special token may open the window
            start = max(start, prompt_end)
        places = range(start, len(is_special))
        asked.append([place for place in places if not is_special[place]])
    return windows, lines, asked


def _prompt_length(model, prompt: str) -> int:
    """How many tokens a prompt has.

    One that leaves no room for a line is refused: its rest would be predicted in the next window.
    """
    if not prompt:
        return 0
    size = len(model.tokenizer(prompt, add_special_tokens=False).input_ids)
    if size >= model.tokenizer.model_max_length - SPECIAL:
        raise CompanionError(
            f"The prompt has {size} tokens, and {model.name} reads "
            f"{model.tokenizer.model_max_length} with a line after it: shorten the prompt."
        )
    return size


def _masked(model, windows, asked, tokens, progress) -> np.ndarray:
    """The sum of natural log-probabilities of each window: [windows].

    Masked copies are made batch by batch, so that only those of one batch exist at a time.
    Log-probabilities stay on the device until the end: a GPU computes one batch while the next is
    made here.
    """
    # mask_token raises where a model has none
    mask_id = model.tokenizer.convert_tokens_to_ids(model.mask_token)
    is_cuda = model.device.type == "cuda"
    owners = []  # the window of each masked copy
    masked_places = []  # and the place of its mask
    for window, places in enumerate(asked):
        owners += [window] * len(places)
        masked_places += places
    masked_places = torch.tensor(masked_places, device=model.device)
    log_p = torch.zeros(len(owners), device=model.device)

    def at_mask(batch, indices):
        rows = torch.arange(len(indices), device=model.device)
        which = batches.on(model.device, indices)
        at = masked_places[which]
        wanted = batch["input_ids"][rows, at]
        batch["input_ids"].scatter_(1, at[:, None], mask_id)  # indexing would wait for the GPU
        if is_cuda:  # faster, and safe: alike=True below, so that no row is padded
            del batch["attention_mask"]
        with hooks.finish(model, at):
            logits = fill.logits_at(model, batch, rows, at)
        log_p[which] = -cross_entropy(logits.float(), wanted, reduction="none")
        return indices

    if is_cuda:  # one token of a row needs vocabulary logits, so that batches can be larger
        tokens = tokens or 8 * batches.TOKENS["cuda"]
    copies = [windows[owner] for owner in owners]
    batches.each(model, copies, at_mask, tokens, progress, alike=is_cuda)
    return np.bincount(owners, weights=log_p.cpu(), minlength=len(windows))


def _causal(model, windows, asked, tokens, progress) -> list[float]:
    """Sum of log-probabilities per window of a decoder, by one row of a batch for each window.

    A token is predicted where the one before it stands.
    """

    def at_each(batch, indices):
        rows = []
        places = []
        for row, i in enumerate(indices):
            rows += [row] * len(asked[i])
            places += asked[i]
        rows = torch.tensor(rows, dtype=torch.long)
        at = torch.tensor(places, dtype=torch.long)
        logits = fill.logits_at(model, batch, rows, at - 1)
        log_p = -cross_entropy(logits.float(), batch["input_ids"][rows, at], reduction="none")
        return np.bincount(rows, weights=log_p.cpu(), minlength=len(indices)).tolist()

    # every token has a vocabulary row here: smaller batches keep these within memory
    tokens = tokens or batches.default_tokens(model.device) // 4
    return batches.each(model, windows, at_each, tokens, progress)
