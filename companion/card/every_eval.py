"""A card for programs: Every Eval Ever's record of an evaluation run (its schema 0.3.0).

    written(card, command)   # a dict that follows the schema
    read(document)           # a Stored card: what stands beside another card is read from it

The schema wants to know whether lower is better. A measure of association is therefore scored by
its distance from the value that means no association, of which less is better; the value itself,
with its sign and interval, stands in the score's details. A folded interval begins at 0 where the
value's interval includes no association.
"""

import json
import math
from dataclasses import dataclass

from companion.card.rows import KINDS, Row
from lib.engine import stats

SCHEMA = "0.3.0"
NAME = "companion"  # of this package, and before the ids of its metrics


@dataclass(frozen=True)
class Stored:
    """A card as its file has it."""

    model: str
    revision: str
    rows: dict[str, Row]  # by id
    weights: str  # the SHA-256 of all weights as loaded


def written(card, command: str) -> dict:
    """The record of a card. What the schema calls additional is text alone."""
    stamp = f"{card.finished:.0f}"
    about = {"deployment_type": "self_deployed", "model_availability": "open_weights"}
    for name in ("revision", "family", "shape", "weights"):
        about[name] = getattr(card, name)
    for name in ("notes", "warnings", "missing"):
        about[name] = json.dumps(getattr(card, name), ensure_ascii=False)
    return {
        "schema_version": SCHEMA,
        "evaluation_id": f"{NAME}/{card.model}/{stamp}",
        "retrieved_timestamp": stamp,
        "source_metadata": {
            "source_name": "A card of the companion to three papers on bias in language models",
            "source_type": "evaluation_run",
            "source_organization_name": "whoever ran the command",
            "evaluator_relationship": "other",
        },
        "eval_library": {
            "name": NAME,
            "version": card.versions.get(NAME, "unknown"),
            "additional_details": card.versions | {"command": command},
        },
        "model_info": {"name": card.model, "id": card.model, "additional_details": about},
        "evaluation_results": [_result(row) for row in card.rows],
    }


def _result(row: Row) -> dict:
    """One measure: its distance from no association where it has one, else its value."""
    kind = row.kind
    score = distance(row)
    interval = {"lower": score.low, "upper": score.high, "confidence_level": 0.95}
    uncertainty = {"confidence_interval": interval, "num_samples": int(score.n)}
    # the value with its sign and interval, to the last digit: `read` takes the row from here
    details = {"value": repr(float(row.estimate.value)), "over": row.over, "remark": row.remark}
    if score.has_interval:
        details |= {name: repr(float(getattr(row.estimate, name))) for name in ("low", "high")}
    return {
        "evaluation_result_id": row.id,
        "evaluation_name": kind.label,
        "source_data": {"dataset_name": f"the companion's: {kind.group}", "source_type": "other"},
        "metric_config": {
            "metric_id": f"{NAME}.{row.id}",
            "metric_unit": kind.unit or "none",
            # accuracy alone is better where it is higher
            "lower_is_better": row.id != "next-sentences.accuracy",
            "score_type": "continuous",
            "min_score": 0,
            "max_score": 1 if kind.unit.startswith("of ") else "Infinity",
            "evaluation_description": kind.note or f"Above {kind.none:g}: {kind.above}.",
        },
        "score_details": {"score": score.value, "details": details}
        | ({"uncertainty": uncertainty} if score.has_interval else {}),
    }


def distance(row: Row) -> stats.Estimate:
    """How far the value is from no association, its interval folded; else the value itself."""
    if row.kind.none is None:
        return row.estimate
    signed = row.estimate - row.kind.none
    ends = sorted((abs(signed.low), abs(signed.high)))
    low = 0.0 if signed.low <= 0 <= signed.high else ends[0]
    return stats.Estimate(abs(signed.value), low, ends[1], signed.n)


def read(document: dict) -> Stored:
    """A card from its record; KeyError, TypeError or ValueError where it is none."""
    rows = {}
    for result in document["evaluation_results"]:
        id = result["evaluation_result_id"]
        if id not in KINDS:
            continue  # of another version
        details = result["score_details"]["details"]
        n = result["score_details"].get("uncertainty", {}).get("num_samples", 0)
        low, high = (float(details.get(end, math.nan)) for end in ("low", "high"))
        estimate = stats.Estimate(float(details["value"]), low, high, n)
        rows[id] = Row(id, estimate, details["over"], details["remark"])
        if estimate.is_damaged or not rows[id].is_number:
            raise ValueError(f"{id} is no estimate")
        if not math.isclose(distance(rows[id]).value, result["score_details"]["score"]):
            raise ValueError(f"{id} has not the score of its value")
    about = document["model_info"]["additional_details"]
    return Stored(document["model_info"]["name"], about["revision"], rows, about["weights"])
