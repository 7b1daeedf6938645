"""Shaping data: the outside files, each read into one plain shape. data.py finds or fetches them.

A reader returns a DataFrame or a list of strings; labels are words, not codes; nothing is shuffled."""

from __future__ import annotations  # pd.DataFrame is not looked up, so that pandas stays unimported

import csv
import gzip
import html
import json

from lib import CompanionError, Lazy
from lib.text import data

pd = Lazy("pandas")

TRIPLE = [
    "context_id",
    "context",
    "next_sentence",
    "label",
    "gender",
    "gender_swapped_context",
    "gender_swapped_next_sentence",
]
TRIPLE_LABELS = {"stereotype", "anti-stereotype", "unrelated"}
NLI_LABELS = ["entailment", "neutral", "contradiction"]  # in SNLI's own order: 0, 1, 2

# GLUE's tasks at hand: the file of each part. Where "validation" is missing, it is to be held out from train.
GLUE = {
    "RTE": {"train": "RTE_becel_train", "evaluation": "RTE_becel_validation"},
    "SST-2": {
        "train": "SST-2_alps_train",
        "validation": "SST-2_alps_dev",
        "evaluation": "SST-2_alps_test",
    },
    "WNLI": {"train": "WNLI_train", "validation": "WNLI_val", "evaluation": "WNLI_dev"},
    "CoLA": {"train": "CoLA_train", "validation": "CoLA_val", "evaluation": "CoLA_dev"},
    "MRPC": {"train": "MRPC_becel_train", "evaluation": "MRPC_becel_validation"},
    "STS-B": {"train": "STS-B_train", "evaluation": "STS-B_dev"},
}
GLUE_HEADERS = {  # of files that have none
    "CoLA": ["source", "label", "star", "sentence"],
    "WNLI_val": ["index", "sentence1", "sentence2", "label"],
    "STS-B": [
        "index",
        "genre",
        "file",
        "year",
        "old",
        "source1",
        "source2",
        "sentence1",
        "sentence2",
        "label",
    ],
}

NEWS = {
    "news_commentary": "news_commentary/news-commentary-v15.en.gz",
    "bbc_news": "bbc_news/bbc.jsonl.gz",
}


def stereoset() -> pd.DataFrame:
    """Projective methods' triples: 234 contexts, three rows each, labelled as on the original side; on the swapped side
    stereotype and anti-stereotype change places. `data.demo("triples")` has the same columns."""
    frame = pd.read_csv(data.path("gender_swapped_stereoset/dev.csv"), keep_default_na=False)[
        TRIPLE
    ]
    frame["label"] = frame["label"].str.strip().str.lower().str.replace("_", "-")
    assert set(frame["label"]) == TRIPLE_LABELS, set(frame["label"])
    return frame


def snli(split: str, full: bool = False) -> pd.DataFrame:
    """SNLI pairs: premise, hypothesis, label (a word of NLI_LABELS). No training pair is in test or validation.
    split: "test" (9,824 pairs), "validation" (9,842) or "train": the 26,330 that can be had as single files, 18,000 of
    SNLI's own and 8,330 counterfactually augmented ones; `full` takes SNLI's 549,367 labelled from the model hub."""
    if split not in ("train", "validation", "test"):
        raise CompanionError(f"SNLI has no split {split!r}: take 'train', 'validation' or 'test'.")
    if full:
        frame = data.hub("hub_snli", "plain_text", split).to_pandas()
        return _labelled(
            frame[frame["label"] >= 0], dict(enumerate(NLI_LABELS))
        )  # -1: the annotators did not agree
    if split != "train":
        return _labelled(_tsv(f"snli_becel/{split}.tsv"), dict(zip("012", NLI_LABELS)))
    # This copy has its label twice, and codes of its own.
    own = _labelled(
        _tsv("snli_cat/train.csv", names=["label", "again", "premise", "hypothesis"]),
        {"1": "neutral", "2": "contradiction", "3": "entailment"},
    )
    augmented = _tsv("snli_cad/all_combined_train.tsv").set_axis(
        ["premise", "hypothesis", "label"], axis=1
    )
    return pd.concat(
        [own, _labelled(augmented, dict(zip(NLI_LABELS, NLI_LABELS)))], ignore_index=True
    )


def wikitext() -> list[str]:
    """WikiText-2 raw, test split: its 2,891 lines that are not blank, headings included."""
    lines = data.path("wikitext2_raw/wiki.test.raw").read_text(encoding="utf-8").split("\n")
    return [line.strip() for line in lines if line.strip()]


def news() -> list[str]:
    """News texts to take contexts from: Bias A-head's own "news_commentary" (a line each), or "bbc_news" (2,225
    articles), which stands in for it. Which one it is gets printed."""
    source = corpus()
    instead = f" (stands in for news_commentary, the paper's own: put {NEWS['news_commentary']} into COMPANION_DATA)"
    print(f"News texts: {source}" + instead * (source == "bbc_news"))
    with gzip.open(data.path(NEWS[source]), "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] if source == "bbc_news" else line for line in file]
    return [text.strip() for text in texts if text.strip()]


def corpus(stand_ins: bool = True) -> str:
    """Whose texts `news` reads: those at hand, the paper's own first; where there are none, that one, to be fetched.
    Without stand-ins it is had here, or refused in a sentence that says where to put it: `news` then reads no other."""
    if not stand_ins:
        try:
            data.path(NEWS["news_commentary"])
        except CompanionError as error:
            raise CompanionError(
                f"{str(error)[:-1]}; a profile with stand_ins = true takes the BBC's."
            ) from None
    return next((name for name, file in NEWS.items() if data.available(file)), "news_commentary")


def reddit(name: str) -> list[str]:
    """The posts of one subreddit ("TheRedPill"): title, then body where there is one, on lines of their own.
    Stands in for the corpus of Ferrer et al. 2021. Offensive text: quote as little as possible."""
    posts = pd.read_csv(data.path(f"reddit_top/{name}.csv"), keep_default_na=False, dtype=str)
    return [html.unescape(text).strip() for text in posts["title"] + "\n" + posts["selftext"]]


def seat(test: str) -> dict[str, list[str]]:
    """One SEAT or WEAT test ("sent-weat6"): targets X and Y, attributes A and B, as sentences or words."""
    parts = json.loads(data.path(f"seat/{test}.jsonl").read_text(encoding="utf-8"))
    return {
        key: parts[part]["examples"]
        for key, part in zip("XYAB", ("targ1", "targ2", "attr1", "attr2"))
    }


def glue(task: str, part: str, full: bool = False) -> pd.DataFrame:
    """A GLUE task: first, second (empty in a task of single sentences) and label, GLUE's own code (STS-B: 0.0 to 5.0).
    part: "train", "validation" (a part of GLUE's train set, where files come so) or "evaluation" (its own dev set; of
    STS-B, a re-split of its train; of MNLI "matched", "mismatched"). `full`: all nine of the hub, no "validation"."""
    if full:
        split = {"train": "train", "evaluation": "validation"}.get(part, f"validation_{part}")
        frame = (
            data.hub("hub_glue", task.lower().replace("-", ""), split)
            .to_pandas()
            .drop(columns="idx")
        )
    else:
        file = GLUE.get(task, {}).get(part)
        if file is None:
            raise CompanionError(
                f"The part {part} of GLUE's {task} is not at hand: take one of {', '.join(GLUE)}, "
                "or --profile paper, which reads all nine tasks from the model hub."
            )
        quoting = csv.QUOTE_MINIMAL if "becel" in file else csv.QUOTE_NONE
        frame = _tsv(f"glue/{file}.tsv", GLUE_HEADERS.get(file) or GLUE_HEADERS.get(task), quoting)
    texts = [
        name
        for name in frame.columns
        if name.startswith(("sentence", "question", "premise", "hypothesis"))
    ]
    labels = frame["label"].astype(float if task == "STS-B" else int)
    second = frame[texts[1]] if len(texts) > 1 else ""
    return pd.DataFrame({"first": frame[texts[0]].str.strip(), "second": second, "label": labels})


def _tsv(
    name: str, names: list[str] | None = None, quoting: int = csv.QUOTE_MINIMAL
) -> pd.DataFrame:
    return pd.read_csv(
        data.path(name), sep="\t", dtype=str, keep_default_na=False, names=names, quoting=quoting
    )


def _labelled(frame: pd.DataFrame, meaning: dict) -> pd.DataFrame:
    """premise, hypothesis and label alone, the label's code replaced by its word."""
    frame = frame.assign(label=frame["label"].map(meaning))
    assert frame["label"].notna().all(), "a label code that is not in " + str(meaning)
    return frame[["premise", "hypothesis", "label"]].reset_index(drop=True)
