"""Random pipelines against the algebra, judged by an oracle that shares nothing with it."""
