"""Algorithms that compute a direction of a convolution: one file each, with everything that is known of it."""
