"""A folder laid out as COMPANION_DATA is, with the outside files' names and columns, and this project's own sentences.

For running the notebooks of the profile paper where the real files are not: `write(folder)` makes the files that
notebooks 02 to 11 read, and a sources.toml that knows the same names without their hashes.
"""

import gzip
import json
import re
import tomllib
from pathlib import Path

import pandas as pd

from lib import paths, printed
from lib.bias_a_head import counter, heads
from lib.bias_a_head.heads import STANDARD
from lib.text import contexts, data
from lib.text.readers import NLI_LABELS


def write(folder: Path) -> Path:
    """The files; returns the sources.toml to put in place of data/sources.toml."""
    def place(name):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        return folder / name

    listed = tomllib.loads(paths.SOURCES.read_text(encoding="utf-8"))
    triples = data.demo("triples")
    shown = printed.numbers("projective_methods_examples").query("column == 'context_id'")["value"].astype(int)
    ids = [*shown, *(n for n in range(999) if n not in set(shown))]  # the triples that the paper prints are there
    order = {old: new for old, new in zip(triples["context_id"].unique(), ids)}
    triples.assign(context_id=triples["context_id"].map(order)).to_csv(
        place("gender_swapped_stereoset/dev.csv"), index=False)

    pairs = data.demo("nli")
    codes = pairs["label"].map(NLI_LABELS.index)
    for split in ("test", "validation"):
        pairs.assign(label=codes)[["premise", "hypothesis", "label"]].to_csv(
            place(f"snli_becel/{split}.tsv"), sep="\t", index=False)

    place("wikitext2_raw/wiki.test.raw").write_text("\n".join(data.demo("prose")) + "\n", encoding="utf-8")
    words = contexts.usable(data.demo("word_kinds")["word"])
    with gzip.open(place("bbc_news/bbc.jsonl.gz"), "wt", encoding="utf-8") as file:
        for sentences in contexts.from_patterns(words, 3).values():
            file.write(json.dumps({"text": "\n".join(sentences)}) + "\n")
    posts = contexts.counter_sentences("gender", 60)["original"]
    for file in listed["reddit_top"]["files"]:
        pd.DataFrame({"title": posts, "selftext": ""}).to_csv(place(file["name"]), index=False)

    sets = {key: {"examples": [f"This is {word}." for word in words]} for key, words in {
        "targ1": ["John", "Paul"], "targ2": ["Amy", "Joan"], "attr1": ["office", "salary"],
        "attr2": ["home", "family"]}.items()}
    for file in listed["seat"]["files"]:
        place(file["name"]).write_text(json.dumps(sets))

    sources = re.sub(r"(?m)^(sha256|bytes) = .*\n", "", paths.SOURCES.read_text())
    (folder / "sources.toml").write_text(sources)
    return folder / "sources.toml"
