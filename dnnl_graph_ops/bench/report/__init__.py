"""Writes results for people and for programs: table, CSV, Markdown, benchdnn's columns, picture, HTML."""
