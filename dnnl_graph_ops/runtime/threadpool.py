"""The thread pool as threadpoolctl sees it; that package is never needed, and imported only if asked for."""

from __future__ import annotations

import os
from functools import cache

from .._core import __file__ as extension_file
from . import threads
from .info import version


@cache
def register_threadpoolctl() -> None:
    """Let threadpoolctl see and limit this package's threads, as one more pool of its user_api "openmp".

    `threadpoolctl.threadpool_info()` lists it as internal_api "dnnl_graph_ops", and `threadpool_limits` sets what
    `set_num_threads` does, for the whole process. Where threadpoolctl was imported
    before this package, importing this package has done it. A second call does nothing.

    Raises:
        ImportError: threadpoolctl 3.2 or later is not installed.
    """
    try:
        from threadpoolctl import LibController, register  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError(f"register_threadpoolctl needs threadpoolctl 3.2 or later ({error})") from error

    class Controller(LibController):  # type: ignore[misc]
        """Found by the extension's file, whose name other packages' extensions may have: its symbol decides."""

        user_api = "openmp"
        internal_api = "dnnl_graph_ops"
        filename_prefixes = (os.path.basename(os.path.realpath(extension_file)).lower(),)
        check_symbols = ("dnnl_graph_ops_thread_pool",)

        def get_num_threads(self) -> int:
            return threads.get_num_threads()

        def set_num_threads(self, num_threads: int) -> None:
            threads.set_num_threads(num_threads)

        def get_version(self) -> str:
            return version()

    register(Controller)
