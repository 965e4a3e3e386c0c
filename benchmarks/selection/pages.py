"""Pages of the documentation whose tables a script writes, between marks: <!-- name --> and <!-- end name -->."""


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
