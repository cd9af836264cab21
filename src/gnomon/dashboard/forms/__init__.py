"""Forms: their fields as text, and the requests that they become."""
