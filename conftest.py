"""nbval compares what notebooks print and tabulate: words have to be equal, numbers to agree.

What the same number is, lib/engine/tolerance.py says. Progress bars, warnings and pictures are not
compared.
"""

from lib.engine import tolerance

SHOWN = 10  # differences of a cell that are listed


def pytest_collectstart(collector):
    if hasattr(collector, "skip_compare"):  # a notebook
        collector.skip_compare += ("stderr", "image/svg+xml")


def pytest_collection_modifyitems(items):
    for item in items:
        if hasattr(item, "compare_outputs"):  # a cell: nbval compares what its `sanitize` returns
            item.sanitize = lambda output: (
                tolerance.Text(output) if isinstance(output, str) else output
            )


def pytest_assertrepr_compare(left, right):
    """What nbval prints of a cell that says something else: what departs, not two pages of HTML."""
    if isinstance(left, tolerance.Text):
        found = tolerance.differences(left, right)
        listed = [str(difference)[:300] for difference in found[:SHOWN]]
        return [f"{len(found)} differences from what is stored", *listed]
    return None
