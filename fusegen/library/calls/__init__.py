"""What frameworks differentiate and map: a call, what it leaves, and its gradient."""
