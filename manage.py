#!/usr/bin/env python
"""Django's command line. The product's commands: ``manage.py help``."""

import os
import sys


def main() -> None:
    """Run a command; settings that cannot be read are one line on stderr and exit code 1, never a traceback."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ragproject.settings")
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.core.management import execute_from_command_line
    except ImportError:
        sys.exit("Error: Django is not installed in this Python. Run make setup, then .venv/bin/python manage.py.")
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"Error: {error}")
    except KeyboardInterrupt:
        # Ctrl-C while modules are still loading; a command that runs says more.
        sys.exit(130)


if __name__ == "__main__":
    main()
