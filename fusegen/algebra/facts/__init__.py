"""What is known of elements and pivots from the graph alone: bounds, dominance, growth, masks."""
