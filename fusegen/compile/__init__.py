"""From a graph to programs: fusion, lowering, trials of new merges, the list of passes."""
