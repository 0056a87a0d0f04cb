"""Changes a graph before its ops are grouped: one file for each pass, in the order of `pipeline.PASSES`."""
