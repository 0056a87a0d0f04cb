"""Tells what a plan is and does: explain, profile, steps, tables, supported ops."""
