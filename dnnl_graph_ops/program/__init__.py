"""Describes what a plan does: steps that read and write views of buffers, and the post-ops in a step."""
