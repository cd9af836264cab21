"""The app of the Django site that DJANGO_SETTINGS_MODULE names, for `gnomon worker`:
`gnomon worker gnomon.integrations.django.site:app`."""

import django
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from gnomon.sdk.app import Gnomon
from gnomon.sdk.declaring.loading import load_app


def _site_app() -> Gnomon:
    if not apps.ready:
        django.setup()
    path = getattr(settings, "GNOMON_APP", None)
    if not path:
        raise ImproperlyConfigured('the setting GNOMON_APP names the app, as in "shop.tasks:app"')
    return load_app(path)


app = _site_app()
