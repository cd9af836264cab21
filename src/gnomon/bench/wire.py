"""As much of HTTP as the load generator and the receiver need."""


def whole_head(buffer: bytes) -> bytes | None:
    """The head of the message in `buffer`, once its body is there too."""
    head, separator, body = buffer.partition(b"\r\n\r\n")
    if separator and len(body) >= _content_length(head):
        return head
    return None


def _content_length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0
