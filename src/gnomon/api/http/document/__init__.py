"""Operations of the API, and the OpenAPI document that is made from them."""
