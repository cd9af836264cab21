"""Values, events and jobs as people read them."""
