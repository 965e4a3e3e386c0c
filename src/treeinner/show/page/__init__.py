"""report(): what a model learned, or which features to keep, as one self-contained HTML file.

    build       the public function
    data  rows  numbers     what is shown, as plain JSON
    render      template.html, style.css, page.js and the JSON as one file

Belongs here: what the page shows and how. Does not: new statistics; every number comes from the public functions.
"""

from treeinner.show.page.build import report

__all__ = ["report"]
