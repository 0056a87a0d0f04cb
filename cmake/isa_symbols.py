"""Refuses objects of vector code that define a symbol outside their own namespace.

python isa_symbols.py NM NAME OBJECT... [-- NAME OBJECT...]...: NAME is an instruction set, dgo::NAME its namespace.

Two units that define the same weak symbol are merged by the linker, which takes either. If both sets defined it, code
of the wider one could run on a CPU that has only the other.
"""

from __future__ import annotations

import re
import subprocess
import sys


def foreign(listing: str, name: str) -> list[str]:
    """Symbols of an `nm -P -g --defined-only` listing that are neither dgo::name's nor the compiler's own."""
    scope = f"N[KVr]*3dgo{len(name)}{name}"
    # entities of the namespace, what is local to its functions, guards and references of these, tables of its classes
    own = re.compile(rf"(__odr_asan(\.|_gen_))?_Z(GV|GR|TV|TI|TS|TT)?Z*{scope}|DW\.ref\.__gxx_personality_v0$")
    symbols = [line.split()[0] for line in listing.splitlines() if len(line.split()) > 1]
    return [symbol for symbol in symbols if not own.match(symbol)]


def main(nm: str, arguments: list[str]) -> int:
    """0 if every object keeps to its set's namespace."""
    failed = False
    while arguments:
        end = arguments.index("--") if "--" in arguments else len(arguments)
        (name, *objects), arguments = arguments[:end], arguments[end + 1 :]
        listings = {path: subprocess.run([nm, "-P", "-g", "--defined-only", path], check=True, capture_output=True,
                                         text=True).stdout for path in objects}  # fmt: skip
        if not any(listings.values()):
            print(f"isa_symbols: {nm} lists no symbol of {name}: nothing was checked", file=sys.stderr)
            failed = True
        for path, listing in listings.items():
            for symbol in foreign(listing, name):
                print(f"isa_symbols: {path} defines {symbol} outside dgo::{name}: make it static or always_inline, or "
                      f"move it into that namespace", file=sys.stderr)  # fmt: skip
                failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
