"""How Sphinx builds the documentation: `make docs`. Nothing is fetched from the network."""

import re
import shutil
from importlib.metadata import version as installed_version
from pathlib import Path

HERE = Path(__file__).parent

# -- what it is
project = "treeinner"
author = "The treeinner developers"
project_copyright = author
release = version = installed_version("treeinner")

# -- what it is made of
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["evidence/study/*.md", "README.md"]  # the study's table is included in a page
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

# -- Markdown
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# -- the reference
default_role = "py:obj"  # `importance` in a docstring is a link if there is such a name
nitpicky = True
nitpick_ignore_regex = [("py:obj", r".*"), ("py:class", r".*")]  # most of what stands in backquotes is no name of ours
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say the types, for people
python_maximum_signature_line_length = 80
numpydoc_show_class_members = False  # the pages say which members
numpydoc_class_members_toctree = False

# -- the gallery
sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery"],
    "gallery_dirs": ["gallery"],
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,  # that page would load scripts from the network
    "abort_on_example_error": False,  # all failures are listed, and then the build fails
    "image_srcset": ["2x"],
    "capture_repr": ("_repr_html_", "__repr__"),
    "ignore_repr_types": r"matplotlib\.|xgboost\.|lightgbm\.",
}

# -- how it looks
html_theme = "furo"
html_title = "treeinner"
html_static_path = ["_static"]
html_css_files = ["treeinner.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
copybutton_prompt_text = r">>> |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True


def tabs(found):
    """A part between comments, with a tab for each line in bold."""
    parts = re.split(r"^\*\*(.+)\*\*$", found[1], flags=re.MULTILINE)[1:]
    items = [
        f":::{{tab-item}} {name}\n:sync: {name}\n{body.strip()}\n:::"
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    ]
    return "\n".join(["::::{tab-set}", *items, "::::"])


def add_what_code_hosts_hide(app, docname, source):
    """Show trees of contents, which stand in comments, and tabs, which are lines in bold, for a code host."""
    text = re.sub(r"<!--\n(```\{toctree\}.*?\n```)\n-->", r"\1", source[0], flags=re.DOTALL)
    # Notes for engineers are beside the code, not in the built pages.
    text = re.sub(r"\[([^\]]+)\]\((?:\.\./)+(?:decisions/[\w-]+|RELEASING)\.md\)", r"\1", text)
    source[0] = re.sub(r"<!-- tabs -->\n(.*?)<!-- end tabs -->", tabs, text, flags=re.DOTALL)


STUDY_PARTS = ("claims.md", "table.md", "references.md")


def add_study(app, docname, source):
    """Show on the page of the study what `treeinner-study --out docs/evidence/study` wrote."""
    if docname == "evidence/study":
        includes = [f"```{{include}} study/{name}\n:heading-offset: 1\n```" for name in STUDY_PARTS]
        link = '<a href="study/index.html">All tables, figures and claims on one page</a>.'
        source[0] += "\n" + "\n\n".join([link, *includes]) + "\n"


def copy_study(app, exception):
    """Put the study's own page, made by `treeinner-study`, beside the others."""
    if exception is None:
        shutil.copytree(HERE / "evidence" / "study", Path(app.outdir) / "evidence" / "study", dirs_exist_ok=True)


def setup(app):
    """Connect the hooks."""
    app.connect("source-read", add_what_code_hosts_hide)
    app.connect("source-read", add_study)
    app.connect("build-finished", copy_study)
