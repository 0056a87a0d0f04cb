"""The competitors on whole models."""
