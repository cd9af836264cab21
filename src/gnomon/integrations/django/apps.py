"""The Django app."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class GnomonConfig(AppConfig):  # type: ignore[misc] # Django has no types
    """Imports the `tasks` module of every installed app, so that their handlers are declared."""

    name = "gnomon.integrations.django"
    label = "gnomon"

    def ready(self) -> None:
        autodiscover_modules("tasks")
