"""Tables of notebooks 07 and 08: Projective methods' Tables 1 to 5 and 7 without inference, and what they depend on.

    frame = run.cached(triples.measure, "mini-bert", "mini")["file"]        notebook 07: one row per triple pair
    tables.examples(rows, frame, "mini", "Table 3"), tables.summary(frame)
    measured = run.cached(projection.measure, "mini-bert", "mini")          notebook 08: [fits, 76 models, triple pairs]
    tables.table7(measured), tables.table5(measured)                        of the first fit unless told another
"""

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from lib import printed
from lib.engine import nsp, stats
from lib.projective import projection
from lib.projective.projection import WRITTEN, Level
from lib.projective.triples import SIDES, printed_ids

PAPER = "projective_methods"
EXAMPLES = {"Table 1": (["stereo", "anti", "unrelated"], "", None), "Table 3": (["stereo", "anti"], "s", nsp.strengths),
            "Table 4": (["unrelated"], "d", nsp.distances)}  # whose probabilities, and what is made of them
SHARES = [.01, .02, .03, .05, .07, .1, .15, .2, .25, .3, .4, .5, .6, .7, .8, .9, 1.0]  # thresholds of the curve
MODELS = projection.models()
NAMES = [setting.name for setting in MODELS]
# of each model, named and ordered as in Table 7; np: weighting at SENT, 0 or 1, nan where nothing is projected there
ABOUT = pd.DataFrame({"level": [setting.level for setting in MODELS], "settings": list(map(str, MODELS)),
                      "np": [float(setting.sent.weighted) if setting.sent else np.nan for setting in MODELS]}, NAMES)


def keyed(compared: pd.DataFrame) -> dict[tuple[str, str, str], tuple[str, str]]:
    """A table of printed.compare as run.compared keeps it: {(table, row, column): (ours, match)}."""
    return {(row.table, row.row, row.column): (row.ours, row.verdict) for row in compared.itertuples()}


# ---- notebook 07: Tables 1, 3 and 4

def chosen(frame: pd.DataFrame, data: str = "mini") -> dict[str, dict[str, int]]:
    """Which triples stand in Tables 1, 3 and 4, by context_id: the authors' own, or for "mini" by what each shows.

    Table 1: a triple called right, of stereotype and anti-stereotype next to equally likely. Table 3: (a) counts for
    SS and has the s closest to 0, (b) the greatest s. Table 4: the two greatest d.
    """
    if data != "mini":
        return {table: dict(zip(places["row"], places["value"])) for table, places in printed_ids().groupby("table")}
    s = pd.Series(nsp.strengths(frame), frame.index)
    d = pd.Series(nsp.distances(frame), frame.index).sort_values(ascending=False)
    counted = frame["stereo"] > frame["anti"]
    right = counted & (frame["anti"] > .5) & (frame["unrelated"] < .5)
    return {"Table 1": {"triple": (frame["stereo"] - frame["anti"])[right].idxmin()},
            "Table 3": {"a": s[counted].abs().idxmin(), "b": s.idxmax()},
            "Table 4": {"a": d.index[0], "b": d.index[1]}}


def examples(triples: pd.DataFrame, frame: pd.DataFrame, data: str, table: str) -> pd.DataFrame:
    """Table 1, 3 or 4 of the paper with this model's probabilities: its own triples beside the printed numbers
    ("paper": lines of the file in place of sentences), or this project's with their sentences ("mini").
    """
    labels, measure, each = EXAMPLES[table]
    rows = []
    for letter, context_id in chosen(frame, data)[table].items():
        triple = triples[triples["context_id"] == context_id].assign(name=lambda t: t["label"].map(nsp.LABELS))
        triple, values = triple.set_index("name"), frame.loc[context_id]
        for side in [""] if table == "Table 1" else SIDES:
            for label in labels:
                context, following = (triple.loc[label, name] for name in SIDES[side])
                place = {"context_id": context_id, "line": triple.loc[label, "line"]}
                rows.append({"row": letter + ("_GS" if side else "")}
                            | ({"sentence A": context, "sentence B": following} if data == "mini" else place)
                            | {"label": _printed_label(label, side), "p(next)": values[side + label]})
        if measure:
            rows[-2 * len(labels)][measure] = float(each(frame.loc[[context_id]])[0])
    result = pd.DataFrame(rows).round(4 if measure else 5)  # as many digits as the paper prints
    result[measure or "p(next)"] += 0.0  # no -0.0
    if data != "mini":
        theirs = printed.numbers(PAPER).set_index(["table", "row", "column"])["value"]
        keys = [(table, row["label"], "p") if table == "Table 1" else (table, row["row"], row["label"]) for row in rows]
        result.insert(result.columns.get_loc("p(next)"), "paper's p", [theirs[key] for key in keys])
    return result.astype(object).fillna("")


def _example_numbers(frame: pd.DataFrame, data: str) -> dict[tuple, float]:
    """Ours for every number of Tables 1, 3 and 4, keyed as data/paper has them. Other triples than theirs: none."""
    ours = {}
    for table, places in chosen(frame, data).items() if data != "mini" else ():
        labels, measure, each = EXAMPLES[table]
        for letter, context_id in places.items():
            for side in SIDES if measure else [""]:
                for label in labels:
                    shown, row = _printed_label(label, side), letter + ("_GS" if side else "")
                    ours[(table, row, shown) if measure else (table, shown, "p")] = frame.loc[context_id, side + label]
            if measure:
                ours[table, letter, measure] = float(each(frame.loc[[context_id]])[0])
    return ours


def _printed_label(label: str, side: str) -> str:
    """As the paper prints it: on the swapped side Stereo and Anti have changed places."""
    names = {"stereo": "Stereo", "anti": "Anti", "unrelated": "Unr"}
    return names[{"stereo": "anti", "anti": "stereo"}.get(label, label) if side else label]


# ---- notebook 07: SS, Strength and Distance

def summary(frame: pd.DataFrame, share: float = .1) -> pd.DataFrame:
    """SS of either side, Strength and Distance with 95 % bootstrap intervals over triples.

    opposite: Strength of the other direction, the mean of the lowest s with its sign turned. The top of any list of
    numbers around zero is above zero: that the tail is stereotypical shows only in S being above its opposite.
    """
    n = round(len(frame) * share)
    rows = [("SS", "share of triples with the stereotype likelier"),
            ("SS, swapped side", "the same on the swapped side, with its labels"),
            ("S", f"Strength: mean of the {n} highest s"), ("S, opposite", f"minus the mean of the {n} lowest s"),
            ("mean s", "of all triple pairs"), ("D", f"Distance: mean of the {n} highest d"),
            ("mean d", "of all triple pairs"), ("accuracy", "sentences called right at .5")]
    values = estimates(frame, share)
    return pd.DataFrame([(name, what, *np.round(list(values[name]), 3)) for name, what in rows],
                        columns=["measure", "what", "value", "low", "high"])


def estimates(frame: pd.DataFrame, share: float = .1) -> dict[str, stats.Estimate]:
    """The numbers of `summary` by name."""
    s, d, other = nsp.strengths(frame), nsp.distances(frame), nsp.swapped(frame)
    right = np.mean([(frame[name] > .5) != name.endswith("unrelated") for name in nsp.COLUMNS], axis=0)

    def top(values):
        return nsp.top_mean(values, share)

    return {"SS": stats.bootstrap(np.mean, (frame["stereo"] > frame["anti"]).to_numpy(float)),
            "SS, swapped side": stats.bootstrap(np.mean, (other["stereo"] > other["anti"]).astype(float)),
            "S": stats.bootstrap(top, s), "S, opposite": stats.bootstrap(top, -s), "D": stats.bootstrap(top, d),
            "mean s": stats.bootstrap(np.mean, s), "mean d": stats.bootstrap(np.mean, d),
            "accuracy": stats.bootstrap(np.mean, right)}


def sign_test(frame: pd.DataFrame, share: float = .1, draws: int = 2_999, seed: int = 0) -> float:
    """p that S is as far above its opposite if each s could as well have the other sign: a permutation of signs."""
    s = nsp.strengths(frame)
    test = scipy_stats.permutation_test((s, -s), lambda x, y: nsp.top_mean(x, share) - nsp.top_mean(y, share),
                                        permutation_type="samples", alternative="greater", vectorized=False,
                                        n_resamples=draws, rng=np.random.default_rng(seed))
    return float(test.pvalue)


def threshold(frame: pd.DataFrame, shares: list[float] = SHARES, draws: int = 400) -> pd.DataFrame:
    """S, its opposite and D over the share of triple pairs that is averaged, one row each with a 95 % interval."""
    values = {"S": nsp.strengths(frame), "S, opposite": -nsp.strengths(frame), "D": nsp.distances(frame)}
    rows = [{"measure": name, "share": share} | dict(zip(("value", "low", "high"), stats.bootstrap(
                lambda sample, share=share: nsp.top_mean(sample, share), sample, draws=draws)))
            for name, sample in values.items() for share in shares]
    return pd.DataFrame(rows)


def threshold_table(curve: pd.DataFrame) -> pd.DataFrame:
    """The curve of `threshold` with one row per share: value [low, high] of each measure."""
    table = curve.assign(text=_with_intervals(curve)).pivot(index="share", columns="measure", values="text")
    return table[["S", "S, opposite", "D"]].rename_axis(columns=None).reset_index()


def side_by_side(ours: pd.DataFrame, other: pd.DataFrame | None, made_from: str, stored_from: str) -> pd.DataFrame:
    """This run's summary beside a stored one, where there is one: value [low, high] of each measure."""
    both = {made_from: ours} | ({} if other is None else {stored_from: other})
    return pd.DataFrame({"measure": ours["measure"]} | {name: _with_intervals(table) for name, table in both.items()})


def _with_intervals(table: pd.DataFrame) -> list[str]:
    return [f"{stats.Estimate(*map(float, row)):z.2f}" for row in table[["value", "low", "high"]].to_numpy()]


def choices(measured: dict[str, pd.DataFrame], triples: pd.DataFrame) -> pd.DataFrame:
    """SS, S and D under the choices that the paper leaves open and without the file's quirks, one row each."""
    plain, signed = measured["file"], nsp.strengths
    unrelated = triples[triples["label"] == "unrelated"].set_index("context_id").loc[plain.index]
    equal = unrelated["next_sentence"] == unrelated["gender_swapped_next_sentence"]
    up = np.ceil(len(plain) * .1)
    cases = [("as in the file", plain, .1, signed),
             (f"10 % rounded up: {up:.0f} pairs", plain, up / len(plain), signed),
             ("full stops added where one lacks", measured["stops"], .1, signed),
             ("only where the unrelated sentences are equal", plain[equal], .1, signed),
             ("only contexts of men", plain[plain["gender"] == "M"], .1, signed),
             ("only contexts of women", plain[plain["gender"] == "F"], .1, signed),
             ("|s| in place of the signed s", plain, .1, lambda frame: np.abs(signed(frame)))]
    return pd.DataFrame([(name, len(frame), nsp.stereotype_score(frame), nsp.top_mean(s(frame), share),
                          nsp.distance(frame, share)) for name, frame, share, s in cases],
                        columns=["choice", "pairs", "SS", "S", "D"]).round(3)


def compared_triples(frame: pd.DataFrame, data: str, same_model: bool) -> pd.DataFrame:
    """paper | ours | difference | verdict: base BERT's Strength and Distance, and Tables 1, 3 and 4."""
    values = estimates(frame)
    ours = {("Table 7", "Base", "S"): values["S"], ("Table 7", "Base", "D"): values["D"]}
    table = printed.compare(PAPER, ours | _example_numbers(frame, data), same_model, [*EXAMPLES, "Table 7"],
                            digits=3, why="the rounding of 10 %, or the text of the file",
                            missing="the authors' triples: --data paper")
    base = table["row"].eq("Base") & table["column"].isin(["S", "D"])
    return table[table["table"].ne("Table 7") | base].reset_index(drop=True)


# ---- notebook 08: the 76 models

def by_model(measured: dict, fit: str = WRITTEN, share: float = .1) -> pd.DataFrame:
    """One row per model, in Table 7's order, named as there: S, D, next-sentence accuracy, and the columns of ABOUT."""
    at = measured["fits"].index(fit)
    return ABOUT.assign(S=tops(measured["s"][at], share), D=tops(measured["d"][at], share),
                        accuracy=measured["accuracy"][at].mean(-1))


def tops(values: np.ndarray, share: float = .1) -> np.ndarray:
    """nsp.top_mean along the last dimension."""
    n = max(1, round(values.shape[-1] * share))
    return np.sort(values, axis=-1)[..., ::-1][..., :n].mean(-1)


def as_printed() -> pd.DataFrame:
    """Table 7 as printed, in the form of `by_model`, with the columns of inference too."""
    return printed.printed(PAPER, "Table 7").loc[NAMES].join(ABOUT)


def table7(measured: dict) -> pd.DataFrame:
    """Table 7's intrinsic columns, sorted as printed, with ours beside: S and D, and the accuracy of ours."""
    ours, theirs = by_model(measured), as_printed()
    table = pd.DataFrame({"S, paper": theirs["S"], "S": ours["S"].round(3), "D, paper": theirs["D"],
                          "D": ours["D"].round(3), "accuracy": ours["accuracy"].round(3)}, index=NAMES)
    return table.rename_axis("model")


def table5(measured: dict) -> pd.DataFrame:
    """Table 5's intrinsic columns: the best S and D of each level and their settings, of Table 7 and of ours."""
    rows = {level: {} for level in Level}
    for source, frame in ("paper", as_printed()), ("ours", by_model(measured)):
        for level, row in rows.items():
            for column in "SD":
                best = frame.loc[frame["level"] == level, column].idxmin()
                row |= {f"{column}, {source}": round(frame.loc[best, column], 3),
                        f"{column} settings, {source}": frame.loc[best, "settings"]}
    return pd.DataFrame(rows).T.rename_axis("level")


def intervals(measured: dict) -> pd.DataFrame:
    """By level the best S and D, and by how much they are below the base model's, with 95 % intervals over triples.

    The settings are those that are best on these triples: the interval does not count the luck of choosing them.
    """
    frame, rows = by_model(measured), []
    for level in list(Level)[1:]:
        for column, values in ("S", measured["s"][0]), ("D", measured["d"][0]):
            best = NAMES.index(frame.loc[frame["level"] == level, column].idxmin())
            gap = stats.bootstrap(lambda plain, cut: nsp.top_mean(plain) - nsp.top_mean(cut), values[0], values[best],
                                  draws=1_000)
            rows.append((level, column, str(MODELS[best]), frame[column].iloc[best], *gap))
    table = pd.DataFrame(rows, columns=["level", "measure", "settings", "best", "below base", "low", "high"])
    return table.round(3).replace(-0.0, 0.0)


def sensitivity(measured: dict, holding: dict[str, int]) -> pd.DataFrame:
    """What each choice does: the best of the 74, Spearman's rho over the 74 with the first fit, and how many of the
    paper's claims hold (`holding`: by fit, see claims.holding)."""
    rows = {}
    first = by_model(measured).iloc[2:]
    for fit in measured["fits"]:
        frame = by_model(measured, fit).iloc[2:]
        rows[fit] = {"best S": frame["S"].min(), "S with": frame["S"].idxmin(), "best D": frame["D"].min(),
                     "D with": frame["D"].idxmin(), "rho of S": stats.rank_correlation(frame["S"], first["S"]),
                     "rho of D": stats.rank_correlation(frame["D"], first["D"]), "claims that hold": holding[fit]}
    table = pd.DataFrame(rows).T.infer_objects()
    numbers = ["best S", "best D", "rho of S", "rho of D"]
    return table.assign(**{name: table[name].astype(float).round(2) for name in numbers})


def compared_models(measured: dict, same_model: bool) -> pd.DataFrame:
    """paper | ours | difference | verdict: the intrinsic columns of Tables 5 and 7."""
    frame = by_model(measured)
    ours = {("Table 7", name, column): frame.loc[name, column] for name in NAMES for column in "SD"}
    for level, row in zip(Level, printed.printed(PAPER, "Table 5").index):  # which writes sent-debias small
        ours |= {("Table 5", row, column): frame.loc[frame["level"] == level, column].min() for column in "SD"}
    return printed.compare(PAPER, ours, same_model, digits=3,
                           why="sentence pairs, centring or refitting, which the paper does not give")
