"""What another run has saved under figures/, shown as it is stored, with the command that made it.

    other_run.show(run, "09_table6")        the table, or the picture, of the run on the papers' data, mini-real
"""

import json

from lib import paths


def show(run, name: str, other: str = "mini-real"):
    """A DataFrame or an image for the notebook to display. In that run itself there is nothing else to show."""
    if run.name == other:
        print(f"This is the run {other} itself: see above.")
        return None
    folder = paths.FIGURES / other
    file = next((folder / f"{name}{kind}" for kind in (".csv", ".png") if (folder / f"{name}{kind}").is_file()), None)
    if file is None:
        print(f"figures/{other} has no {name} yet: run ./reproduce.sh --only {name[:2]} --data paper.")
        return None
    made = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    print(f"As stored in figures/{other}, made by {made['command']} (models {', '.join(made['models'])}): "
          f"{made['caption']}")
    if file.suffix == ".png":
        from IPython.display import Image

        return Image(file)
    import pandas as pd

    return pd.read_csv(file, keep_default_na=False)
