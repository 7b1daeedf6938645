"""Shaping data: the outside files, each read into one plain shape. data.py finds or fetches them.

A reader returns a DataFrame or a list of strings. Labels are words, not codes. Nothing is shuffled.
"""

import csv
import gzip
import html
import json

import pandas as pd

from lib import CompanionError
from lib.text import data

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
# The files of triples that each part is read from.
TRIPLE_PARTS = {"dev": ["dev"], "test": ["test"], "both": ["dev", "test"]}
# Both files number their triples from 0. This is added to the context_id of each file, so that
# they cannot collide: 17 is in dev.csv, and 1017 is what test.csv calls 17.
FIRST_ID = {"dev": 0, "test": 1000}
MISSPELT = {"gender_swapped_conext": "gender_swapped_context"}  # in the header of test.csv
NLI_LABELS = ["entailment", "neutral", "contradiction"]  # in SNLI's own order: 0, 1, 2

# The GLUE tasks that single files hold: the file of each part. Where "validation" is missing, the
# caller holds a part of train out.
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
# Column names of files that have no header, by file or by task.
GLUE_HEADERS = {
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
# How the columns that hold texts begin, in all GLUE tasks.
GLUE_TEXTS = ("sentence", "question", "premise", "hypothesis")

# "technician.customer.1.male.txt": 1 where the pronoun refers to the participant.
WINOGENDER_ID = (
    r"(?P<occupation>[^.]+)\.(?P<participant>[^.]+)\.(?P<about>[01])"
    r"\.(?P<gender>male|female|neutral)\.txt"
)
WINOGENDER_ABOUT = {"0": "occupation", "1": "participant"}

NEWS = {
    "news_commentary": "news_commentary/news-commentary-v15.en.gz",
    "bbc_news": "bbc_news/bbc.jsonl.gz",
}


def stereoset(part: str = "dev") -> pd.DataFrame:
    """The authors' gender-swapped triples, three rows each.

    The label is that of the original side; on the swapped side stereotype and anti-stereotype
    change places. `data.demo("triples")` has the same columns. The context_id of a triple of the
    test file is the file's own plus FIRST_ID["test"].

    part: "dev" (234 triples, what Projective Methods uses, as inferred: it prints 242 before
          screening), "test" (749 more, by the same authors) or "both" (983)
    """
    files = data.one_of(TRIPLE_PARTS, part, "part of the gender-swapped StereoSet")
    return pd.concat([_triples(file) for file in files], ignore_index=True)


def _triples(file: str) -> pd.DataFrame:
    """One file of triples: "dev" or "test"."""
    frame = pd.read_csv(data.path(f"gender_swapped_stereoset/{file}.csv"), keep_default_na=False)
    frame = frame.rename(columns=MISSPELT)[TRIPLE].copy()
    frame["context_id"] += FIRST_ID[file]
    frame["label"] = frame["label"].str.strip().str.lower().str.replace("_", "-")
    assert set(frame["label"]) == TRIPLE_LABELS, set(frame["label"])
    sizes = frame.groupby("context_id")["label"].agg(["size", "nunique"])
    assert (sizes == len(TRIPLE_LABELS)).all(axis=None), "a triple without one row for each label"
    return frame


def snli(split: str, full: bool = False) -> pd.DataFrame:
    """SNLI pairs: premise, hypothesis, label (a word of NLI_LABELS).

    No training pair is in test or validation.

    split: "test" (9,824 pairs), "validation" (9,842) or "train", the 26,330 that single files
           hold: 18,000 of SNLI's own and 8,330 counterfactually augmented ones
    full:  take SNLI's 549,367 labelled training pairs, or another split, from the model hub
    """
    if split not in ("train", "validation", "test"):
        raise CompanionError(f"SNLI has no split {split!r}: take 'train', 'validation' or 'test'.")
    if full:
        frame = data.hub("hub_snli", "plain_text", split).to_pandas()
        agreed = frame[frame["label"] >= 0]  # -1: the annotators did not agree
        return _labelled(agreed, dict(enumerate(NLI_LABELS)))
    if split == "train":
        return _snli_train()
    return _labelled(_tsv(f"snli_becel/{split}.tsv"), dict(zip("012", NLI_LABELS)))


def _snli_train() -> pd.DataFrame:
    """SNLI's own training pairs, then the counterfactually augmented ones."""
    # This copy has its label twice, and codes of its own.
    copied = _tsv("snli_cat/train.csv", names=["label", "again", "premise", "hypothesis"])
    copied = _labelled(copied, {"1": "neutral", "2": "contradiction", "3": "entailment"})
    augmented = _tsv("snli_cad/all_combined_train.tsv")
    augmented = augmented.set_axis(["premise", "hypothesis", "label"], axis=1)
    augmented = _labelled(augmented, dict(zip(NLI_LABELS, NLI_LABELS)))
    return pd.concat([copied, augmented], ignore_index=True)


def wikitext() -> list[str]:
    """WikiText-2 raw, test split: its 2,891 lines that are not blank, headings included."""
    text = data.path("wikitext2_raw/wiki.test.raw").read_text(encoding="utf-8")
    return _stripped(text.split("\n"))


def news() -> list[str]:
    """News texts to take contexts from; prints whose they are.

    Bias A-head's own are "news_commentary" (a line each); "bbc_news" (2,225 articles) stands in
    for them. `corpus` chooses.
    """
    source = corpus()
    if source == "bbc_news":
        print(
            f"News texts: {source} (stands in for news_commentary, the paper's own: put "
            f"{NEWS['news_commentary']} into COMPANION_DATA)"
        )
    else:
        print(f"News texts: {source}")
    with gzip.open(data.path(NEWS[source]), "rt", encoding="utf-8") as file:
        lines = list(file)
    if source == "bbc_news":
        return _stripped([json.loads(line)["text"] for line in lines])
    return _stripped(lines)


def corpus(stand_ins: bool = True) -> str:
    """Whose texts `news` reads: "news_commentary", the paper's own, or "bbc_news".

    It is the paper's own where its file is at hand, and else the BBC's, which stored results are
    of. Without stand-ins the paper's own is fetched here; if that fails, the error says where to
    put the file.
    """
    if not stand_ins:
        try:
            data.path(NEWS["news_commentary"])
        except CompanionError as error:
            reason = str(error).removesuffix(".")
            raise CompanionError(
                f"{reason}; a profile with stand_ins = true takes the BBC's."
            ) from None
        return "news_commentary"
    return "news_commentary" if data.available(NEWS["news_commentary"]) else "bbc_news"


def reddit(name: str) -> list[str]:
    """The posts of one subreddit ("TheRedPill"): title and body, on lines of their own.

    Stands in for the corpus of Ferrer et al. 2021. Offensive text: quote as little as possible.
    """
    posts = pd.read_csv(data.path(f"reddit_top/{name}.csv"), keep_default_na=False, dtype=str)
    return [html.unescape(text).strip() for text in posts["title"] + "\n" + posts["selftext"]]


def seat(test: str) -> dict[str, list[str]]:
    """One SEAT or WEAT test ("sent-weat6"): targets X and Y, attributes A and B.

    The items are sentences (SEAT) or words (WEAT).
    """
    parts = json.loads(data.path(f"seat/{test}.jsonl").read_text(encoding="utf-8"))
    return {
        "X": parts["targ1"]["examples"],
        "Y": parts["targ2"]["examples"],
        "A": parts["attr1"]["examples"],
        "B": parts["attr2"]["examples"],
    }


def winogender() -> pd.DataFrame:
    """The 240 sentences of Winogender, each with the three pronouns that it is written with.

    Columns: occupation; participant (the other person, "someone" in half of the sentences); about
    ("occupation" or "participant": whom the pronoun refers to); male, female and neutral, the
    sentence with he, she or they in the case that it needs.
    """
    rows = _tsv("winogender/all_sentences.tsv")
    parts = rows["sentid"].str.extract(f"^{WINOGENDER_ID}$")
    assert parts.notna().all(axis=None), "a sentid that is not occupation.participant.0.gender.txt"
    parts["about"] = parts["about"].map(WINOGENDER_ABOUT)
    keys = ["occupation", "participant", "about"]
    genders = ["male", "female", "neutral"]
    wide = rows.join(parts).pivot(index=keys, columns="gender", values="sentence")
    wide = wide.reindex(columns=genders)
    assert wide.notna().all(axis=None), "a sentence without one of its three pronouns"
    in_order = pd.MultiIndex.from_frame(parts[keys].drop_duplicates())  # pivot sorts
    return wide.reindex(in_order).reset_index().rename_axis(columns=None)


def winogender_shares() -> pd.DataFrame:
    """The percentage of women in each of Winogender's 60 occupations.

    Columns: occupation; bls (US Bureau of Labor Statistics, 2015 and 2016); bergsma (gender of
    mentions in text, Bergsma and Lin 2006).
    """
    rows = _tsv("winogender/occupations-stats.tsv")
    return pd.DataFrame(
        {
            "occupation": rows["occupation"],
            "bls": rows["bls_pct_female"].astype(float),
            "bergsma": rows["bergsma_pct_female"].astype(float),
        }
    )


def glue(task: str, part: str, full: bool = False) -> pd.DataFrame:
    """A part of a GLUE task: first, second (empty for single sentences) and label.

    The label is GLUE's own code (STS-B: 0.0 to 5.0).

    part: "train", "validation" (a part of GLUE's train set, where a file has it) or "evaluation"
          (GLUE's dev set; for STS-B a re-split of its train set); for MNLI "matched" and
          "mismatched" in place of "evaluation"
    full: read from the model hub, which has all nine tasks, and no "validation"
    """
    frame = _glue_from_hub(task, part) if full else _glue_from_file(task, part)
    texts = [name for name in frame.columns if name.startswith(GLUE_TEXTS)]
    return pd.DataFrame(
        {
            "first": frame[texts[0]].str.strip(),
            "second": frame[texts[1]] if len(texts) > 1 else "",
            "label": frame["label"].astype(float if task == "STS-B" else int),
        }
    )


def _glue_from_hub(task: str, part: str) -> pd.DataFrame:
    splits = {"train": "train", "evaluation": "validation"}
    split = splits.get(part, f"validation_{part}")
    config = task.lower().replace("-", "")
    return data.hub("hub_glue", config, split).to_pandas().drop(columns="idx")


def _glue_from_file(task: str, part: str) -> pd.DataFrame:
    file = GLUE.get(task, {}).get(part)
    if file is None:
        raise CompanionError(
            f"The part {part} of GLUE's {task} is not at hand: take one of {', '.join(GLUE)}, "
            "or --profile paper, which reads all nine tasks from the model hub."
        )
    quoting = csv.QUOTE_MINIMAL if "becel" in file else csv.QUOTE_NONE
    header = GLUE_HEADERS.get(file) or GLUE_HEADERS.get(task)
    return _tsv(f"glue/{file}.tsv", header, quoting)


def _tsv(
    name: str, names: list[str] | None = None, quoting: int = csv.QUOTE_MINIMAL
) -> pd.DataFrame:
    """An outside file of tab-separated strings; `names` are its columns if it has no header."""
    return pd.read_csv(
        data.path(name), sep="\t", dtype=str, keep_default_na=False, names=names, quoting=quoting
    )


def _labelled(frame: pd.DataFrame, meaning: dict) -> pd.DataFrame:
    """premise, hypothesis and label alone, the label's code replaced by its word."""
    frame = frame.assign(label=frame["label"].map(meaning))
    assert frame["label"].notna().all(), "a label code that is not in " + str(meaning)
    return frame[["premise", "hypothesis", "label"]].reset_index(drop=True)


def _stripped(texts: list[str]) -> list[str]:
    """The texts without spaces around them; blank ones are left out."""
    stripped = [text.strip() for text in texts]
    return [text for text in stripped if text]
