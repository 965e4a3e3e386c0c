"""Cross-fitting and selection: laws and outside facts."""
