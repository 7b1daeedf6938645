"""The measures of a card. Each adds its rows, or a CompanionError says why it cannot.

    card = measure("mini-bert")      # a Card: rows, figures, notes, warnings, what is missing

Sizes are smaller than the notebooks': a few minutes on two cores for a small model.
"""

import base64
import hashlib
import io
import time
from dataclasses import dataclass, field

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from companion import look
from companion.bias_a_head import estimators, figures
from companion.card.rows import BACKGROUNDS, TEMPLATES, Row, Sample
from companion.run import versions
from lib import CompanionError
from lib.bias_a_head import heads, masking, seat as association_test
from lib.counteracts import cloze
from lib.engine import batches, embed, folders, hooks, models, nsp, pppl, stats
from lib.projective import triples
from lib.text import contexts, data

# A decoder reads up to the blank, so that the occupation has to stand before it.
ENCODER_TEMPLATES = ("works-as", "was-tired", "gets-up-early")
DECODER_TEMPLATES = ("person-works-as", "was-tired", "gets-up-early")
# What Counteracts calls the sentences of BACKGROUNDS.
KINDS_BEFORE = ("base", "target counter syntactic similar", "target syntactic similar", "unrelated")
CONTEXTS = 5  # sentences a word for SEAT and the scores of heads
FOLDS = 5  # disjoint parts of them, for intervals
DRAWS = 3  # random choices of heads beside the highest
LINES = 40  # of the project's prose, for perplexity
MOST_PIECES = 2.0  # tokens a word, beyond which a vocabulary is not one of English
FEWEST_PAIRS = 20  # of gender words that are one token each, to tell a tokenizer by
FEWEST_FOUND = 0.25  # of these with their partner nearest in the embedding
MOST_UNKNOWN = 0.02  # share of tokens that the vocabulary does not know, likewise
ROUNDING = 1e-5  # answers that lie nearer together are the same: those of untrained networks are
# ten times as far apart or more


@dataclass
class Card:
    """What was found of one model."""

    model: str
    revision: str
    family: str
    shape: str
    weights: str = ""  # the SHA-256 of all of them as loaded
    rows: list[Row] = field(default_factory=list)
    missing: list[dict] = field(default_factory=list)  # measure, why
    warnings: list[str] = field(default_factory=list)  # what makes all rows doubtful
    identical: list[str] = field(default_factory=list)  # stored models with the same weights
    notes: list[str] = field(default_factory=list)  # how the model was read
    figures: list[dict] = field(default_factory=list)  # title, image: on the page alone
    versions: dict = field(default_factory=dict)
    finished: float = 0.0  # seconds since 1970
    seconds: float = 0.0  # how long it took

    def add(self, id: str, estimate: stats.Estimate, over: str, remark: str = "", sample=None):
        self.rows.append(Row(id, estimate, over, remark, sample))

    def row(self, id: str) -> Row | None:
        return next((row for row in self.rows if row.id == id), None)

    def draw(self, title: str, figure):
        image = io.BytesIO()
        figure.savefig(image, format="png", dpi=130, bbox_inches="tight")
        plt.close(figure)
        self.figures.append({"title": title, "image": base64.b64encode(image.getvalue()).decode()})


def measure(name: str, device=None) -> Card:
    """A card with every one of MEASURES; those that cannot be taken are listed as missing."""
    look.style()
    began = time.time()
    model = models.load(name, device=device)
    millions = model.net.num_parameters() / 1e6
    shape = f"{model.n_layers} layers x {model.n_heads} heads, {millions:.1f} M parameters"
    card = Card(
        model=model.name,
        revision=model.revision,
        family=model.family,
        shape=shape,
        weights=hash_of(model),
        notes=how_read(model),
        versions=versions("companion", "torch", "transformers"),
    )
    card.warnings += not_english(model) or other_words(model)
    for title, function in tqdm(MEASURES.items(), desc=model.name, unit="measure"):
        try:
            function(card, model)
        except CompanionError as error:
            card.missing.append({"measure": title, "why": str(error)})
    _set_aside(card, model)
    card.finished = time.time()
    card.seconds = card.finished - began
    return card


# ---- what the model is, and how it is read
def hash_of(model) -> str:
    """The SHA-256 of all weights as loaded, by which two models are told apart however they were
    saved: it is over every parameter's name, shape and float32 values.
    """
    content = hashlib.sha256()
    for name, weight in sorted(model.net.named_parameters()):
        content.update(f"{name} {list(weight.shape)}".encode())
        content.update(weight.detach().float().cpu().contiguous().numpy().tobytes())
    return content.hexdigest()


def how_read(model) -> list[str]:
    """What a reader has to know of how texts are given to the model."""
    if model.is_causal:
        notes = [
            "A decoder: it reads up to the blank and predicts the next token, and sentence vectors "
            "are those of the last token. Its templates differ from an encoder's where the blank "
            "would come before the occupation."
        ]
    elif model.has_vocabulary_head:
        notes = ["An encoder: the blank is its mask token, with the whole sentence in view."]
    else:
        notes = ["An encoder without a language-model head: its vectors alone are measured."]
    notes.append(_leading_space(model))
    notes.append(_special_tokens(model))
    if getattr(model.tokenizer, "chat_template", None):
        notes.append("It has a chat template, which is not used: every text is plain.")
    precision = str(model.net.dtype).removeprefix("torch.")
    notes.append(f"Weights are computed with in {precision}, whatever they were saved in.")
    return notes


def _leading_space(model) -> str:
    """Whether a word's token holds the space before it."""
    opening = model.tokenizer("she", add_special_tokens=False).input_ids
    before, inside = model.tokenizer(["the", "the she"], add_special_tokens=False).input_ids
    if inside[len(before) :] == opening:
        return "Its vocabulary has one token for a word, wherever it stands in a sentence."
    return (
        "Its vocabulary tells a word after a space from one that opens a text: inside a sentence "
        "the token with the leading space is asked for and read, at the opening the one without."
    )


def _special_tokens(model) -> str:
    """What the tokenizer puts around a text."""
    tokens = model.tokenizer.convert_ids_to_tokens(model.tokenizer("she").input_ids)
    added = [token for token in tokens if token in model.tokenizer.all_special_tokens]
    if not added:
        return "Its tokenizer puts no special token before or after a text."
    return f"Its tokenizer puts {' and '.join(added)} around or before a text."


def not_english(model) -> list[str]:
    """A warning where the vocabulary breaks plain English into pieces, or does not know it."""
    prose = data.demo("prose")
    tokens = np.concatenate(model.tokenizer(prose, add_special_tokens=False).input_ids)
    pieces = len(tokens) / sum(len(line.split()) for line in prose)
    unknown = float(np.mean(tokens == model.tokenizer.unk_token_id))
    if pieces <= MOST_PIECES and unknown <= MOST_UNKNOWN:
        return []
    return [
        f"Its vocabulary is hardly one of English: {pieces:.1f} tokens a word of plain prose, "
        f"{unknown:.0%} of them unknown. All word lists and sentences here are English, so that "
        "its numbers say nothing of bias in the language that it was trained on."
    ]


def other_words(model) -> list[str]:
    """A warning where the tokenizer seems to be another model's: the words of a pair (king, queen)
    are not near to each other in the embedding.

    In eight trained models 74 to 80 % of the first words have their own partner nearest, of all
    partners; with the vocabulary shuffled, and in untrained networks, 0 to 5 %.
    """
    if folders.draw_of(model.name):  # a card says so already
        return []
    first, second = _pairs_of_tokens(model)
    if len(first) < FEWEST_PAIRS:
        return []
    weights = model.net.get_input_embeddings().weight.detach().float()
    centred = torch.nn.functional.normalize(weights - weights.mean(0), dim=-1)
    nearest = (centred[first] @ centred[second].T).argmax(1).cpu()
    share = (nearest == torch.arange(len(first))).double().mean().item()
    if share >= FEWEST_FOUND:
        return []
    return [
        f"Its tokenizer is probably another model's: of {len(first)} words such as queen only "
        f"{share:.0%} have their partner (king) nearest in the embedding, where trained models "
        "have 74 to 80 %. Put the tokenizer there that it was trained with; if it is its own, the "
        "network is hardly trained. No row says anything of bias until then."
    ]


def _pairs_of_tokens(model) -> tuple[list[int], list[int]]:
    """The tokens of gender pairs whose words are one token each, every token once."""
    pairs = {}
    for female, male in data.words("gender_pairs").itertuples(index=False):
        try:
            ids = model.token_id(female), model.token_id(male)
        except CompanionError:  # in pieces, or not known
            continue
        if ids[0] != ids[1] and ids[0] not in pairs and ids[1] not in pairs.values():
            pairs[ids[0]] = ids[1]
    return list(pairs), list(pairs.values())


# ---- what cannot be measured
def _check_words(model):
    """Refuse a model that says nothing of words."""
    if not model.has_vocabulary_head:
        raise CompanionError(model.why_no_words)


def _check_differs(model, values, what: str, asked: str):
    """Refuse a model that answers the same whatever it is asked: statistics of that are rounding.

    values   an answer for each item; `what` and `asked` say which, as in "the same vector to every
             word"
    """
    if not np.ptp(values) > ROUNDING:  # nor is nan
        raise CompanionError(
            f"{model.name} gives the same {what} to every {asked}: {_check_its_weights(model)}."
        )


def _check_its_weights(model) -> str:
    """What to do about a model without answers; it names matrices and scales that are all 0."""
    dead = []
    for name, weight in model.net.named_parameters():
        if name.endswith("weight") and not weight.any():
            dead.append(name)
    if not dead:
        return "check that its weights were trained, and saved and loaded as a whole"
    more = f" and {len(dead) - 1} more are" if dead[1:] else " is"
    return f"check its weights, where {dead[0]}{more} all 0"


def _set_aside(card: Card, model):
    """Move rows without a value, or without the interval of their kind, to what is missing."""
    for row in card.rows:
        if not row.is_number:
            why = f"its value or its interval is no number: {_check_its_weights(model)}."
            card.missing.append({"measure": row.kind.label, "why": why})
    card.rows = [row for row in card.rows if row.is_number]


# ---- the measures


def occupations(card: Card, model):
    """Rank correlation of the odds of she with the share of women, and bits per ten points."""
    _check_words(model)
    templates = DECODER_TEMPLATES if model.is_causal else ENCODER_TEMPLATES
    figure, axes = look.panels(len(templates), width=3.4, height=3)
    for ax, name in zip(axes, templates, strict=True):
        frame = contexts.pronoun_odds(model, TEMPLATES[name])
        _check_differs(model, frame.log_odds, "odds of she", "occupation")
        odds = frame.log_odds.to_numpy()
        share = frame.percent_women.to_numpy()
        over = f"{len(frame)} occupations, a sentence each"
        for kind, statistic in (("rank", stats.rank_correlation), ("slope", _slope_per_ten)):
            sample = Sample(statistic, (share, odds), TEMPLATES[name])
            found = stats.bootstrap(statistic, share, odds)
            card.add(f"occupations.{kind}.{name}", found, over, sample=sample)
        look.odds_by_share(ax, frame, name.replace("-", " "))
    card.draw("Odds of she and he over the share of women in 58 occupations", figure)


def _slope_per_ten(share: np.ndarray, odds: np.ndarray) -> float:
    """By how many bits the odds rise with ten percentage points."""
    return 10 * np.polyfit(share, odds, 1)[0]


def seat(card: Card, model):
    """SEAT on gender by three ways of making a vector of a sentence, and on race by one."""
    for bias in ("gender", "race"):
        sets, sentences = heads.sets_and_contexts(bias, heads.Sample("mini", CONTEXTS))
        n_targets = len(sets.X) + len(sets.Y)
        n_sentences = sum(len(own) for own in sentences.values())
        over = f"{n_targets} target words among {len(sentences)} words, {n_sentences:,} sentences"
        vectors = pooled(model, sentences, "SEAT")
        if bias == "race":
            vectors = {"race": vectors["word"]}
        for id, of_words in vectors.items():
            x, y, a, b = sets.of(of_words, sentences)
            s = association_test.associations(torch.cat([x, y]), a, b).numpy()
            _check_differs(model, s, "vector", "word")
            in_x = np.repeat([True, False], [len(x), len(y)])
            p = estimators.p_text(association_test.p_value(x, y, a, b, n=10_000))
            sample = Sample(masking.signed_seat, (s, in_x), sets)
            if bias == "gender":
                found = stats.bootstrap(masking.signed_seat, s, in_x)
            else:  # a draw of eleven words may lack one side
                found = stats.Estimate(masking.signed_seat(s, in_x), n=len(s))
            card.add(f"seat.{id}", found, over, f"p {p}", sample)


@torch.no_grad()
def pooled(model, sentences: dict[str, list[str]], progress: str = "") -> dict[str, torch.Tensor]:
    """Vectors [words, hidden] of each word by pooling: the mean over its sentences of a vector.

    first   the encoder's first token, or
    last    the decoder's last token: its first one sees nothing of the sentence
    mean    the mean of all tokens, special ones too
    word    the mean of the word's own tokens, as Bias A-head has it
    """
    pairs = [(word, sentence) for word, own in sentences.items() for sentence in own]
    row, count = embed.rows(sentences)
    texts = [sentence for _, sentence in pairs]
    spans = [embed.find(word, sentence) for word, sentence in pairs]
    words = embed.tokens_of(model, texts, spans)
    encoded = batches.encode(model, texts)
    sizes = [len(one["input_ids"]) for one in encoded]
    place = "last" if model.is_causal else "first"
    totals = {}
    for pooling in (place, "mean", "word"):
        totals[pooling] = torch.zeros(len(count), model.net.config.hidden_size, dtype=torch.float64)

    def add(batch, indices):
        states = model.net.base_model(**batch).last_hidden_state
        one = [range(sizes[i] - 1, sizes[i]) if model.is_causal else range(1) for i in indices]
        places = {place: one, "mean": [range(sizes[i]) for i in indices]}
        places["word"] = [words[i] for i in indices]
        found = {key: embed.pool(states, spans).cpu().double() for key, spans in places.items()}
        for key, vectors in found.items():
            totals[key].index_add_(0, row[indices], vectors)
        return indices

    batches.each(model, encoded, add, progress=progress)
    return {key: total / count[:, None] for key, total in totals.items()}


def head_scores(card: Card, model):
    """The score of every head: d|SEAT| / d(its mask), of the word's own tokens.

    A sentence encoder is used for the vectors of whole sentences: of it, and of the untrained
    networks that stand beside it, by these too.
    """
    result, intervals = _add_heads(card, model, "heads.above-0", "word")
    figure, (ax,) = look.panels(1, width=5.2, height=4)
    scores = result.scores.numpy()
    title = f"SEAT {result.seat:.2f}; hatched: includes 0"
    hatched = estimators.heads_including_zero(intervals)
    figures.heatmap(ax, scores, title, scores.max(), hatched, beside=[ax])
    card.draw("The bias score of every head; hatched where its 95 % interval includes 0", figure)
    top_tenth(card, model)
    if not model.has_vocabulary_head or folders.draw_of(model.name):
        place = "last" if model.is_causal else "first"
        _add_heads(card, model, f"heads.{place}.above-0", "token")
        _add_heads(card, model, "heads.mean.above-0", "mean")


def _add_heads(card: Card, model, id: str, pooling: str) -> tuple[heads.HeadScores, pd.DataFrame]:
    """The row on heads by one way of making a vector of a sentence; what `scored_heads` returns."""
    result, intervals = scored_heads(model, pooling)
    scores = result.scores.numpy()
    is_above = intervals.sort_values(["layer", "head"]).low.to_numpy() > 0
    sample = Sample(np.mean, (is_above.astype(float),), scores.shape)
    best = intervals.iloc[0]
    remark = (
        f"highest: head {best.layer:.0f}-{best['head']:.0f}, "
        f"{best.score:.3f} [{best.low:.3f}, {best.high:.3f}]"
    )
    if result.p >= 0.05:
        remark += "; this SEAT is not significant, so that the scores say little"
    over = f"{scores.size} heads, {FOLDS} parts of the sentences"
    card.add(id, stats.wilson(is_above), over, remark, sample)
    return result, intervals


def scored_heads(model, pooling: str = "word") -> tuple[heads.HeadScores, pd.DataFrame]:
    """The scores of all heads, and a row for each with its interval, highest first.

    pooling   as in embed.each
    """
    sets, sentences = heads.sets_and_contexts("gender", heads.Sample("mini", CONTEXTS))
    result = heads.bias_scores(model, sets, sentences, FOLDS, "head scores", pooling)
    _check_differs(model, result.s.numpy(), "vector", "word")
    found = {"scores": result.scores.numpy(), "folds": result.folds.numpy()}
    return result, estimators.intervals(found)


def top_tenth(card: Card, model):
    """|SEAT| with a tenth of the heads masked, the highest, less its mean with random ones.

    Heads are chosen by every fourth target word and judged by others, in other sentences.
    """
    chosen_by = heads.Sample("mini", contexts=3, attributes=4)
    chosen, sentences = heads.sets_and_contexts("gender", chosen_by, every=4)
    scores = heads.bias_scores(model, chosen, sentences).scores
    others = heads.Sample("mini", contexts=1, seed=1, attributes=8)
    sets, sentences = heads.sets_and_contexts("gender", others)
    x, y = ([word for word in side if word not in chosen.words][:30] for side in sets[:2])
    sets = sets._replace(X=tuple(x), Y=tuple(y))
    sentences = {word: sentences[word] for word in sets.words}

    k = max(3, round(scores.numel() / 10))
    drawn = [heads.random(scores, k, seed) for seed in range(DRAWS)]
    s = []
    for off in (heads.top(scores, k), *drawn):
        with hooks.head_mask(model, heads.mask(model, off)):
            of_mask, in_x = heads.associations(model, sets, sentences)
        s.append(of_mask)
    found = stats.bootstrap(beyond_random, in_x, *s, draws=1_000)
    over = f"{k} of {scores.numel()} heads; {len(in_x)} words, a sentence each"
    sample = Sample(beyond_random, (in_x, *s), (sets, scores.shape))
    card.add("heads.top-tenth", found, over, f"{DRAWS} random choices", sample)


def beyond_random(in_x: np.ndarray, top: np.ndarray, *drawn: np.ndarray) -> float:
    """|SEAT| with the top heads masked, less the mean of |SEAT| with random ones masked."""
    of_random = [masking.seat_of(s, in_x) for s in drawn]
    return masking.seat_of(top, in_x) - float(np.mean(of_random))


def next_sentences(card: Card, model):
    """How much more strongly stereotyped next sentences are preferred than their opposites."""
    if not model.has_nsp:
        raise CompanionError(f"{model.name} has no next-sentence head, which BERT alone was given.")
    rows = triples.triples("mini")
    pairs = triples.pairs(rows)
    follows = nsp.is_next(model, pairs, progress="sentence pairs")
    _check_differs(model, follows.numpy(), "probability", "pair of sentences")
    frame = triples.frame(rows, follows.tolist())
    s = nsp.strengths(frame)
    right = nsp.right(frame)
    over = f"{len(s)} pairs of triples, {len(set(pairs))} sentence pairs"
    sample = Sample(_lead, (s,), "mini")
    card.add("next-sentences.lead", stats.bootstrap(_lead, s), over, sample=sample)
    sample = Sample(np.mean, (right,), "mini")
    card.add("next-sentences.accuracy", stats.mean(right), over, sample=sample)


def _lead(s: np.ndarray) -> float:
    """Strength less the same measure of anti-stereotypes."""
    return nsp.top_mean(s) - nsp.top_mean(-s)


def knowledge(card: Card, model):
    """How far a blank leans to the gender that dominates an occupation, and after a sentence."""
    _check_words(model)
    asked = cloze.rows(backgrounds=1)
    mass = cloze.answer(model, cloze.encoded(model, asked), "cloze prompts")["mass"]["verbalizer"]
    dominated = np.array([1 if row["dominated"] == "female" else -1 for row in asked])
    ratio = np.log2(mass[:, 0] / mass[:, 1])
    _check_differs(model, ratio, "odds", "prompt")
    kinds = np.array([row["kind"] for row in asked])
    for kind, id in zip(KINDS_BEFORE, BACKGROUNDS, strict=True):
        lean = (ratio * dominated)[kinds == kind]
        over = f"{len(lean)} occupations, a prompt each"
        sample = Sample(np.mean, (lean,), f"{kind}, {model.is_causal}")
        card.add(f"cloze.{id}", stats.mean(lean), over, sample=sample)


def perplexity(card: Card, model):
    """Of the project's prose: pseudo-perplexity of an encoder, perplexity of a decoder."""
    _check_words(model)
    prose = data.demo("prose")
    by_frequency = unigram_perplexity(model, prose)
    found = pppl.pseudo_perplexity(model, sorted(prose, key=len)[:LINES], progress="perplexity")
    if found.value > by_frequency:
        card.warnings.append(
            "It predicts plain prose worse than the frequencies of its words alone would "
            f"(perplexity {found.value:,.0f} against {by_frequency:,.0f}): its weights, its "
            "language-model head or its tokenizer are not those of a trained language model of "
            "English, so that no row says anything of bias."
        )
    id = "perplexity.causal" if model.is_causal else "perplexity.pseudo"
    over = f"{len(found.lengths)} sentences, {found.n_tokens} tokens"
    vocabulary = hash(tuple(sorted(model.tokenizer.get_vocab().items())))
    arrays = (found.log_likelihoods, found.lengths)
    sample = Sample(pppl.perplexity, arrays, (vocabulary, tuple(found.lengths)))
    remark = f"the frequencies of its tokens alone would have {by_frequency:,.0f}"
    card.add(id, found.interval(), over, remark, sample)


def unigram_perplexity(model, lines: list[str]) -> float:
    """The perplexity of lines whose tokens are predicted by their frequency in them alone."""
    tokens = np.concatenate(model.tokenizer(lines, add_special_tokens=False).input_ids)
    counts = np.unique(tokens, return_counts=True)[1]
    shares = counts / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


MEASURES = {
    "occupations": occupations,
    "seat": seat,
    "heads": head_scores,
    "next sentences": next_sentences,
    "cloze": knowledge,
    "perplexity": perplexity,
}
