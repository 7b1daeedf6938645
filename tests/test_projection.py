"""Gender subspaces, what projections take out, and the sweep over all settings.

Each setting of the sweep is compared with a whole forward pass under hooks.
"""

import numpy as np
import pytest
import torch
import transformers

from lib.engine import batches, hooks, models, nsp
from lib.projective import projection, triples
from lib.projective.projection import BASE, Cut, Setting
from lib.text import pairs as sentence_pairs
from tests.tiny import refusal, tiny

PAIRS = [
    ("she likes poetry .", "he likes poetry ."),
    ("the woman was late .", "the man was late ."),
    ("the doctor said that she was here .", "the doctor said that he was here ."),
    ("a woman met the engineer .", "a man met the engineer ."),
    ("she was in the office .", "he was in the office ."),
]
NATURAL = [
    ("the nurse said that she was late .", "the nurse said that he was late ."),
    ("she likes mathematics .", "he likes mathematics ."),
    ("she met the nurse .", "he met the nurse ."),
]
TEXTS = [
    "the doctor said that she was late .",
    "he likes poetry .",
    "a man and a woman met .",
    "she was here .",
]
NEXT = [
    "he likes mathematics .",
    "she met the engineer in the office .",
    "the nurse said that he was late .",
    "he .",
]


def classifier(family, labels=("no", "yes"), **config):
    """A fine-tuned classifier's shape, with the tokenizer of its family."""
    model = tiny(family)
    config["id2label"] = dict(enumerate(labels))
    config["label2id"] = {label: i for i, label in enumerate(labels)}
    model.net.config.update(config)
    net = transformers.AutoModelForSequenceClassification.from_config(model.net.config)
    for weight in net.parameters():
        is_norm = weight.dim() == 1 and weight[0] == 1  # of a layer norm
        torch.nn.init.normal_(weight, mean=1.0 if is_norm else 0.0, std=0.2)
    return models.Model(
        net.eval().requires_grad_(False), model.tokenizer, f"tiny {family} classifier", "in memory"
    )


def saved_classifier(folder, labels=("contradiction", "entailment", "neutral")):
    """One for inference that takes long texts, loaded from where it was saved."""
    model = classifier("bert", labels, max_position_embeddings=256)
    model.net.save_pretrained(folder)
    model.tokenizer.model_max_length = 256
    model.tokenizer.save_pretrained(folder)
    return models.load(str(folder), task="sequence-classification")


def whole(model, subspaces, setting, encoded, head):
    """The slow obvious way: the whole network under the setting's hooks."""
    with torch.inference_mode(), hooks.project(model, subspaces.interventions(setting)):
        with hooks.record(model, ["pooler"]) as seen:
            model.net.base_model(**model.tokenizer.pad(encoded, return_tensors="pt"))
        return head(seen["pooler"])


def swept(model, subspaces, settings):
    """The encoded texts, the model's head, and the logits of models under some settings."""
    encoded = batches.encode(model, TEXTS, NEXT)
    head = projection.head(model)
    return encoded, head, projection.sweep(model, subspaces, settings, encoded, head)


@pytest.mark.parametrize(
    "make, family, refit",
    [
        (tiny, "bert", True),
        (classifier, "roberta", False),
        (classifier, "albert", False),
        (classifier, "distilbert", True),
    ],
)
def test_each_of_the_76_models_is_what_a_whole_forward_gives(make, family, refit):
    """All of BERT's; of the other families every fifth, which has each cut at each place."""
    model = make(family)
    subspaces = projection.fit(model, PAIRS, refit=refit, natural=NATURAL)
    settings = projection.models()[:: 1 if family == "bert" else 5]
    encoded, head, logits = swept(model, subspaces, settings)
    assert logits.shape == (len(settings), len(TEXTS), 2)
    for setting, rows in zip(settings, logits):
        expected = whole(model, subspaces, setting, encoded, head)
        torch.testing.assert_close(rows, expected, atol=1e-5, rtol=0, msg=setting.name)
    if make is classifier:  # the base model is the classifier itself
        plain = model.net(**model.tokenizer.pad(encoded, return_tensors="pt")).logits
        torch.testing.assert_close(logits[0], plain, atol=1e-5, rtol=1e-5)


def test_what_a_setting_does_not_ask_for_is_not_run(monkeypatch):
    model = tiny("bert")
    subspaces = projection.fit(model, PAIRS, natural=NATURAL)
    passes = []  # the number of each layer that runs

    def counted(i, forward):
        def run(*args, **kwargs):
            passes.append(i)
            return forward(*args, **kwargs)

        return run

    for i, layer in enumerate(model.net.bert.encoder.layer):
        monkeypatch.setattr(layer, "forward", counted(i, layer.forward))
    swept(model, subspaces, projection.models())
    assert [passes.count(i) for i in range(3)] == [1, 2, 9]
    passes.clear()
    encoded = batches.encode(model, TEXTS)
    projection.sweep(model, subspaces, projection.settings()[:10], encoded, projection.head(model))
    assert passes == [0, 1, 2]


def recorded(model, subspaces, setting, location):
    """What a location of the network holds under a setting."""
    batch = model.tokenizer(TEXTS[:1], return_tensors="pt")
    with (
        torch.inference_mode(),
        hooks.project(model, subspaces.interventions(setting)),
        hooks.record(model, [location]) as seen,
    ):
        model.net.base_model(**batch)
    return seen[location].double()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "part, place", [("tokens", "layer.1"), ("cls", "layer.2"), ("sent", "pooler")]
)
def test_projections_leave_no_component_and_weighted_ones_their_share(part, place, weighted):
    model = tiny("bert")
    subspaces = projection.fit(model, PAIRS)
    found = subspaces.of(part)
    basis = found.basis.double()
    setting = Setting(**{part: Cut(weighted, second=True)})
    was = recorded(model, subspaces, BASE, place) @ basis.T
    left = recorded(model, subspaces, setting, place) @ basis.T
    if part == "cls":  # of the last layer the first token alone
        was = was[:, :1]
        left = left[:, :1]
    expected = was * (1 - found.explained.double()) if weighted else torch.zeros_like(was)
    torch.testing.assert_close(left, expected, atol=1e-6 * was.abs().max().item(), rtol=0)
    assert (was.abs() > 1e-3).double().mean() > 0.9  # there was something to take out


@pytest.mark.parametrize(
    "family, center",
    [("bert", True), ("albert", False), ("distilbert", False)],
)
def test_fit_takes_the_differences_of_the_places_named(family, center):
    """One sentence after the other, without batches.

    The places are all tokens, the first token, the sentence vector, and each head.
    """
    model = tiny(family)
    subspaces = projection.fit(model, PAIRS, center=center)
    places = {
        "tokens": "layer.1",
        "cls": "layer.2",
        "sent": "pooler",
        "q": "attn.q.1",
        "k": "attn.k.1",
        "v": "attn.v.1",
    }
    rows = {part: [] for part in places}
    for pair in PAIRS:
        sides = []
        for text in pair:
            with hooks.record(model, list(places.values())) as seen:
                model.net.base_model(**model.tokenizer([text], return_tensors="pt"))
            sides.append(seen)
        for part, place in places.items():
            difference = (sides[0][place] - sides[1][place])[0]
            if part == "cls":
                difference = difference[:1]
            elif part == "sent":
                difference = difference[None]
            rows[part].append(difference)
    for part in places:
        found = subspaces.of(part)
        expected = projection.components(torch.cat(rows[part]), center)
        torch.testing.assert_close(found.explained, expected.explained, atol=1e-4, rtol=0)
        cosines = (found.basis * expected.basis).sum(-1).abs()
        torch.testing.assert_close(cosines, torch.ones_like(cosines), atol=1e-3, rtol=0)
        is_orthonormal(found.basis)


def is_orthonormal(basis):
    gram = basis @ basis.mT
    identity = torch.eye(gram.shape[-1]).expand_as(gram)
    torch.testing.assert_close(gram, identity, atol=1e-5, rtol=0)


def test_refitting_looks_at_what_is_left():
    model = tiny("bert")
    once = projection.fit(model, PAIRS)
    again = projection.fit(model, PAIRS, refit=True)
    assert len(once.parts) == 6
    assert len(again.parts) == 3 + 2 + 9 + 37
    setting = Setting(cls=Cut(False, True), sent=Cut(False))
    first = once.of("cls", setting).explained
    torch.testing.assert_close(first, again.of("cls", setting).explained)
    rows = []
    for female, male in PAIRS:
        batch = model.tokenizer([female, male], return_tensors="pt", padding=True)
        with (
            hooks.project(model, again.interventions(setting.before("sent"))),
            hooks.record(model, ["pooler"]) as seen,
        ):
            model.net.base_model(**batch)
        rows.append(seen["pooler"][0] - seen["pooler"][1])
    expected = projection.components(torch.stack(rows))
    refitted = again.of("sent", setting).explained
    torch.testing.assert_close(refitted, expected.explained, atol=1e-5, rtol=0)
    assert (refitted[0] - once.of("sent", setting).explained[0]).abs() > 1e-3


def test_random_directions_have_the_rank_and_weight_of_fitted_ones():
    fitted = projection.fit(tiny("bert"), PAIRS)
    drawn = projection.random(fitted, 0)
    again = projection.random(fitted, 0)
    other = projection.random(fitted, 1)
    assert drawn.parts.keys() == fitted.parts.keys()
    for place, subspace in drawn.parts.items():
        assert subspace.basis.shape == fitted.parts[place].basis.shape
        assert subspace.explained is fitted.parts[place].explained
        is_orthonormal(subspace.basis)
        assert torch.equal(subspace.basis, again.parts[place].basis)
        assert not torch.allclose(subspace.basis, other.parts[place].basis)


def test_tokens_are_paired():
    """x y | a b | z against x y | c | z: y, x and z by themselves, a and b by their mean."""
    states = torch.tensor([[1.0], [2], [10], [20], [5]])
    others = torch.tensor([[0.0], [0], [3], [0]])
    found = projection._aligned([1, 2, 8, 9, 3], [1, 2, 7, 3], states, others)
    assert found[:, 0].tolist() == [1, 2, 12, 5]
    unpaired = projection._aligned([1, 2, 3], [1, 3], states[:3], others[2:])
    assert unpaired[:, 0].tolist() == [-2, 10]  # nothing stands opposite the middle token
    assert projection._aligned([1, 5], [2, 6], states[:2], others[:2])[:, 0].tolist() == [1, 2]


def test_cosines_have_no_sign():
    one = projection.Subspace(torch.tensor([[1.0, 0]]), torch.ones(1))
    other = projection.Subspace(torch.tensor([[-0.6, 0.8]]), torch.ones(1))
    assert projection._agreement(one, other) == pytest.approx(0.6)


def test_a_planted_direction_is_recovered():
    rng = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=rng, dtype=torch.double)

    planted = torch.linalg.qr(normal(20, 2)).Q.T
    size = normal(400, 2) * torch.tensor([4.0, 2.0]) + torch.tensor([8.0, 0])
    rows = size @ planted + 0.01 * normal(400, 20)
    plain = projection.components(rows)
    centred = projection.components(rows, center=True)
    for found, spread in ((plain, (size**2).mean(0)), (centred, size.var(0, correction=0))):
        cosines = (found.basis.double() @ planted.T).abs()
        torch.testing.assert_close(cosines, torch.eye(2).double(), atol=0.05, rtol=0)
        share = spread / spread.sum()
        torch.testing.assert_close(found.explained.double(), share, atol=0.01, rtol=0)
    assert plain.explained[0] > centred.explained[0] + 0.05


def test_a_setting_prints_as_in_table_7_and_knows_what_comes_before_a_place():
    """That the 74 are those of Table 7, in its order, is tested in test_projective.py."""
    setting = Setting(tokens=Cut(False, True), cls=Cut(True, False), sent=Cut(True))
    assert str(setting) == "(0, 1, 1, 0, 1)"
    assert setting in projection.settings()
    assert setting.before("cls") == Setting(tokens=Cut(False, True))
    assert setting.before("attention") == BASE


def test_what_cannot_be_fitted_or_swept_is_said():
    model = tiny("bert")
    assert "three or more" in refusal(projection.fit, model, PAIRS[:2])
    assert "do not differ" in refusal(projection.fit, model, [(a, a) for a, _ in PAIRS])
    for other in (tiny("gpt2"), classifier("bert", num_hidden_layers=1)):
        assert "encoder of two or more layers" in refusal(projection.fit, other, PAIRS)
    assert "natural=" in refusal(swept, model, projection.fit(model, PAIRS), projection.models())
    assert "sequence-classification" in refusal(projection.head, tiny("roberta"))


def test_the_sides_of_the_bundled_sentence_pairs_differ():
    written = sentence_pairs.written()
    natural = sentence_pairs.natural()
    contexts = sentence_pairs.contexts()
    assert len(written) == 40
    assert len(natural) >= 40
    assert len(contexts) >= 90
    assert not set(written) & set(natural)
    assert all(female != male for female, male in [*written, *natural, *contexts])


def test_the_measurement_puts_each_probability_in_its_place(monkeypatch):
    """A tiny BERT, two settings, two fits: s and d as nsp.py makes them of triples.frame."""
    model = tiny("bert")
    rows = triples.triples("mini")
    rows = rows[rows["context_id"].isin([2, 0, 5])].reset_index(drop=True)
    chosen = {"one": projection.fit(model, PAIRS), "two": projection.fit(model, PAIRS, center=True)}
    whole_pairs = triples.pairs

    def short_pairs(rows):
        """The tiny model reads letters, and has 40 positions."""
        return [(first[:24], second[:24]) for first, second in whole_pairs(rows)]

    monkeypatch.setattr(models, "load", lambda name, device=None: model)
    monkeypatch.setattr(triples, "triples", lambda data, items, part: rows)
    monkeypatch.setattr(triples, "pairs", short_pairs)
    monkeypatch.setattr(projection, "fits", lambda model, data, seed, items: chosen)
    monkeypatch.setattr(projection, "models", lambda: projection.settings()[::40])
    measured = projection.measure("tiny", "mini", 1)
    assert measured["s"].shape == measured["d"].shape == measured["accuracy"].shape == (2, 2, 3)
    shares = measured["explained"].query("fit == 'two' and part == 'q'")
    assert shares["head"].tolist() == [1, 2, 3, 4]
    expected = chosen["two"].of("q").explained.flatten().tolist()
    assert shares["share"].tolist() == pytest.approx(expected)
    for subspaces, found, place in (
        (projection.random(chosen["one"], 0), measured["random"], (0, 1)),
        (chosen["two"], measured, (1, 1)),
    ):
        with hooks.project(model, subspaces.interventions(projection.settings()[40])):
            frame = triples.frame(rows, nsp.is_next(model, triples.pairs(rows)))
        np.testing.assert_allclose(found["s"][place], nsp.strengths(frame), atol=1e-5)
        np.testing.assert_allclose(found["d"][place], nsp.distances(frame), atol=1e-5)
    assert measured["accuracy"][1, 1].mean() == pytest.approx(nsp.right(frame).mean())


@pytest.mark.parametrize(
    "text, pair",
    [
        ("She fed the cat.", ("She fed the cat.", "He fed the cat.")),
        ("I asked him.", ("I asked her.", "I asked him.")),
        (
            "His map was wet, and he sighed.",
            ("Her map was wet, and she sighed.", "His map was wet, and he sighed."),
        ),
        ("HE left the USA.", ("SHE left the USA.", "HE left the USA.")),
        ("I asked her.", None),
        ("She and he met.", None),
        ("The cat slept.", None),
        ("He saw the queen.", None),
        ("The theme is other.", None),
    ],
)
def test_natural_sentences_are_swapped_where_there_is_one_way(text, pair):
    assert sentence_pairs.swapped(text, gendered={"queen", "king"}) == pair
