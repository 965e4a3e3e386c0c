"""Inputs made to break things. Allowed ends: a right number, or an error of ours that names the file and the reason."""
