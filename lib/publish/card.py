"""A model's card: what it is, what it was trained on, what it knows and how it leans."""

import json
from dataclasses import replace

import pandas as pd

from lib import paths
from lib.engine import models, nsp, stats
from lib.text import data
from lib.text.english import listed
from lib.verdict import Claim, Side, Verdict, by_id, judge, not_run

ODDS = Claim("odds-rise", "", "", "the odds of she rise with the share of women in an occupation", "01",
             "01_pronoun_odds")
FOLLOWS = Claim("next-follows", "", "", "related sentences are called next, unrelated ones are not", "01",
                "01_next_sentences", side=Side.AT_LEAST, threshold=1)  # all of the pairs
CLAIMS = by_id([ODDS, FOLLOWS])  # that the papers make of no model, but presuppose


def company(run) -> list[str]:
    """The models that a run introduces: its encoder and decoder and, between them, the other families that ship."""
    others = [name for name in run.cloze if (paths.MODELS / name).is_dir() and name != run.decoder]
    return list(dict.fromkeys([run.encoder, *others, run.decoder]))


def describe(model) -> dict:
    """Shape and training of a model; training is known for the models made by lib/training alone."""
    config = model.net.config
    facts = {"family": model.family, "layers x heads": f"{model.n_layers} x {model.n_heads}",
             "hidden size": config.hidden_size, "vocabulary": config.vocab_size,
             "positions": model.tokenizer.model_max_length,
             "parameters, M": round(model.net.num_parameters() / 1e6, 1), "revision": model.revision}
    stored = models.locate(model.name)[0] / "training.json"
    if stored.exists():
        record = json.loads(stored.read_text())
        facts |= {"tokens of text, M": round(record["training"]["tokens_in_text"] / 1e6),
                  "tokens seen, M": round(record["training"]["tokens_seen"] / 1e6),
                  "minutes on one GPU": round(record["training"]["seconds"] / 60, 1)}
        facts |= {f"held-out {name.replace('_', ' ')}": round(value, 3) for name, value in record["heldout"].items()}
    return facts


def next_sentences(model, n: int) -> pd.DataFrame:
    """p(next) of the stereotype, anti-stereotype and unrelated sentence of n examples: one row per pair (A, B)."""
    rows = data.demo("nsp_examples").head(n).melt(id_vars="context", var_name="label", value_name="next_sentence")
    rows["probability"] = nsp.is_next(model, list(zip(rows.context, rows.next_sentence))).numpy()
    return rows.sort_values(["context", "probability"], ascending=[True, False], ignore_index=True)


def fillers_headline(words: dict[str, pd.DataFrame], job: str) -> str:
    """Each model's first word for the blank (`fill.top` by model name), in words."""
    by_word = {}
    for name, frame in words.items():
        by_word.setdefault(frame.word[0].lower(), []).append(name)
    return f"A {job} is " + listed([f"{word} to {listed(names)}" for word, names in by_word.items()])


def odds_headline(odds: dict[str, pd.DataFrame]) -> str:
    """The finding of `pronoun_odds` in words, for whatever models it was run on: who rises beyond chance."""
    rising = [name for name, frame in odds.items() if _rise(frame).low > 0]
    others = [name for name in odds if name not in rising]
    not_so = f"{listed(others)} {'does' if len(others) == 1 else 'do'} not clearly" if others else ""
    if not rising:
        return f"{not_so} say she more often where more women work"
    said = f"Where more women work, {listed(rising)} {'says' if len(rising) == 1 else 'say'} she more often"
    return f"{said}, {not_so}" if not_so else said


def _rise(frame: pd.DataFrame) -> stats.Estimate:
    return stats.bootstrap(stats.rank_correlation, frame.percent_women, frame.log_odds)


def checks(odds: dict[str, pd.DataFrame], follows: pd.DataFrame | None) -> list[Verdict]:
    """What the papers presuppose of their models, tested: pronouns know the world, related sentences follow.

    `odds` is `pronoun_odds` by model name; `follows` is `next_sentences` of the encoder, None where it has no head.
    """
    verdicts = []
    for name, frame in odds.items():
        rho = _rise(frame)  # its lower end has to be above 0
        rises = judge(ODDS, rho.low, on=name, found=f"rank correlation {rho}", models=[name])
        verdicts.append(replace(rises, estimate=rho))
    about = dict(on=next(iter(odds)), models=[next(iter(odds))])
    if follows is None:
        return [*verdicts, not_run(FOLLOWS, "no next-sentence head", **about)]
    right = (follows.probability > .5) == (follows.label != "unrelated")
    return [*verdicts, judge(FOLLOWS, right.mean(), found=f"{right.sum()} of {len(right)} pairs", **about)]


def checks_table(verdicts: list[Verdict]) -> pd.DataFrame:
    """presupposed, model, ours, verdict."""
    rows = [(CLAIMS[one.claim].says, one.on, one.found, str(one)) for one in verdicts]
    return pd.DataFrame(rows, columns=["presupposed", "model", "ours", "verdict"])


def inventory() -> pd.DataFrame:
    """The shipped lists and sentences: file, what it is (from its header), rows."""
    rows = []
    for folder, read in ((paths.LISTS, data.words), (paths.DEMO, data.demo)):
        for path in sorted(folder.iterdir()):
            if path.suffix in (".csv", ".txt"):
                first = path.read_text().splitlines()[0]
                rows.append({"file": f"{folder.name}/{path.name}", "rows": len(read(path.stem)),
                             "what": first.lstrip("# ") if first.startswith("#") else ""})
    return pd.DataFrame(rows)


def sources() -> pd.DataFrame:
    """Every outside data set with its licence and the notebooks that use it, the same on every machine."""
    return data.sources()[["name", "title", "licence", "files", "used_by"]]
