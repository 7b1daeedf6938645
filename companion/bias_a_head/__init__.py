"""Bias A-head? Which attention heads carry a stereotype: Yang, Duan, Abbasi, Lalor and Tam."""
