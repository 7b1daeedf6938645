"""A card for any model: the papers' measures on one page, with intervals, beside other models.

    ./reproduce.sh card bert-base         a name, a folder or a hub id: build/cards/bert-base.html
    ./reproduce.sh card ./before ./after  two models side by side, with paired differences
    python -c "from companion import card; print(card.in_markdown())"   all stored cards, a table

Beside the page lie the numbers for programs: .json follows Every Eval Ever's schema. A measure that
does not fit the model is listed with the reason. `--store` keeps a card's numbers in figures/cards;
what is stored there stands beside a new card, while the weights that it was made from are still the
same.
"""

import hashlib
import json
import os
import shlex
import warnings
from pathlib import Path

from companion.card import every_eval, page as card_page, rows as card_rows
from companion.card.every_eval import Stored
from companion.card.measures import Card, measure, scored_heads
from companion.card.rows import Row
from companion.run import tag
from lib import CompanionError, paths
from lib.engine import folders, models
from lib.engine.files import check_writable, replace, slug

STORED = paths.FIGURES / "cards"
TOP = 10  # heads that are printed
# What the table of stored cards shows: what encoders and decoders have alike.
SHOWN = (
    "occupations.rank.was-tired",
    "seat.word",
    "seat.race",
    "heads.above-0",
    "heads.top-tenth",
    "cloze.base",
    "cloze.counter",
)


# ---- making a card
def write(name: str, device: str | None = None, store: bool = False) -> Path:
    """Measure a model, write its page and its numbers; the page's path.

    store   whether to keep the json in figures/cards, to stand beside other cards
    """
    card = _measured([name], device)[0]
    title, command = title_of(card.model), _command(card.model)
    page = _file(card.model, "html")
    files = {_file(card.model, "json"): _json(every_eval.written(card, command))}
    if store:
        files[STORED / f"{tag(card.model)}.json"] = files[_file(card.model, "json")]
    files[page] = card_page.one(card, title, beside(), command).encode()
    return _write(files, page)


def write_two(names: list[str], device: str | None = None) -> Path:
    """Measure two models on the same items and write them side by side; the page's path."""
    cards = _measured(names, device)
    command = _command(*(card.model for card in cards))
    files = {}
    for card in cards:
        files[_file(card.model, "json")] = _json(every_eval.written(card, command))
    both = "-and-".join(file_of(card.model) for card in cards)
    page = paths.BUILD / "cards" / f"{both}.html"
    files[page.with_name(f"{both}.json")] = _json(differences(cards))
    titles = [title_of(card.model) for card in cards]
    files[page] = card_page.two(cards, titles, command).encode()
    return _write(files, page)


def write_heads(name: str, device: str | None = None) -> Path:
    """Score every head of a model, print the highest, and write all of them as csv: its path."""
    name = _checked([name])[0]
    result, intervals = scored_heads(models.load(name, device=device))
    print(f"{title_of(name)}: SEAT {result.seat:.2f} by the word's own tokens, on gender")
    print(f"The {TOP} heads of the highest score, d|SEAT| / d(mask), with 95 % intervals:")
    print(intervals.head(TOP).to_string(index=False, float_format="{:.4f}".format))
    table = _file(name, "heads.csv")
    return _write({table: intervals.to_csv(index=False).encode()}, table)


def _checked(names: list[str]) -> list[str]:
    """The names in one spelling. What would fail at the end is refused before minutes are spent."""
    check_writable(paths.BUILD / "cards")
    names = [canonical(name) for name in names]
    for name in names:
        folders.locate(name)
    if len(set(names)) < len(names):
        raise CompanionError(f"{names[0]} is named twice: name two models, or one of them alone.")
    return names


def _measured(names: list[str], device: str | None) -> list[Card]:
    """A card for each model, and which stored ones have the same weights."""
    cards = [measure(name, device) for name in _checked(names)]
    for card in cards:
        for other in beside():
            if other.model != card.model and other.weights == card.weights:
                card.identical.append(other.model)
    return cards


def differences(cards: list[Card]) -> list[dict]:
    """For each row of both cards the second's value less the first's, with its paired interval."""
    before, after = cards
    listed = []
    for row in before.rows:
        partner = after.row(row.id)
        gap = card_rows.difference(row, partner) if partner else None
        if gap:
            found = {"id": row.id, "label": row.kind.label}
            found |= {"before": before.model, "after": after.model, "difference": gap.value}
            if gap.has_interval:
                found |= {"low": gap.low, "high": gap.high}
            listed.append(found | {"says": card_rows.moved(row, partner)})
    return listed


def _write(files: dict[Path, bytes], page: Path) -> Path:
    """Write all files of a card, none of them before the content of all is there; the page."""
    for path, content in files.items():
        replace(path, content)
    return page


def _json(content) -> bytes:
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


# ---- stored cards
def beside() -> list[Stored]:
    """The stored cards, but those whose weights are no longer what their names stand for here.

    The bundled models first, then published ones, then the untrained controls.
    """
    kept = []
    for file in sorted(STORED.glob("*.json")):
        try:
            stored = every_eval.read(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            # no error: a card that took minutes is not lost for one beside it
            warnings.warn(f"{file} is damaged and left out: restore it with git.", stacklevel=2)
            continue
        if _revision(stored.model) in ("", stored.revision):
            kept.append(stored)
    order = [*card_page.BUNDLED, "", *card_page.CONTROLS]
    return sorted(kept, key=lambda one: order.index(one.model if one.model in order else ""))


def _revision(name: str) -> str:
    """Which weights a name stands for on this machine; "" where it names none that is here."""
    entry = folders.REGISTRY.get(name.partition("@")[0])
    if entry is None:
        return ""
    if isinstance(entry.source, str):  # of the hub, which is not asked
        return entry.revision
    try:
        return folders.locate(name)[1]
    except CompanionError:
        return ""


def in_markdown() -> str:
    """The rows SHOWN of all stored cards, a column a model, each with its interval or its p."""
    cards = beside()
    lines = [["", *(card.model for card in cards)], ["---"] * (1 + len(cards))]
    for id in SHOWN:
        kind = card_rows.KINDS[id]
        label = f"{kind.label}, {kind.unit}".replace("|", "\\|")
        lines.append([label, *(_cell(card.rows.get(id)) for card in cards)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(row: Row | None) -> str:
    if row is None:
        return "-"
    said = card_page.number(row.estimate)
    return said if row.estimate.has_interval else f"{said}, {row.remark}"


# ---- names
def canonical(name: str) -> str:
    """One spelling of a model, however its folder is written: its name, where it has one."""
    folder = os.path.expanduser(name)
    if name in folders.REGISTRY or not os.path.isdir(folder):  # as Path's, but for any text
        return name
    folder = Path(folder).resolve()
    for key, entry in folders.REGISTRY.items():
        if entry.source == folder and not entry.untrained:
            return key
    return str(folder)


def file_of(name: str) -> str:
    """The name of a model's card: of a folder its own name, and a hash of where it lies."""
    if not Path(name).is_absolute():
        return tag(name)
    return f"{slug(Path(name).name)}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def _file(name: str, ending: str) -> Path:
    return paths.BUILD / "cards" / f"{file_of(name)}.{ending}"


def title_of(name: str) -> str:
    """What a model is called on its page: a folder by its last part."""
    return Path(name).name if Path(name).is_absolute() else name


def _command(*names: str) -> str:
    """What makes the card again."""
    return shlex.join(["./reproduce.sh", "card", *names])
