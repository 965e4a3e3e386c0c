"""report(): what a model learned, as one self-contained HTML file.

    build       the public function; selection: the other one, about features to keep
    data  rows  numbers     what is shown, as plain JSON
    render      template.html, style.css, page.js and the JSON as one file

Belongs here: what the page shows and how. Does not: new statistics; every number comes from the public functions.
"""

from treeinner.page.build import report
from treeinner.page.selection import report_selection

__all__ = ["report", "report_selection"]
