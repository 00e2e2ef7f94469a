"""Django's classes that are generic for the type checker alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.core import paginator

from rag.models import Membership, Project

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
    MembershipTable = admin.TabularInline[Membership, Project]
    ProjectModelForm = forms.ModelForm[Project]
    Paginator = paginator.Paginator[Any]
    Page = paginator.Page[Any]
else:
    ModelAdmin = admin.ModelAdmin
    MembershipTable = admin.TabularInline
    ProjectModelForm = forms.ModelForm
    Paginator = paginator.Paginator
    Page = paginator.Page

__all__ = ["MembershipTable", "ModelAdmin", "Page", "Paginator", "ProjectModelForm"]
