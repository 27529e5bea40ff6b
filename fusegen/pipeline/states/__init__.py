"""States as values: what pieces of rows leave, merged anywhere, finished anywhere."""
