"""Tests of the ConvTranspose family as a whole: random, malformed, and on smaller CPUs."""
