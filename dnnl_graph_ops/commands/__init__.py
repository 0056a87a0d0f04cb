"""Holds the subcommands of `dnnl-graph-ops` that read models: a file each, with `arguments` and `run`."""
