"""The dashboard: pages of the API process for people.

It calls the functions that the API's handlers call, under the same roles, and has no SQL.
"""
