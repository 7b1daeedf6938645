"""A try: every measurement on a few items, to see that all of it runs before it runs for hours.

    ./reproduce.sh --profile paper --limit 8        sets COMPANION_LIMIT, which this module reads

Whatever makes items (sentences, pairs, examples) asks here how many it may make; what multiplies them (words of a set,
contexts a word, occupations, draws) is cut to a quarter of that. Numbers of a try mean nothing: its run is called
paper-limit8, writes below build/ and shares no stored result with a full one.
"""

import os

from lib import CompanionError

# Sizes of a profile that count no items: steps, lists of sizes and of factors, and how to fine-tune.
MULTIPLY = ("contexts", "folds", "draws", "backgrounds")  # how sizes end that come on top of others
NOT_ITEMS = {"ablation_every", "masking_curve", "masking_amplify", "lpbs_step", "glue_small", "glue_large"}


def items() -> int:
    """How many items a measurement may have; 0: all."""
    given = os.environ.get("COMPANION_LIMIT") or "0"
    if not given.isdigit() or given == "1":
        raise CompanionError(f"Nothing can be measured on '{given}' items: give --limit 2 or more, or unset "
                             "COMPANION_LIMIT.")
    return int(given)


def suffix() -> str:
    """What is added to the names of runs and folders: "-limit8", or nothing."""
    return f"-limit{items()}" if items() else ""


def few() -> int:
    """A quarter of the items, and at least two; 0: all."""
    return max(2, items() // 4) if items() else 0


def first(made, always=(), n=None):
    """The first n (left out: `items()`) of a list or a table, those at the places `always` among them."""
    n = items() if n is None else n
    if not items() or len(made) <= n:
        return made
    chosen = sorted([*always, *(i for i in range(len(made)) if i not in set(always))][:max(n, len(always))])
    return made.iloc[chosen] if hasattr(made, "iloc") else [made[i] for i in chosen]


def sizes(given: dict) -> dict:
    """A profile's sizes with every number of items at most that; 0, which says all, becomes it."""
    def at_most(value, n):
        if isinstance(value, dict):
            return {data: at_most(part, n) for data, part in value.items()}
        return min(value, n) or n if isinstance(value, int) else value

    return {name: value if name in NOT_ITEMS else at_most(value, few() if name.endswith(MULTIPLY) else items())
            for name, value in given.items()} if items() else given
