"""One module a target: `one(data)`, and `change(rng, data)` where plain changes of bytes would seldom be a file."""
