"""The counter-stereotype experiment of Bias A-head (section 5.2): does a head look harder at the stereotyped pair?

    pairs = counter.sentences("gender", "mini", n=500)        "women are emotional" and "men are emotional"
    weights = counter.attention(model, pairs)["raw"]          of "emotional" on "women" and on "men"
    counter.test(weights, heads.positive(scores), pairs)      is the first one greater in the biased heads?
    counter.balanced(weights, biased, pairs, regular)         and by how much more than in the regular ones?
    counter.per_head(weights)                                 and in which heads, corrected for testing them all

A raw weight is the share of the target's attention (its row) that the attribute gets (its column). Footnote 12
normalises by min-max over the sentence, maybe in Fig. 4 too: between the least and the most attended token, special
ones left out. Of words in pieces attribute columns are added and target rows averaged; the paper does not say."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from scipy import stats

from lib import CompanionError
from lib.engine import batches, embed, models
from lib.engine.stats import Estimate
from lib.text import contexts, data, english, readers
from lib.text.swaps import OTHERWISE_USED, WORD, counterparts, place, swap

MAP_BYTES = 2**28  # what the maps of one batch may take, all layers and heads together
READINGS = "raw", "min-max"  # of what a weight is
SUBREDDITS = ("TheRedPill", "MensRights", "seduction", "AskMen", "AskWomen", "relationships")
LENGTH = range(3, 65)  # words in a sentence of real text: longer ones are lists and run-ons


# Attention
@torch.inference_mode()
def attention(model, pairs: pd.DataFrame, progress: str = "") -> dict[str, torch.Tensor]:
    """Weight of the target on the attribute: [n_sentences, 2 (original, counter), n_layers, n_heads], on the CPU, by
    either variant of what a weight is. Maps are read and dropped batch by batch. A causal model is refused a sentence
    whose attribute stands after its target, which could not attend to it whatever the model had learned."""
    if pairs.empty:
        raise CompanionError("There are no sentence pairs to measure: give at least one.")
    if (kind := model.net.config._attn_implementation) != "eager":
        raise CompanionError(
            f"{model.name} has {kind} attention, which hands out no maps: load it with "
            "attention='eager'."
        )
    texts = [*pairs["original"], *pairs["counter"]]
    attributes = list(map(place, texts, [*pairs["attribute"], *pairs["counterpart"]]))
    targets = list(map(place, texts, [*pairs["target"]] * 2))
    if model.is_causal and any(a > t for a, t in zip(attributes, targets)):
        raise CompanionError(
            f"{model.name} reads from left to right, and in some sentence the attribute stands after "
            "the target, which cannot attend to it: take sentences with causal=True."
        )
    rows, columns = (
        embed.tokens_of(model, texts, targets),
        embed.tokens_of(model, texts, attributes),
    )
    encoded = batches.encode(model, texts)
    seen = [
        range(target.stop if model.is_causal else len(text["input_ids"]))
        for target, text in zip(rows, encoded)
    ]
    special = torch.tensor(model.tokenizer.all_special_ids, device=model.device)

    def target_on_attribute(batch, indices):
        row, column, here = (
            embed.inside([side[i] for i in indices], batch["input_ids"]).float()
            for side in (rows, columns, seen)
        )
        maps = model.net.base_model(**batch, output_attentions=True).attentions or ()
        assert len(maps) == model.n_layers and all(layer is not None for layer in maps), (
            "a layer handed out no map"
        )
        row = row / row.sum(
            1, keepdim=True
        )  # the mean of the target's pieces, the sum of the attribute's
        given = torch.stack([torch.einsum("bhqk,bq->bhk", layer.float(), row) for layer in maps], 1)
        raw, left_out = (
            (given * column[:, None, None]).sum(-1),
            (here == 0) | torch.isin(batch["input_ids"], special),
        )
        least = given.masked_fill(left_out[:, None, None], torch.inf).amin(-1)
        most = given.masked_fill(left_out[:, None, None], -torch.inf).amax(-1)
        return torch.stack([raw, (raw - least) / (most - least).clamp(min=1e-12)], 1).cpu()

    a_token = 4 * model.n_layers * model.n_heads * max(len(text["input_ids"]) for text in encoded)
    tokens = min(MAP_BYTES // a_token, batches.TOKENS.get(model.device.type, batches.TOKENS["cpu"]))
    weights = torch.stack(
        batches.each(model, encoded, target_on_attribute, max(tokens, 1), progress)
    )
    return {
        variant: weights[:, i].unflatten(0, (2, len(pairs))).transpose(0, 1).contiguous()
        for i, variant in enumerate(READINGS)
    }


# Sentences
def sentences(
    bias: str, source: str = "mini", n: int = 500, seed: int = 0, causal: bool = False
) -> pd.DataFrame:
    """Up to n sentence pairs in the shape of contexts.counter_sentences. source: "mini", the patterns of data/demo, or
    "paper", Reddit posts that stand in for the paper's. causal: only those whose attribute stands before the target."""
    if source == "mini":
        return contexts.counter_sentences(bias, n, seed)
    if source != "paper":
        raise CompanionError(f"There are no sentences called '{source}': take 'mini' or 'paper'.")
    return from_texts(
        [text for name in SUBREDDITS for text in readers.reddit(name)], bias, n, seed, causal
    )


def from_texts(
    texts: Sequence[str], bias: str, n: int = 500, seed: int = 0, causal: bool = False
) -> pd.DataFrame:
    """Steps 1 and 2 of the experiment on real text: n random sentences that fit, each with its swapped twin. A sentence
    fits when it holds exactly one attribute word of the lists and exactly one target word, which the lists tie to the
    attribute's group; pattern_id is the text it is from. Where fewer than n fit, all are returned."""
    listed = data.words("gender_stereotypes" if bias == "gender" else "race_roles").to_numpy()
    targets = {word: group for word, group in listed if contexts.usable([word])}
    frame = pd.DataFrame(
        [
            {**pair, "pattern_id": f"text-{number}"}
            for number, text in enumerate(texts, start=1)
            for pair in _fitting(text, bias, counterparts(bias), targets)
        ],
        columns=[
            "original",
            "counter",
            "attribute",
            "counterpart",
            "target",
            "group",
            "pattern_id",
        ],
    )
    frame = frame.drop_duplicates("original")  # posts are posted again
    if causal:
        frame = frame[
            [
                place(row.original, row.attribute) < place(row.original, row.target)
                for row in frame.itertuples()
            ]
        ]
    return frame.sample(min(n, len(frame)), random_state=seed).reset_index(drop=True)


def _fitting(
    text: str, bias: str, attributes: dict[str, tuple[str, str]], targets: dict[str, str]
) -> Iterator[dict]:
    """attributes: {word: (its group, its counterpart)}; targets: {word: its group}."""
    for sentence in (own for line in text.splitlines() for own in english.sentences(line)):
        words = [match[0].lower() for match in WORD.finditer(sentence)]
        here, there = (
            [word for word in words if word in listed] for listed in (attributes, targets)
        )
        fits = len(here) == len(there) == 1 and attributes[here[0]][0] == targets[there[0]]
        if (
            fits
            and len(words) in LENGTH
            and not OTHERWISE_USED & {*here, *there}
            and "http" not in sentence
        ):
            counter, counterpart = swap(sentence, here[0], bias)
            yield {
                "original": sentence,
                "counter": counter,
                "attribute": here[0],
                "counterpart": counterpart,
                "target": there[0],
                "group": targets[there[0]],
            }


# Tests
def test(
    weights: torch.Tensor, chosen: Sequence[tuple[int, int]], pairs: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Step 3: the mean over the chosen heads ((layer, head), from 1) per sentence; is the original greater?

    The row "sentence" is the paper's test: paired, one-tailed, one value per sentence. Columns: n; original and
    counter, mean weights; difference with its 95 % interval (low, high); t and p.

    With `pairs`, more rows. Sentences that share a pattern (or a post) or a target word are not independent: in the
    rows "pattern" and "target" each of them has one value, the mean of its sentences. Then each group's sentences
    alone: a head that looks harder at "women" than at "men" whatever is said pulls them opposite ways. The row
    "word pair" cancels this: every pair of attribute words that occurs both ways round, both ways weighted alike."""
    if not chosen:
        raise CompanionError("No head was chosen: give at least one (layer, head), both from 1.")
    layers, numbers = (torch.tensor(side) - 1 for side in zip(*chosen))
    frame = pd.DataFrame(
        weights[:, :, layers, numbers].double().mean(-1).numpy(), columns=["original", "counter"]
    )
    units = {"sentence": frame}
    if pairs is not None:
        frame.index = pd.MultiIndex.from_frame(
            pairs[["pattern_id", "target", "group"]].assign(
                words=[
                    " ".join(sorted(both)) for both in zip(pairs["attribute"], pairs["counterpart"])
                ]
            )
        )
        units |= {
            "pattern": frame.groupby("pattern_id").mean(),
            "target": frame.groupby("target").mean(),
        }
        units |= {f"{group} only": rows for group, rows in frame.groupby("group")}
        both_ways = (
            frame.groupby(["words", "group"])
            .mean()
            .groupby("words")
            .filter(lambda rows: len(rows) == 2)
        )
        units["word pair"] = both_ways.groupby("words").mean()
    tested = pd.DataFrame(
        {name: _paired(unit) for name, unit in units.items() if len(unit) > 1}
    ).T.astype({"n": int})
    tested.attrs["heads"] = len(chosen)
    return tested


def balanced(
    weights: torch.Tensor,
    chosen: Sequence[tuple[int, int]],
    pairs: pd.DataFrame,
    less: Sequence[tuple[int, int]] = (),
    draws: int = 2_000,
    seed: int = 0,
) -> Estimate:
    """Original minus counter over the chosen heads, less the same over the heads `less` on the same sentences, in
    percentage points. The two groups weigh alike however many sentences speak of each, so that what their words draw by
    themselves, whatever is said of them, does not count as a stereotype; nan where only one group occurs. The interval
    draws patterns (or posts) again: sentences of one are not independent."""
    change = (weights[:, 0] - weights[:, 1]).double().numpy()
    over = [change[:, *np.transpose(which) - 1].mean(1) for which in (chosen, less) if which]
    of_sentence = over[0] - over[1] if less else over[0]
    (patterns, pattern), (groups, group) = (
        np.unique(pairs[column], return_inverse=True) for column in ("pattern_id", "group")
    )
    if len(groups) < 2 or len(patterns) < 2:
        return Estimate(np.nan)
    sums, counts = np.zeros((2, len(patterns), len(groups)))
    np.add.at(sums, (pattern, group), 100 * of_sentence)
    np.add.at(counts, (pattern, group), 1)
    drawn = np.random.default_rng(seed).multinomial(
        len(patterns), np.full(len(patterns), 1 / len(patterns)), draws
    )
    with np.errstate(invalid="ignore"):  # a draw without one of the groups
        means = (drawn @ sums / (drawn @ counts)).mean(1)
    value = (sums.sum(0) / counts.sum(0)).mean()
    return Estimate(
        float(value),
        *map(float, np.nanquantile(means, [0.025, 0.975])),
        len(pairs),
        "percentage points",
    )


def _paired(frame: pd.DataFrame) -> dict:
    one_tailed = stats.ttest_rel(frame["original"], frame["counter"], alternative="greater")
    interval = stats.ttest_rel(frame["original"], frame["counter"]).confidence_interval(0.95)
    return {
        "n": len(frame),
        **frame.mean(),
        "difference": (frame["original"] - frame["counter"]).mean(),
        "low": interval.low,
        "high": interval.high,
        "t": one_tailed.statistic,
        "p": one_tailed.pvalue,
    }


def per_head(weights: torch.Tensor) -> pd.DataFrame:
    """The paired one-tailed test in every head, one row each: layer, head (from 1), difference, t, p, and q: p after
    Benjamini and Hochberg's correction for testing all heads (5 % of those with q < .05 are expected to be false)."""
    change = (weights[:, 0] - weights[:, 1]).double().numpy()
    tested = stats.ttest_1samp(change, 0, alternative="greater")
    layer, head = (np.indices(change.shape[1:]) + 1).reshape(2, -1)
    p, t = (
        np.nan_to_num(tested.pvalue.ravel(), nan=1.0),
        np.nan_to_num(tested.statistic.ravel()),
    )  # nan: all alike
    return pd.DataFrame(
        {
            "layer": layer,
            "head": head,
            "difference": change.mean(0).ravel(),
            "p": p,
            "t": t,
            "q": stats.false_discovery_control(p),
        }
    )


def measure(name: str, bias: str, source: str, n: int, seed: int, device: str | None = None):
    """`sentences` of these arguments, and a model's `attention` on them: with plain arguments, for run.cached."""
    model = models.load(name, device=device, attention="eager")
    pairs = sentences(bias, source, n, seed, model.is_causal)
    return pairs, attention(model, pairs)
