"""Until every paper's claims.py is there: its claims out of data/paper/claims.csv. Goes together with that file."""

import csv
from importlib import import_module

from lib import paths
from lib.verdict import Claim, by_id

HOMES = {"bias_a_head": "bias_a_head", "projective_methods": "projective", "counteracts": "counteracts"}
READ_OFF = {"seat-order": "02", "gradient-sign": "02", "counter-example": "03", "counter-contrast": "03",
            "mask-top3-best": "04", "lower-s": "08", "lower-d": "08", "other-settings": "09"}


def claims_of(paper: str) -> dict[str, Claim]:
    try:
        return import_module(f"lib.{HOMES[paper]}.claims").CLAIMS
    except ModuleNotFoundError:
        lines = (paths.PAPER / "claims.csv").read_text(encoding="utf-8").splitlines()
        rows = [row for row in csv.DictReader(line for line in lines if not line.startswith("#"))
                if row["paper"] == paper]
        return by_id(Claim(row["id"], paper, row["where"], row["claim"], READ_OFF.get(row["id"], row["notebook"]),
                           row["figure"], "" if row["id"] in READ_OFF else row["row"], untestable=row["why"])
                     for row in rows)


CLAIMS = by_id(claim for paper in HOMES for claim in claims_of(paper).values())
