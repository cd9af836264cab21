"""What logs show of a path."""

from uuid import UUID

from gnomon.api.http.requests.paths import NOT_ROUTED, shown_path

ID = UUID("019a0000-0000-7000-8000-000000000000")


def test_ids_are_shown_and_names_are_not() -> None:
    scope = {"path_template": "/a/{task_id}/b/{name}", "path_params": {"task_id": ID, "name": "x"}}
    assert shown_path(scope) == f"/a/{ID}/b/{{name}}"


def test_an_id_may_be_given_as_text() -> None:
    assert shown_path({"path_template": "/{ref}", "path_params": {"ref": str(ID)}}) == f"/{ID}"


def test_a_request_that_no_route_has_seen_shows_nothing_of_its_path() -> None:
    assert shown_path({"path": "/secret"}) == NOT_ROUTED
