"""Django: handlers that use its database, and `manage.py gnomon_worker`.

INSTALLED_APPS names this package, and the setting GNOMON_APP the app, such as "shop.tasks:app".
"""

from gnomon.integrations.django.handlers import DjangoGnomon

__all__ = ["DjangoGnomon"]
