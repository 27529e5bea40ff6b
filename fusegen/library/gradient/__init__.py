"""fg.grad: backward pipelines, derived."""
