"""Handlers of the pages, in the rooms of the API's routes."""
