"""What an error of the driver says."""

from gnomon.store.postgres.refusals import of_driver


def test_an_error_without_a_text_is_named() -> None:
    assert str(of_driver(TimeoutError())) == "PostgreSQL is unavailable: TimeoutError"
    assert str(of_driver(OSError("reset"))) == "PostgreSQL is unavailable: reset"
