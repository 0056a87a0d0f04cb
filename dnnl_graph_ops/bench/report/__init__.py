"""Results for people and for other programs: table, CSV, Markdown, benchdnn's columns, picture, HTML."""
