"""Print the absolute path of the file of an installed distribution that ends with the given suffix."""

import importlib.metadata
import sys


def main() -> None:
    name, suffix = sys.argv[1:]
    dist = importlib.metadata.distribution(name)
    found = [f for f in dist.files or () if f"/{f.as_posix()}".endswith("/" + suffix)]
    if not found:
        sys.exit(f"the distribution {name} {dist.version} has no file that ends with {suffix}")
    print(dist.locate_file(found[0]).resolve())


main()
