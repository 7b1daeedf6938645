"""Profiles: which models a run takes, on which data sets, and how much of everything it measures.

A profile is a file of this folder that says what differs from mini.toml. Three kinds of names stand
for no file of their own:

    paper-limit8        the profile paper on few items, for a try: sizes.items is 8, and all other
                        sizes are cut to match
    null, null@3        mini with untrained networks; null@3 is another draw of their weights
    balanced            mini with a BERT whose training text has no stereotype of gender
"""

import re
from dataclasses import dataclass

from lib import CompanionError, paths
from lib.engine.files import read_toml

UNTRAINED, SWAPPED = "null", "balanced"
# Profiles of models that cannot have an effect, as readers see them; all but the first trained.
CONTROLS = {UNTRAINED: "untrained networks", SWAPPED: "the gender-swapped model"}
LIMITED = re.compile(r"(?P<profile>.+)-limit(?P<items>\d+)")
CONTROL = re.compile(rf"(?:{'|'.join(CONTROLS)})(?:(?<=^{UNTRAINED})@(?P<draw>\d{{1,9}}))?")

# How a limit cuts sizes: those that multiply others to a quarter of it, those that count no items
# not at all.
MULTIPLIERS = ("contexts", "folds", "draws", "backgrounds")  # how their names end
NOT_ITEMS = frozenset(
    {
        "items",
        "ablation_every",
        "masking_curve",
        "masking_amplify",
        "lpbs_step",
        "glue_small",
        "glue_large",
    }
)


@dataclass(frozen=True)
class Profile:
    """What a run's profile says."""

    name: str  # without a limit
    data: list[str]  # the data sets that it runs on, its own first
    stand_ins: bool  # whether the BBC's articles may stand in for News-commentary
    models: dict  # by role: encoder, decoder, classifier, cloze, debiased, llama
    sizes: dict  # by name; `items` is the limit of a try, 0 of a full run
    draw: str = ""  # which draw of untrained networks, where it is not the first


def names() -> list[str]:
    """The profiles that are files."""
    return sorted(file.stem for file in paths.PROFILES.glob("*.toml"))


def read(name: str) -> Profile:
    """The profile of a name.

    "paper-limit8" is paper with its sizes cut to 8 items: its name is paper, sizes["items"] is 8.
    """
    if not isinstance(name, str):
        raise CompanionError(f"{name!r} is no profile: choose one of {', '.join(names())}.")
    items = 0
    limited = LIMITED.fullmatch(name)
    if limited and name not in names():
        name = limited["profile"]
        items = int(limited["items"])
        if items < 2:
            raise CompanionError(
                f"Nothing can be measured on {items} items: give --limit 2 or more."
            )
    control = CONTROL.fullmatch(name)
    if name in names():
        content = _content(name)
        draw = ""
    elif control:
        content = _content("mini")
        content["models"] |= _control_models(name)
        draw = control["draw"] or ""
    else:
        choices = [*names(), *CONTROLS, f"{UNTRAINED}@1"]
        raise CompanionError(
            f"There is no profile {name}: choose one of {', '.join(choices)}, or add "
            f"companion/profiles/{name}.toml."
        )
    sizes = _limited(content["sizes"], items) if items else content["sizes"]
    return Profile(
        name=name,
        data=content["data"],
        stand_ins=content["stand_ins"],
        models=content["models"],
        sizes=sizes,
        draw=draw,
    )


def _content(name: str) -> dict:
    """The content of a profile's file: mini.toml's, but for what the file says itself."""
    content = read_toml(paths.PROFILES / "mini.toml")
    for key, value in read_toml(paths.PROFILES / f"{name}.toml").items():
        own = value if isinstance(value, dict) else {}
        known = content.get(key, {})
        unknown = [f"{key}.{inner}" for inner in own if inner not in known]
        if key not in content or unknown:
            raise CompanionError(
                f"companion/profiles/{name}.toml has the unknown key {(unknown or [key])[0]}: "
                "remove it, or add it to mini.toml."
            )
        content[key] = known | own if own else value
    return content


def _control_models(profile: str) -> dict:
    """The models of a control run: untrained ones of one draw, or a trained BERT among such."""
    kind, at, draw = profile.partition("@")
    encoder = f"null{at}{draw}"
    decoder = f"null-gpt2{at}{draw}"
    if kind != UNTRAINED:
        return {
            "encoder": kind,
            "decoder": decoder,
            "classifier": f"{kind}-nli",
            "cloze": [kind],
            "debiased": [],
            "llama": [],
        }
    # in notebook 06 another draw stands for a debiased or a chat model
    other = f"@{100 + int(draw or 0)}"
    return {
        "encoder": encoder,
        "decoder": decoder,
        "classifier": f"null-nli{at}{draw}",
        "cloze": [encoder, f"null-roberta{at}{draw}", f"null-albert{at}{draw}", decoder],
        "debiased": [f"null{other}"],
        "llama": [decoder, f"null-gpt2{other}"],
    }


def _limited(sizes: dict, items: int) -> dict:
    """Sizes cut for a try on so many items."""
    cut = {"items": items}
    for size, value in sizes.items():
        if size == "items":
            continue
        if size in NOT_ITEMS:
            cut[size] = value
        else:
            most = max(2, items // 4) if size.endswith(MULTIPLIERS) else items
            cut[size] = _at_most(value, most)
    return cut


def _at_most(value, most: int):
    """A size, or a size by data set, cut to `most`; 0, which means all, becomes `most`."""
    if isinstance(value, dict):
        return {data: _at_most(size, most) for data, size in value.items()}
    if isinstance(value, int):
        return min(value, most) or most
    return value
