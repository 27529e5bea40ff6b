"""Hardware facts, problems, and the choices made from them."""
