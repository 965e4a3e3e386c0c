"""How results look.

    table       an Importance or a Comparison as text, and as HTML for notebooks
    html        small HTML tables with bars
    plots/      matplotlib: from bar to over_time
    page/       report(): one self-contained HTML file about a model or a selector
    cli/        the command line `treeinner`

Belongs here: words, colours, files for people. Does not: numbers that are not in a result.
"""
