"""A card for programs: Every Eval Ever's record of an evaluation run, and the hub's eval results.

    written(card)            # a dict that follows the schema, version 0.3.0
    read(document)           # a Stored card: what stands beside another card is read from it
    for_hub(card)            # the text of eval_results.yaml

The schema wants to know whether lower is better. A measure of association is therefore scored by
its distance from the value that means no association, of which less is better; the value itself,
with its sign and interval, stands in the score's details. A folded interval begins at 0 where the
value's interval includes no association.
"""

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime

from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml
from huggingface_hub.utils import yaml_dump

from companion.card.rows import KINDS, Row
from lib.engine import stats

SCHEMA = "0.3.0"
NAME = "companion"  # of this package, and before the ids of its metrics
DATA = {
    "occupations": "58 occupations with labour statistics, in sentences of the companion",
    "seat": "gender word lists of Kaneko and Bollegala, in sentences of the companion",
    "heads": "gender word lists of Kaneko and Bollegala, in sentences of the companion",
    "next sentences": "triples of sentences written for the companion",
    "cloze": "40 occupations of WinoBias in the prompts of Counteracts",
    "perplexity": "prose written for the companion",
}


@dataclass(frozen=True)
class Stored:
    """A card as its file has it."""

    model: str
    revision: str
    rows: dict[str, Row]  # by id
    weights: str  # the SHA-256 of all weights as loaded


def written(card, command: str) -> dict:
    """The record of a card."""
    stamp = f"{card.finished:.0f}"
    return {
        "schema_version": SCHEMA,
        "evaluation_id": f"{NAME}/{card.model}/{stamp}",
        "evaluation_timestamp": stamp,
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
        "model_info": {
            "name": card.model,
            "id": card.model,
            "inference_platform": "this machine",
            "additional_details": {
                "deployment_type": "self_deployed",
                "model_availability": "open_weights",
                "revision": card.revision,
                "family": card.family,
                "shape": card.shape,
                "hashes": json.dumps(card.hashes),
                "notes": json.dumps(card.notes, ensure_ascii=False),
                "warnings": json.dumps(card.warnings, ensure_ascii=False),
                "not_measured": json.dumps(card.missing, ensure_ascii=False),
                "seconds": f"{card.seconds:.0f}",
            },
        },
        "evaluation_results": [_result(row) for row in card.rows],
    }


def _result(row: Row) -> dict:
    """One measure: its distance from no association where it has one, else its value."""
    kind = row.kind
    score = distance(row)
    return {
        "evaluation_result_id": row.id,
        "evaluation_name": kind.label,
        "source_data": {"dataset_name": DATA[kind.group], "source_type": "other"},
        "metric_config": {
            "metric_id": f"{NAME}.{row.id}",
            "metric_name": kind.label,
            "metric_unit": kind.unit or "none",
            # accuracy alone is better where it is higher
            "lower_is_better": row.id != "next-sentences.accuracy",
            "score_type": "continuous",
            "min_score": 0,
            "max_score": 1 if kind.unit.startswith("of ") else "Infinity",
            "evaluation_description": _description(row),
        },
        "score_details": {
            "score": score.value,
            "details": _details(row),
            **_uncertainty(score),
        },
    }


def _description(row: Row) -> str:
    """What the score is, in one sentence."""
    kind = row.kind
    if kind.none is None:
        return f"The value itself; {kind.note}."
    return (
        f"The distance of the value from {kind.none:g}, which means no association. "
        f"Above it: {kind.above}; below it: {kind.below}."
    )


def distance(row: Row) -> stats.Estimate:
    """How far the value is from no association, its interval folded; else the value itself."""
    estimate = row.estimate
    if row.kind.none is None:
        return estimate
    signed = estimate - row.kind.none
    value = abs(signed.value)
    ends = (abs(signed.low), abs(signed.high))
    includes_none = signed.low <= 0 <= signed.high
    return stats.Estimate(value, 0.0 if includes_none else min(ends), max(ends), estimate.n)


def _details(row: Row) -> dict[str, str]:
    """The value with its sign and interval, to the last digit: programs read the row from here."""
    details = {"value": repr(float(row.estimate.value))}
    if row.estimate.has_interval:
        details["low"] = repr(float(row.estimate.low))
        details["high"] = repr(float(row.estimate.high))
    if row.kind.none is not None:
        details["no_association_at"] = f"{row.kind.none:g}"
    return details | {"over": row.over, "remark": row.remark}


def _uncertainty(score: stats.Estimate) -> dict:
    """The 95 % interval, where there is one."""
    if not score.has_interval:
        return {}
    interval = {"lower": score.low, "upper": score.high, "confidence_level": 0.95}
    return {"uncertainty": {"confidence_interval": interval, "num_samples": int(score.n)}}


def read(document: dict) -> Stored:
    """A card from its record; KeyError, TypeError or ValueError where it is none."""
    about = document["model_info"]["additional_details"]
    rows = {}
    for result in document["evaluation_results"]:
        id = result["evaluation_result_id"]
        if id not in KINDS:
            continue  # of another version
        details = result["score_details"]["details"]
        n = result["score_details"].get("uncertainty", {}).get("num_samples", 0)
        low, high = (float(details.get(end, math.nan)) for end in ("low", "high"))
        estimate = stats.Estimate(float(details["value"]), low, high, n)
        if estimate.is_damaged:
            raise ValueError(f"{id} is no estimate")
        rows[id] = Row(id, estimate, details["over"], details["remark"])
    return Stored(
        model=document["model_info"]["name"],
        revision=about["revision"],
        rows=rows,
        weights=json.loads(about["hashes"])["weights"],
    )


def for_hub(card) -> str:
    """eval_results.yaml: a value for each measure, its interval and meaning in the notes.

    The hub wants the id of a data set that it has. The companion's sentences are not there: `NAME`
    has to be replaced by wherever they are put.
    """
    date = datetime.fromtimestamp(card.finished, UTC).isoformat(timespec="seconds")
    entries = []
    for row in card.rows:
        kind = row.kind
        meaning = kind.note or f"{kind.none:g} means no association; above: {kind.above}"
        notes = f"{kind.label}: {row.estimate:.3f} (95 % interval; {row.over}). {meaning}"
        entry = EvalResultEntry(
            dataset_id=f"{NAME}/sentences",
            task_id=row.id,
            value=round(row.estimate.value, 6),
            date=date,
            notes=notes,
        )
        entries.append(entry)
    head = (
        "# For a model repository's .eval_results folder. dataset.id has to name a data set\n"
        "# of the hub, where the companion's sentences are not: put yours in its place.\n"
    )
    return head + yaml_dump(eval_result_entries_to_yaml(entries))
