"""`python -m dnnl_graph_ops.bench`."""

import sys

from .cli import main

sys.exit(main())
