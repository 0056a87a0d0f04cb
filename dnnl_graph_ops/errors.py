"""The exceptions of the package.

"You made a mistake" (`InvalidArgumentError`, `ShapeError`) and "this cannot run here" (`UnsupportedError`,
`RuntimeUnavailableError`) are different families; each also inherits the builtin that a caller expects.
"""


class Error(Exception):
    """Base of every exception that the package raises on purpose."""


class InvalidArgumentError(Error, ValueError):
    """A value is of the right Python type but not acceptable."""


class ShapeError(InvalidArgumentError):
    """Shapes disagree with each other or with the attributes of an op."""


class UnsupportedError(Error, NotImplementedError):
    """A valid request that the loaded library, engine or dtype cannot serve."""


class RuntimeUnavailableError(Error, RuntimeError):
    """No usable oneDNN library or device was found."""
