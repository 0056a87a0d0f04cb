"""Reads models of any format: nodes, budgets, constants, dynamic sizes."""
