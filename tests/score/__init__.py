"""Scores through the public API: laws, oracles, and facts of the libraries."""
