"""Time several ways of doing one thing, side by side in one process."""

import time
from statistics import median

import torch


def seconds(function) -> tuple[float, object]:
    """How long the function took, and what it returned.

    On one thread it is processor time, which other work on the machine does not disturb; on several
    threads it is the clock's.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    result = function()
    return clock() - start, result


def in_turns(ways: dict, rounds: int) -> tuple[dict[str, list[float]], dict]:
    """Seconds of each way in every round, and what it returned last.

    The ways take turns, so that what disturbs the machine disturbs all of them.
    """
    took = {way: [] for way in ways}
    results = {}
    for _ in range(rounds):
        for way, function in ways.items():
            taken, results[way] = seconds(function)
            took[way].append(taken)
    return took, results


def ratio(theirs: list[float], ours: list[float]) -> str:
    """How many times as long theirs takes: the median over the rounds, the lowest and highest."""
    ratios = [their / our for their, our in zip(theirs, ours)]
    return f"{median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f})"
