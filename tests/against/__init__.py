"""Two versions of the package held against each other: `.ci/against COMMIT`."""
