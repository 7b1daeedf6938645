"""The counter-stereotype experiment of Bias A-head (section 5.2).

Does a head attend more to the attribute in the stereotyped pair than in the swapped one?

    pairs = counter.sentences("gender", "mini", n=500)      # "women are emotional", "men are ..."
    both = counter.attention(model, pairs)                  # of "emotional" on "women" and on "men"
    weights = both["raw"]
    counter.test(weights, heads.positive(scores), pairs)    # is the first greater in biased heads?
    counter.shifts(counter.cells(both, pairs), kinds)       # by how much more than in regular ones?
    counter.per_head(weights)                               # in which heads, corrected for many

A raw weight is the share of the target's attention (its row) that the attribute gets (its column).
Footnote 12 normalises by min-max over the sentence, perhaps in Fig. 4 too: 0 is the least and 1 the
most attended token, special ones and punctuation left out. For words in several pieces attribute
columns are added and target rows averaged; the paper does not say.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from scipy import stats as scipy_stats

from lib import CompanionError
from lib.engine import batches, embed, models, stats
from lib.text import contexts, data, english, readers
from lib.text.swaps import OTHERWISE_USED, WORD, counterparts, place, swap

MAP_BYTES = 2**28  # memory for the maps of one batch, of all layers and heads together
VARIANTS = ("raw", "min-max")  # of what a weight is
PAPERS = "TheRedPill"  # the subreddit that the paper uses
SUBREDDITS = (PAPERS, "MensRights", "seduction", "AskMen", "AskWomen", "relationships")
REDDIT = {PAPERS: (PAPERS,), "paper": SUBREDDITS}
# Written sentence pairs on gender that `measure_cells` takes: all that the patterns make. Intervals
# are over the 81 patterns, so that they are hardly narrower than those of fewer sentences.
WRITTEN = 20_216
LENGTH = range(3, 65)  # words in a sentence of real text: longer ones are lists and run-ons
COLUMNS = ["original", "counter", "attribute", "counterpart", "target", "group", "pattern_id"]


# ---- attention
@torch.inference_mode()
def attention(model, pairs: pd.DataFrame, progress: str = "") -> dict[str, torch.Tensor]:
    """{variant: weight of the target on the attribute}, on the CPU.

    A weight is [n_sentences, 2 (original, counter), n_layers, n_heads]. Maps are read and dropped
    batch by batch. A causal model refuses a sentence whose attribute stands after its target: the
    target could not attend to it whatever the model had learned.
    """
    if pairs.empty:
        raise CompanionError("There are no sentence pairs to measure: give at least one.")
    kind = model.net.config._attn_implementation
    if kind != "eager":
        raise CompanionError(
            f"{model.name} has {kind} attention, which hands out no maps: load it with "
            "attention='eager'."
        )
    texts = [*pairs["original"], *pairs["counter"]]
    rows, columns = _tokens_of_words(model, pairs, texts)
    encoded = batches.encode(model, texts)
    for row, is_compared in zip(encoded, _compared(model, texts, rows)):
        row["is_compared"] = is_compared

    def of_batch(batch, indices):
        is_compared = batch.pop("is_compared").bool()
        row = embed.inside([rows[i] for i in indices], batch["input_ids"]).float()
        column = embed.inside([columns[i] for i in indices], batch["input_ids"]).float()
        return _target_on_attribute(model, batch, row, column, is_compared).cpu()

    longest = max(len(text["input_ids"]) for text in encoded)
    tokens = _tokens_a_batch(model, longest)
    weights = torch.stack(batches.each(model, encoded, of_batch, tokens, progress))
    if not weights.isfinite().all():
        raise CompanionError(
            f"{model.name} gives attention that is nan or infinite: check its weights, or load it "
            "in float32."
        )
    result = {}
    for i, variant in enumerate(VARIANTS):
        of_sentences = weights[:, i].unflatten(0, (2, len(pairs)))
        result[variant] = of_sentences.transpose(0, 1).contiguous()
    return result


def _tokens_of_words(
    model, pairs: pd.DataFrame, texts: list[str]
) -> tuple[list[range], list[range]]:
    """The tokens of target and attribute in each text: all originals, then all counters."""
    attributes = list(map(place, texts, [*pairs["attribute"], *pairs["counterpart"]]))
    targets = list(map(place, texts, [*pairs["target"], *pairs["target"]]))
    is_late = [attribute > target for attribute, target in zip(attributes, targets)]
    if model.is_causal and any(is_late):
        raise CompanionError(
            f"{model.name} reads from left to right, and in some sentence the attribute stands "
            "after the target, which cannot attend to it: take sentences with causal=True."
        )
    return embed.tokens_of(model, texts, targets), embed.tokens_of(model, texts, attributes)


def _compared(model, texts: list[str], targets: list[range]) -> Iterator[list[bool]]:
    """For each token of a text, whether min-max is over it: it has a letter or a digit, as special
    tokens and punctuation have not, and the target can see it.
    """
    encoded = model.tokenizer(texts, return_offsets_mapping=True, verbose=False)
    for text, offsets, target in zip(texts, encoded["offset_mapping"], targets, strict=True):
        seen = offsets[: target.stop] if model.is_causal else offsets
        yield [any(map(str.isalnum, text[first:last])) for first, last in seen]


def _target_on_attribute(
    model, batch: dict, row: torch.Tensor, column: torch.Tensor, is_compared: torch.Tensor
) -> torch.Tensor:
    """[n, 2 variants, n_layers, n_heads]: the attention of the target on the attribute in a batch.

    row, column, is_compared   [n, tokens]: the target's tokens, the attribute's, and those that
                               min-max is over
    """
    maps = model.net.base_model(**batch, output_attentions=True).attentions or ()
    assert len(maps) == model.n_layers, "a layer handed out no map"
    assert all(layer is not None for layer in maps), "a layer handed out no map"
    # the mean over the target's pieces, the sum over the attribute's
    row = row / row.sum(1, keepdim=True)
    given = torch.stack([torch.einsum("bhqk,bq->bhk", layer.float(), row) for layer in maps], 1)
    raw = (given * column[:, None, None]).sum(-1)
    left_out = ~is_compared[:, None, None]
    least = given.masked_fill(left_out, torch.inf).amin(-1)
    most = given.masked_fill(left_out, -torch.inf).amax(-1)
    scaled = (raw - least) / (most - least).clamp(min=1e-12)
    return torch.stack([raw, scaled], 1)


def _tokens_a_batch(model, longest: int) -> int:
    """How many tokens a batch may have for its maps to fit MAP_BYTES."""
    bytes_a_token = 4 * model.n_layers * model.n_heads * longest
    usual = batches.TOKENS.get(model.device.type, batches.TOKENS["cpu"])
    return max(min(MAP_BYTES // bytes_a_token, usual), 1)


# ---- sentences
def sentences(
    bias: str, source: str = "mini", n: int = 500, seed: int = 0, causal: bool = False
) -> pd.DataFrame:
    """Up to n sentence pairs, with the columns of contexts.counter_sentences.

    source   "mini": the patterns of data/demo; "TheRedPill": posts of the subreddit that the paper
             takes its sentences from; "paper": these and those of five subreddits like it
    causal   take only sentences whose attribute stands before the target
    """
    if source == "mini":
        return contexts.counter_sentences(bias, n, seed)
    if source not in REDDIT:
        raise CompanionError(
            f"There are no sentences called '{source}': take 'mini' or one of {', '.join(REDDIT)}."
        )
    texts = []
    for name in REDDIT[source]:
        texts += readers.reddit(name)
    return from_texts(texts, bias, n, seed, causal)


def from_texts(
    texts: Sequence[str], bias: str, n: int = 500, seed: int = 0, causal: bool = False
) -> pd.DataFrame:
    """Steps 1 and 2 of the experiment on real text: n random sentences that fit, with their twins.

    A sentence fits when it holds exactly one attribute word of the lists and exactly one target
    word, which the lists tie to the attribute's group. pattern_id says which text it is from. Where
    fewer than n fit, all are returned.
    """
    listed = data.words("gender_stereotypes" if bias == "gender" else "race_roles").to_numpy()
    targets = {word: group for word, group in listed if contexts.usable([word])}
    rows = []
    for number, text in enumerate(texts, start=1):
        for pair in _fitting(text, bias, targets):
            rows.append({**pair, "pattern_id": f"text-{number}"})
    frame = pd.DataFrame(rows, columns=COLUMNS)
    frame = frame.drop_duplicates("original")  # some posts are posted again
    if causal:
        is_before = []
        for row in frame.itertuples():
            attribute = place(row.original, row.attribute)
            is_before.append(attribute < place(row.original, row.target))
        frame = frame[is_before]
    return frame.sample(min(n, len(frame)), random_state=seed).reset_index(drop=True)


def _fitting(text: str, bias: str, targets: dict[str, str]) -> Iterator[dict]:
    """The sentences of a text that fit, each with its twin; targets: {word: its group}."""
    attributes = counterparts(bias)  # {word: (its group, its counterpart)}
    for line in text.splitlines():
        for sentence in english.sentences(line):
            words = [match[0].lower() for match in WORD.finditer(sentence)]
            found_attributes = [word for word in words if word in attributes]
            found_targets = [word for word in words if word in targets]
            if len(found_attributes) != 1 or len(found_targets) != 1:
                continue
            attribute = found_attributes[0]
            target = found_targets[0]
            is_same_group = attributes[attribute][0] == targets[target]
            is_ambiguous = attribute in OTHERWISE_USED or target in OTHERWISE_USED
            if not is_same_group or is_ambiguous:
                continue
            if len(words) not in LENGTH or "http" in sentence:
                continue
            counter, counterpart = swap(sentence, attribute, bias)
            yield {
                "original": sentence,
                "counter": counter,
                "attribute": attribute,
                "counterpart": counterpart,
                "target": target,
                "group": targets[target],
            }


# ---- tests
def test(
    weights: torch.Tensor, chosen: Sequence[tuple[int, int]], pairs: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Step 3: is the mean weight over the chosen heads greater in the original than in the counter?

    The row "sentence" is the paper's test: paired, one-tailed, one value per sentence. Columns: n;
    original and counter, mean weights; difference with its 95 % interval (low, high); t and p.
    Heads are (layer, head), both from 1.

    With `pairs` there are more rows. Sentences that share a pattern (or a post) or a target word
    are not independent: in the rows "pattern" and "target" each of them has one value, the mean of
    its sentences. Then each group's sentences alone: a head that attends more to "women" than to
    "men" whatever is said pulls them opposite ways. The row "word pair" cancels this: it has every
    pair of attribute words that occurs both ways round, with both ways weighted alike.
    """
    if not chosen:
        raise CompanionError("No head was chosen: give at least one (layer, head), both from 1.")
    layers, numbers = (torch.tensor(side) - 1 for side in zip(*chosen))
    means = weights[:, :, layers, numbers].double().mean(-1).numpy()
    by_sentence = pd.DataFrame(means, columns=["original", "counter"])
    units = {"sentence": by_sentence}
    if pairs is not None:
        units |= _units(by_sentence, pairs)
    tested = {name: _paired(unit) for name, unit in units.items() if len(unit) > 1}
    table = pd.DataFrame(tested).T.astype({"n": int})
    table.attrs["heads"] = len(chosen)
    return table


def _units(by_sentence: pd.DataFrame, pairs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The weights of sentences, averaged over what counts once: {unit: original, counter}."""
    words = []
    for both in zip(pairs["attribute"], pairs["counterpart"]):
        words.append(" ".join(sorted(both)))
    about = pairs[["pattern_id", "target", "group"]].assign(words=words)
    frame = by_sentence.set_index(pd.MultiIndex.from_frame(about))
    units = {
        "pattern": frame.groupby("pattern_id").mean(),
        "target": frame.groupby("target").mean(),
    }
    for group, rows in frame.groupby("group"):
        units[f"{group} only"] = rows
    by_direction = frame.groupby(["words", "group"]).mean()
    both_ways = by_direction.groupby("words").filter(lambda rows: len(rows) == 2)
    units["word pair"] = both_ways.groupby("words").mean()
    return units


def _paired(frame: pd.DataFrame) -> dict:
    """Student's paired test of original > counter, with the two-sided 95 % interval."""
    one_tailed = scipy_stats.ttest_rel(frame["original"], frame["counter"], alternative="greater")
    two_tailed = scipy_stats.ttest_rel(frame["original"], frame["counter"])
    interval = two_tailed.confidence_interval(0.95)
    return {
        "n": len(frame),
        **frame.mean(),
        "difference": (frame["original"] - frame["counter"]).mean(),
        "low": interval.low,
        "high": interval.high,
        "t": one_tailed.statistic,
        "p": one_tailed.pvalue,
    }


def cells(weights: dict[str, torch.Tensor], pairs: pd.DataFrame) -> dict[str, np.ndarray]:
    """Original minus counter, added up over the sentences of one pattern (or post) and one group:
    all that means over groups of sentences need, however many sentences there are.

    weights   what `attention` returns
    Keys: counts [patterns, groups], how many sentences; for each variant its sums [patterns,
    groups, n_layers, n_heads], in percentage points.
    """
    patterns, pattern = np.unique(pairs["pattern_id"], return_inverse=True)
    groups, group = np.unique(pairs["group"], return_inverse=True)
    counts = np.zeros((len(patterns), len(groups)), dtype=np.int32)
    np.add.at(counts, (pattern, group), 1)
    added = {"counts": counts}
    for variant, both in weights.items():
        change = 100 * (both[:, 0] - both[:, 1]).double().numpy()
        added[variant] = np.zeros((*counts.shape, *change.shape[1:]))
        np.add.at(added[variant], (pattern, group), change)
    return added


def balanced(
    sums: np.ndarray,
    counts: np.ndarray,
    chosen: Sequence[tuple[int, int]],
    less: Sequence[tuple[int, int]] = (),
) -> stats.Estimate:
    """Original minus counter over the chosen heads, in percentage points, groups weighted alike.

    The two groups weigh alike however many sentences speak of each, so that what their words
    attract by themselves, whatever is said of them, does not count as a stereotype; nan where only
    one group occurs. The interval resamples patterns (or posts): sentences of one are not
    independent.

    sums, counts   of `cells`
    less           heads whose difference on the same sentences is subtracted
    """
    n_patterns, n_groups = counts.shape
    if n_patterns < 2 or n_groups < 2:
        return stats.Estimate(np.nan)
    change = _mean_over(sums, chosen)
    if less:
        change = change - _mean_over(sums, less)
    value = (change.sum(0) / counts.sum(0)).mean()
    drawn = stats.bootstrap_weights(n_patterns, 2_000)
    with np.errstate(invalid="ignore"):  # a draw without one of the groups
        means = (drawn @ change / (drawn @ counts)).mean(1)
    low, high = np.nanquantile(means, stats.ENDS)
    return stats.Estimate(float(value), float(low), float(high), int(counts.sum()), "sentences")


def shifts(
    added: dict[str, np.ndarray], kinds: dict[str, Sequence[tuple[int, int]]]
) -> dict[tuple[str, str], stats.Estimate]:
    """{(variant, kind of heads): by how much they favour the original}; "contrast": biased heads
    minus regular ones.

    added   of `cells`, or what `measure_cells` returns
    """
    found = {}
    for variant in VARIANTS:
        sums = added[variant]
        for kind, chosen in kinds.items():
            found[variant, kind] = balanced(sums, added["counts"], chosen)
        if len(kinds) == 2:
            both = kinds["biased"], kinds["regular"]
            found[variant, "contrast"] = balanced(sums, added["counts"], *both)
    return found


def _mean_over(change: np.ndarray, chosen: Sequence[tuple[int, int]]) -> np.ndarray:
    """The mean over heads (layer, head), both from 1, of values [..., n_layers, n_heads]."""
    layers, numbers = np.transpose(chosen) - 1
    return change[..., layers, numbers].mean(-1)


def per_head(weights: torch.Tensor) -> pd.DataFrame:
    """The paired one-tailed test in every head, one row each.

    Columns: layer and head (from 1), t, and q, which is p after Benjamini and Hochberg's correction
    for testing all heads (5 % of those with q < .05 are expected to be false).
    """
    change = (weights[:, 0] - weights[:, 1]).double().numpy()
    tested = scipy_stats.ttest_1samp(change, 0, alternative="greater")
    p = np.nan_to_num(tested.pvalue.ravel(), nan=1.0)  # nan: all differences are 0
    layer, head = (np.indices(change.shape[1:]) + 1).reshape(2, -1)
    t = np.nan_to_num(tested.statistic.ravel())
    q = scipy_stats.false_discovery_control(p)
    return pd.DataFrame({"layer": layer, "head": head, "t": t, "q": q})


def measure(
    name: str, bias: str, source: str, n: int, seed: int, device: str | None = None
) -> tuple[pd.DataFrame, dict[str, torch.Tensor]]:
    """`sentences`, and a model's `attention` on them; by name, for Run.measured."""
    model = models.load(name, device=device, attention="eager")
    pairs = sentences(bias, source, n, seed, model.is_causal)
    return pairs, attention(model, pairs)


def measure_cells(
    name: str,
    bias: str,
    source: str,
    n: int,
    seed: int,
    device: str | None = None,
    only: Sequence[int] | None = None,
) -> dict:
    """`cells` of what `measure` finds on many sentences: small enough to be kept.

    only   the patterns to measure; nan stands for others
    """
    model = models.load(name, device=device, attention="eager")
    pairs = sentences(bias, source, n, seed, model.is_causal)
    patterns = np.unique(pairs["pattern_id"])
    if only is not None:
        pairs = pairs[pairs["pattern_id"].isin(patterns[list(only)])]
    result = cells(attention(model, pairs), pairs)
    for variant in VARIANTS:
        result[variant] = result[variant].astype(np.float32)
    if only is None:
        return result
    return {part: stats.scattered(of, only, len(patterns)) for part, of in result.items()}


measure_cells.items = lambda result: len(result["counts"])  # what `only` numbers
