"""Text in parts at its commas."""


def at_commas(text: str) -> list[str]:
    """At those outside of brackets; the parts without blanks around."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{<") - (letter in ")]}>")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]
