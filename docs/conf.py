"""The documentation site: `python -m sphinx -W -b html docs build/docs`; all that its pages load is in the build."""

import sys
from datetime import date
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "dnnl_graph_ops"
author = "the authors of dnnl_graph_ops"
project_copyright = f"{date.today().year}, {author}"
try:
    release = version = metadata.version("dnnl-graph-ops")
except metadata.PackageNotFoundError:  # a source tree on the path
    release = version = ""

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "mathml",
    "op_pages",
    "api_pages",
    "command_pages",
    "defect_pages",
    "word_pages",
    "example_pages",
    "charts",
    "closed",
]
exclude_patterns = ["_ext"]


myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
myst_url_schemes = ["http", "https"]
suppress_warnings = ["myst.header"]

html_theme = "pydata_sphinx_theme"
html_title = "dnnl_graph_ops"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navigation_depth": 2,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_math_renderer = "mathml"

# docstrings have names of arguments and functions between single backticks
default_role = "code"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Source"]
python_maximum_signature_line_length = 88
