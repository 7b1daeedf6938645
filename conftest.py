"""nbval compares what notebooks print and tabulate, not their progress bars, warnings and pictures."""


def pytest_collectstart(collector):
    if hasattr(collector, "skip_compare"):  # a notebook
        collector.skip_compare += ("stderr", "image/svg+xml")
