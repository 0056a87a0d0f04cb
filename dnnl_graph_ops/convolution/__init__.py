"""Describes a convolution node as a problem: direction, sizes, and the views of x, w, y and the post-ops."""
