"""Counteracts: whether counterexamples in the prompt move a model: Zhang."""
