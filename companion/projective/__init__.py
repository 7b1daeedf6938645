"""Projective Methods: 74 projections inside BERT, by Dawkins, Nejadgholi, Gillis and McCuaig."""
