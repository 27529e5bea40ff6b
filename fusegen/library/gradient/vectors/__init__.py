"""fg.grad of texts over vectors, in stages."""
