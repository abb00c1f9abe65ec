"""What an address means: the URL that it is read from, and the files of a repository of the hub.

The Hugging Face hub: huggingface.co/docs/hub/api, ``/api/models/OWNER/REPO/revision/REVISION`` and
``/OWNER/REPO/resolve/REVISION/FILE``. Ollama's registry: the OCI distribution protocol,
``/v2/NAME/manifests/TAG`` and ``/v2/NAME/blobs/DIGEST``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from explorer.errors import FormatError
from explorer.json_text import JsonLimits, decoded, parse_json
from explorer.parallel import LruCache
from explorer.sources.remote.addresses import (
    ENDPOINT_VARIABLE,
    HUB,
    HUB_HOST,
    REGISTRY,
    Address,
    HubPart,
    is_this_machine,
    query_of,
)
from explorer.sources.remote.http import FetchError, Request, fetch, origin
from explorer.text import quoted

MAX_LISTING_BYTES: Final = 16 << 20
MAX_LISTED: Final = 20_000
MAX_TAGS: Final = 2_000

_LISTED: Final = JsonLimits(3 * MAX_LISTED, 10 * MAX_LISTED, 15 * MAX_LISTED)
# of a file: itself and `lfs`, 7 members, 12 keys and texts

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,512}")
_MAX_TOKEN_BYTES: Final = 4096
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")  # of the OCI specification
_NEXT_PAGE: Final = re.compile(r'<(?P<place>[^>]{1,1000})>\s*;\s*rel="?next\b')  # RFC 8288
_MAX_PAGES: Final = 50
_NO_TAGS: Final = frozenset({401, 403, 404, 405, 501})  # of registries that list none
_listings: Final = LruCache(32)
_MANIFEST_TYPES: Final = (
    "application/vnd.docker.distribution.manifest.v2+json, "
    "application/vnd.oci.image.manifest.v1+json"
)


class Target(NamedTuple):
    """Where an address is read, and what is sent along."""

    url: str
    headers: Mapping[str, str]
    secret: Mapping[str, str]  # for the first host only


def target_of(address: Address) -> Target:
    """Return where an address is read.

    Raises:
        FormatError: It names no file.
    """
    if address.scheme == HUB:
        part = HubPart.of(address)
        if not part.file:
            raise FormatError("names a repository, not a file of it", address)
        revision, file = quote(part.revision, safe=""), quote(part.file)
        url = f"{_endpoint(address)}/{part.repository}/resolve/{revision}/{file}"
        return Target(url, {}, _authorization())
    if address.scheme == REGISTRY:
        host, _, rest = address.rest.partition("/")
        name = urlsplit(f"//{host}").hostname or ""
        scheme = "http" if is_this_machine(name) else "https"
        digest = rest.replace("/blobs/sha256-", "/blobs/sha256:")
        headers = {"Accept": _MANIFEST_TYPES} if "/manifests/" in rest else {}
        return Target(f"{scheme}://{host}/v2/{quote(digest, safe='/:')}", headers, {})
    query = query_of(address)
    return Target(f"{address}?{query}" if query else str(address), {}, {})


def pinned(address: Address, answers: Iterable[Mapping[str, str]]) -> Target | None:
    """Return where a file of the hub is read at the commit that it answers with, if it names one.

    Args:
        address: The file, perhaps of a branch.
        answers: Headers of the redirects and of the last answer, by lower-case name.
    """
    if address.scheme != HUB:
        return None
    commits = (one["x-repo-commit"] for one in answers if "x-repo-commit" in one)
    commit = next(commits, "")
    if not _COMMIT.fullmatch(commit):
        return None
    part = HubPart.of(address)
    return target_of(part._replace(revision=commit).address(part.file))


@dataclass(frozen=True)
class Listing:
    """The files of a repository of the hub at one commit.

    Attributes:
        commit: The commit, as 40 hexadecimal digits.
        sizes: Bytes of each file, by its path; None where the hub does not say.
    """

    commit: str
    sizes: Mapping[str, int | None]


def listing(address: Address) -> Listing:
    """Return the files of the repository that an address of the hub lies in.

    Raises:
        FormatError: The hub's answer is not what its documentation says.
        SourceError: It cannot be asked, or there is no such repository.
    """
    endpoint, part = _endpoint(address), HubPart.of(address)
    known = _listings.get((endpoint, part.repository, part.revision))
    if isinstance(known, Listing):
        return known
    found = _ask(endpoint, part)
    _listings.put((endpoint, part.repository, found.commit), found)  # which never changes
    return found


def pin(address: Address) -> Address:
    """Return an address of the hub with the commit in place of a branch: its files belong together.

    Raises:
        SourceError: See `listing`.
    """
    part = HubPart.of(address)
    return part._replace(revision=listing(address).commit).address(part.file)


def _ask(endpoint: str, part: HubPart) -> Listing:
    revision = quote(part.revision, safe="")
    address = part._replace(file="").address()
    url = f"{endpoint}/api/models/{part.repository}/revision/{revision}?blobs=true"
    reply = fetch(Request(url, address, most=MAX_LISTING_BYTES, secret=_authorization()))
    try:
        answer = parse_json(decoded(reply.body, address, 0), _LISTED)
        commit, files = answer["sha"], answer["siblings"]
        sizes = {str(one["rfilename"]): _size(one) for one in files[: MAX_LISTED + 1]}
    except (ValueError, LookupError, TypeError) as error:
        raise FormatError("is listed by its hub in a form that is not known", address) from error
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise FormatError(
            f"has the commit {quoted(str(commit))} by its hub, which is not a commit", address
        )
    if len(sizes) > MAX_LISTED:
        raise FormatError(f"has more than {MAX_LISTED} files, more than any model", address)
    safe = {name: size for name, size in sizes.items() if _is_safe(name)}
    return Listing(commit, safe)


def tags(name: Address) -> list[str]:
    """Return the tags of a model of a registry: ``/v2/NAME/tags/list``, of the OCI specification.

    Ollama's own registry need not list them; then there are none.

    Args:
        name: ``ollama://HOST/NAMESPACE/MODEL``.

    Raises:
        FormatError: The list is not what the protocol says.
        SourceError: The registry cannot be asked.
    """
    url, found = target_of(name / "tags" / "list").url, list[str]()
    for _ in range(_MAX_PAGES):
        try:
            reply = fetch(Request(url, name, most=MAX_LISTING_BYTES))
        except FetchError as error:
            if error.status in _NO_TAGS and not found:
                return []
            raise
        try:
            answer = parse_json(decoded(reply.body, name, 0), _LISTED)
            found += [str(tag) for tag in answer["tags"] or ()]
        except (ValueError, LookupError, TypeError) as error:
            what = "has tags that its registry lists in a form that is not known"
            raise FormatError(what, name) from error
        if len(found) > MAX_TAGS:
            raise FormatError(f"has more than {MAX_TAGS} tags, more than any model", name)
        following = _NEXT_PAGE.match(reply.headers.get("link", ""))
        if following is None or origin(urljoin(url, following["place"])) != origin(url):
            break
        url = urljoin(url, following["place"])
    return [tag for tag in dict.fromkeys(found) if _TAG.fullmatch(tag)]


def _size(entry: Mapping[str, Any]) -> int | None:
    size = entry.get("size")
    return size if type(size) is int and size >= 0 else None


def _is_safe(name: str) -> bool:
    """Return whether a path is one that stays in its repository, and can be shown."""
    return name.isprintable() and "\\" not in name and not {"..", ".", ""} & {*name.split("/")}


def _endpoint(address: Address) -> str:
    """Return where the hub is.

    Raises:
        FormatError: `HF_ENDPOINT` is not https, nor this machine.
    """
    url = os.environ.get(ENDPOINT_VARIABLE, "").rstrip("/") or f"https://{HUB_HOST}"
    with suppress(ValueError):
        parts = urlsplit(url)
        host = parts.hostname or ""
        if host and (parts.scheme == "https" or (parts.scheme == "http" and is_this_machine(host))):
            return url
    what = f"{ENDPOINT_VARIABLE} is {quoted(url)}. It must begin with https://"
    raise FormatError(what, address)


def _authorization() -> Mapping[str, str]:
    """Return the header for the hub: the token of the environment, or of the hub's own file.

    huggingface.co/docs/huggingface_hub/package_reference/environment_variables
    """
    if os.environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").lower() in ("1", "on", "yes", "true"):
        return {}
    token = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or ""
    if not token:
        home = os.environ.get("HF_HOME") or os.path.join(
            os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface"
        )
        path = os.environ.get("HF_TOKEN_PATH") or os.path.join(home, "token")
        path = os.path.expandvars(os.path.expanduser(path))
        with suppress(OSError, ValueError), open(path, "rb") as file:
            token = file.read(_MAX_TOKEN_BYTES).decode("ascii", "replace")
    token = token.strip()
    return {"Authorization": f"Bearer {token}"} if _TOKEN.fullmatch(token) else {}
