"""The operations of the API, each described once, under the names of the OpenAPI document."""
