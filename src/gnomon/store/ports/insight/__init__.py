"""Values of stores of what is told, counted and shown."""
