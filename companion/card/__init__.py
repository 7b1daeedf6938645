"""A card for any model: the papers' measures on one page, with intervals, beside other models.

    ./reproduce.sh card bert-base         a name, a folder or a hub id: build/cards/bert-base.html
    ./reproduce.sh card ./before ./after  two models side by side, with paired differences

Beside the page lie the numbers for programs: .json follows Every Eval Ever's schema, and
.eval_results.yaml is for a model card on the hub. A measure that does not fit the model is listed
with the reason. `--store` keeps a card's numbers in figures/cards; what is stored there stands
beside a new card, while the weights that it was made from are still the same.
"""

import hashlib
import json
import shlex
import warnings
from pathlib import Path

from companion.card import every_eval, page as card_page, rows as card_rows
from companion.card.every_eval import Stored
from companion.card.measures import Card, measure, scored_heads
from companion.run import tag
from lib import CompanionError, paths
from lib.engine import folders, models
from lib.engine.files import check_writable, replace, slug

STORED = paths.FIGURES / "cards"
TOP = 10  # heads that are printed


# ---- making a card
def write(name: str, device: str | None = None, store: bool = False) -> Path:
    """Measure a model, write its page and its numbers; the page's path.

    store   whether to keep the json in figures/cards, to stand beside other cards
    """
    check_writable(paths.BUILD / "cards")
    name = canonical(name)
    card = measure(name, device)
    others = beside()
    card.identical = _identical(card, others)
    command = _command(name)
    files = _numbers(file_of(name), card, command)
    if store:
        files[STORED / f"{tag(name)}.json"] = _json(every_eval.written(card, command))
    page = paths.BUILD / "cards" / f"{file_of(name)}.html"
    files[page] = card_page.one(card, title_of(name), others, command).encode()
    _write(files)
    return page


def write_two(names: list[str], device: str | None = None) -> Path:
    """Measure two models on the same items and write them side by side; the page's path."""
    check_writable(paths.BUILD / "cards")
    names = [canonical(name) for name in names]
    if names[0] == names[1]:
        raise CompanionError(f"{names[0]} is named twice: name two models, or one of them alone.")
    for name in names:
        folders.locate(name)  # before minutes are spent on the first
    cards = [measure(name, device) for name in names]
    for card in cards:
        card.identical = _identical(card, beside())
    command = _command(*names)
    files = {}
    for name, card in zip(names, cards):
        files |= _numbers(file_of(name), card, command)
    both = "-and-".join(file_of(name) for name in names)
    files[paths.BUILD / "cards" / f"{both}.json"] = _json(differences(cards))
    page = paths.BUILD / "cards" / f"{both}.html"
    titles = [title_of(name) for name in names]
    files[page] = card_page.two(cards, titles, command).encode()
    _write(files)
    return page


def write_heads(name: str, device: str | None = None) -> Path:
    """Score every head of a model, print the highest, and write all of them as csv: its path."""
    check_writable(paths.BUILD / "cards")
    name = canonical(name)
    model = models.load(name, device=device)
    result, intervals = scored_heads(model)
    print(f"{title_of(name)}: SEAT {result.seat:.2f} by the word's own tokens, on gender")
    print(f"The {TOP} heads of the highest score, d|SEAT| / d(mask), with 95 % intervals:")
    print(intervals.head(TOP).to_string(index=False, float_format="{:.4f}".format))
    table = paths.BUILD / "cards" / f"{file_of(name)}.heads.csv"
    replace(table, intervals.to_csv(index=False).encode())
    return table


def _numbers(file: str, card: Card, command: str) -> dict[Path, bytes]:
    """The two files for programs: their content by their paths, which begin with `file`."""
    folder = paths.BUILD / "cards"
    return {
        folder / f"{file}.json": _json(every_eval.written(card, command)),
        folder / f"{file}.eval_results.yaml": every_eval.for_hub(card).encode(),
    }


def _write(files: dict[Path, bytes]):
    """Write all files of a card: none of them exists before the content of all does."""
    for path, content in files.items():
        replace(path, content)


def differences(cards: list[Card]) -> list[dict]:
    """For each row of both cards the second's value less the first's, with its paired interval."""
    before, after = cards
    listed = []
    for row in before.rows:
        partner = after.row(row.id)
        gap = card_rows.difference(row, partner) if partner else None
        if gap:
            listed.append(
                {
                    "id": row.id,
                    "label": row.kind.label,
                    "before": before.model,
                    "after": after.model,
                    "difference": gap.value,
                    "low": gap.low,
                    "high": gap.high,
                    "says": card_rows.moved(row, partner),
                }
            )
    return listed


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
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            # no error: a card that took minutes is not lost for one beside it
            warnings.warn(f"{file} is damaged and left out: restore it with git.", stacklevel=2)
            continue
        if _revision(stored.model) in ("", stored.revision):
            kept.append(stored)
    order = [*card_page.BUNDLED, "", *card_page.CONTROLS]

    def place(stored: Stored) -> int:
        return order.index(stored.model if stored.model in order else "")

    return sorted(kept, key=place)


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


def _identical(card: Card, others: list[Stored]) -> list[str]:
    """The other stored models whose weights are the same to the last bit."""
    same = []
    for other in others:
        if other.model != card.model and other.weights == card.hashes["weights"]:
            same.append(other.model)
    return same


# ---- names
def canonical(name: str) -> str:
    """One spelling of a model, however its folder is written: its name, where it has one."""
    if name in folders.REGISTRY or not Path(name).expanduser().is_dir():
        return name
    folder = Path(name).expanduser().resolve()
    for key, entry in folders.REGISTRY.items():
        if entry.source == folder and not entry.untrained:
            return key
    return str(folder)


def file_of(name: str) -> str:
    """The name of a model's card: of a folder its own name, and a hash of where it lies."""
    if not Path(name).is_absolute():
        return tag(name)
    return f"{slug(Path(name).name)}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def title_of(name: str) -> str:
    """What a model is called on its page: a folder by its last part."""
    return Path(name).name if Path(name).is_absolute() else name


def _command(*names: str) -> str:
    """What makes the card again."""
    return shlex.join(["./reproduce.sh", "card", *names])
