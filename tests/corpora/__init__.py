"""Tests on cases written by others, found through DNNL_GRAPH_OPS_CORPORA."""
