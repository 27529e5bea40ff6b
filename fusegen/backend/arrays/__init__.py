"""The user's arrays: taken in where they lie, seen as rows, and handed back in kind."""
