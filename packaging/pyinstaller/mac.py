"""Info.plist: what macOS reads about the application."""

from __future__ import annotations

from typing import Any

APP_ID = "io.github.gguf_explorer.GGUFExplorer"
KINDS = {"gguf": "GGUF language model", "safetensors": "Safetensors model weights"}
"""Suffixes of files that the program opens → what they are."""


def info_plist(version: str) -> dict[str, Any]:
    """Return the entries that PyInstaller does not make itself.

    Apple, "Information Property List" and "Defining file and data types for your app". The types
    are imported, not exported: they belong to others.
    """
    return {
        "CFBundleName": "GGUF Explorer",
        "CFBundleShortVersionString": version,
        "LSApplicationCategoryType": "public.app-category.developer-tools",
        "LSMinimumSystemVersion": "13.0",  # that of Qt 6.10
        "NSHighResolutionCapable": True,
        "NSHumanReadableCopyright": "The GGUF Explorer authors, MIT licence",
        "CFBundleDocumentTypes": [
            {
                "CFBundleTypeName": text,
                "CFBundleTypeRole": "Viewer",
                "LSHandlerRank": "Default",
                "LSItemContentTypes": [f"{APP_ID}.{suffix}"],
            }
            for suffix, text in KINDS.items()
        ],
        "UTImportedTypeDeclarations": [
            {
                "UTTypeIdentifier": f"{APP_ID}.{suffix}",
                "UTTypeDescription": text,
                "UTTypeConformsTo": ["public.data"],
                "UTTypeTagSpecification": {"public.filename-extension": [suffix]},
            }
            for suffix, text in KINDS.items()
        ],
    }
