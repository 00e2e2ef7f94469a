"""The login forms of the pages and of the admin: failed attempts are counted, and too many of them are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError

from rag.api.throttling import LoginRate, refusal

if TYPE_CHECKING:
    from django.http import HttpRequest

    _Form = AuthenticationForm
else:
    _Form = object


class _Counted(_Form):
    """Refuses before the password is looked at, so that a right guess among too many is not told either."""

    request: HttpRequest

    def clean(self) -> dict[str, Any]:
        """The cleaned data. Raises ``TooManyRequests`` (429) after too many failures of this name from this address."""
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if name is None or not password:
            return super().clean()
        rate = LoginRate(name)
        refused = refusal(rate, self.request, "Too many failed logins with this name.")
        if refused:
            raise refused
        try:
            cleaned = super().clean()
        except ValidationError:
            rate.count()
            raise
        rate.forget()
        return cleaned


class LoginForm(_Counted, AuthenticationForm):
    """The pages'."""


class AdminLoginForm(_Counted, AdminAuthenticationForm):
    """The admin's, for staff alone."""
