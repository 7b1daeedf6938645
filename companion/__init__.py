"""What turns arrays into tables, outcomes and pages, and what ./reproduce.sh calls.

command line   __main__ reproduce notebooks estimate measure pins
runs           run results formats stale compare profiles/
outcomes       claims ledger printed papers
papers         bias_a_head/ projective/ counteracts/: estimators, tables, figures, a folder each
               remedies winogender: of no one paper
pages          report/ card/ published totry trypage try/ look
"""

from importlib import import_module

QUICK = "00,02,11"  # notebooks for the impatient: one head by hand, head scores, cloze prompts


def __getattr__(name):
    """Import `Run` when it is first used, so that `import companion` stays light."""
    if name != "Run":
        raise AttributeError(f"companion has no {name}")
    return import_module("companion.run").Run
