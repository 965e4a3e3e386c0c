"""Pages of the documentation whose tables a script writes, between marks: <!-- name --> and <!-- end name -->."""

import numpy as np


def table(head, lines):
    rows = [[cell.replace("|", r"\|") for cell in row] for row in (head, ["---"] * len(head), *lines)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def filled(text, blocks):
    """The text with each block put between its marks; everything else stays as it was written."""
    for name, block in blocks.items():
        before, start, rest = text.partition(f"<!-- {name} -->\n")
        _, stop, after = rest.partition(f"<!-- end {name} -->")
        if not stop:
            raise ValueError(f"the page has no place for {name!r}: expected the marks around it")
        text = f"{before}{start}{block}\n{stop}{after}"
    return text


def mean(values):
    """Mean and its standard error over replications, NaN values left out; (NaN, NaN) of nothing."""
    values = np.asarray(values, float)
    values = values[~np.isnan(values)]
    if not len(values):
        return np.nan, np.nan
    return values.mean(), values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
