"""Addresses of models on the web, as paths: what opens a file by its path opens an address too.

Three kinds (docs/interface.md): ``https://HOST/…/model.gguf``, ``hf://OWNER/REPO[@REVISION][/FILE]``
of the Hugging Face hub, and ``ollama://NAME[:TAG]`` of Ollama's registry. An address names nothing
on this machine: it is read by `remote.source`, and only by that.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from explorer.errors import FormatError, SourceError
from explorer.text import quoted

WEB: Final = ("https", "http")
HUB: Final = "hf"
REGISTRY: Final = "ollama"

OFFLINE_VARIABLE: Final = "GGUF_EXPLORER_OFFLINE"
"""Set to 1, it refuses all addresses."""

REGISTRY_HOST: Final = "registry.ollama.ai"
"""The registry of names without a host."""

ENDPOINT_VARIABLE: Final = "HF_ENDPOINT"
"""Names another hub."""

HUB_HOST: Final = "huggingface.co"
"""The hub, unless `HF_ENDPOINT` names another one."""

_START: Final = re.compile(r"(?P<scheme>[A-Za-z]{2,})://")  # one letter is a drive of Windows
_LONGEST: Final = 4096
_HUB_PART: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}")
_REVISION: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}")
_LONG_REVISION: Final = re.compile(r"refs/(?:convert|pr)/[^/]+")  # of the hub, with slashes
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f\\]")
_EXAMPLES: Final = (
    "Addresses look like https://host/model.gguf, hf://owner/repository/model.gguf "
    "or ollama://llama3:8b"
)
_HUB_HOSTS: Final = frozenset({HUB_HOST, "www.huggingface.co", "hf.co"})
# What the hub's own pages call a file: /OWNER/REPO/resolve/REVISION/FILE.
_HUB_PAGES: Final = ("resolve", "blob", "raw", "tree")
_REGISTRY_PAGES: Final = frozenset({"ollama.com", "www.ollama.com"})
_queries: Final[dict[str, str]] = {}


class Address(type(Path())):  # type: ignore[misc]  # PosixPath here, WindowsPath there
    """An address where the program expects a path; ``/`` joins, `name` and `parent` take apart.

    A path knows no ``//``, so text is given back with the two slashes behind the scheme.
    """

    def __str__(self) -> str:
        scheme, _, rest = super().__str__().replace("\\", "/").partition(":")
        return f"{scheme}://{rest.lstrip('/')}"

    def __fspath__(self) -> str:
        return str(self)

    def as_posix(self) -> str:
        """Return the text, which has slashes on every system."""
        return str(self)

    @property
    def scheme(self) -> str:
        """``"https"``, ``"http"``, ``"hf"`` or ``"ollama"``."""
        return str(self).partition(":")[0]

    @property
    def rest(self) -> str:
        """The text behind the scheme and its two slashes."""
        return str(self).partition("://")[2]


def is_address(text: object) -> bool:
    """Return whether a text or a path is an address, of whatever scheme, rather than a path."""
    return isinstance(text, Address) or (isinstance(text, str) and bool(_START.match(text)))


def parse_address(text: str) -> Address:
    """Return the address of a text; a page of the hub, or of Ollama's library, of what it shows.

    Raises:
        FormatError: It is not an address of a kind that the program reads, or not a safe one.
    """
    text = text.strip()
    start = _START.match(text)
    scheme = start["scheme"].lower() if start else ""
    rest = text[len(scheme) + 3 :]
    strange = _CONTROLS.search(text) or (scheme != HUB and " " in text)
    if len(text) > _LONGEST or strange or scheme not in {*WEB, HUB, REGISTRY}:
        raise FormatError(f"{quoted(text)} is not an address of a model. {_EXAMPLES}")
    if scheme == HUB:
        address = _hub_address(rest)
    elif scheme == REGISTRY:
        address = Address(f"{scheme}://{rest.rstrip('/')}")
    else:
        address = _web_address(f"{scheme}://{rest}")
    if ".." in address.parts or not address.rest:
        raise FormatError(f"{quoted(text)} is not an address of a model. {_EXAMPLES}")
    return address


def _web_address(text: str) -> Address:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise FormatError(f"{quoted(text)} is not an address: {error}") from error
    if not host or parts.username is not None or parts.password is not None:
        what = "an address needs a host, and must not hold a name or a password"
        raise FormatError(f"{quoted(text)}: {what}")
    if parts.scheme == "http" and not is_this_machine(host):
        raise FormatError(f"{quoted(text)}: plain http can be changed on its way. Use https://")
    found = None
    if host in _HUB_HOSTS:
        found = _from_hub_page(parts)
    elif host in _REGISTRY_PAGES:
        found = _from_registry_page(parts.path)
    if found is not None:
        return found
    if not PurePosixPath(parts.path).name:
        raise FormatError(f"{quoted(text)} names no file. {_EXAMPLES}")
    address = Address(text.partition("#")[0].partition("?")[0])
    if parts.query:
        _queries[str(address)] = parts.query
    return address


def as_path(text: str) -> Path:
    """Return what a text names: an address, or a path.

    Raises:
        FormatError: It begins as an address and is none.
    """
    return parse_address(text) if is_address(text) else Path(text)


def host_of(address: Path) -> str:
    """Return the host that an address is read from first, with its port if it names one."""
    if not isinstance(address, Address) or address.scheme in WEB:
        return str(address).partition("://")[2].partition("/")[0]
    if address.scheme == HUB:
        return urlsplit(os.environ.get(ENDPOINT_VARIABLE, "")).netloc or HUB_HOST
    *host, _, _ = address.rest.split("/") if address.rest.count("/") > 1 else ("", "", "")
    return host[0] if host and host[0] else REGISTRY_HOST


def query_of(address: Address) -> str:
    """Return what stood behind the question mark of an address when it was parsed.

    It is often a signature that gives access. So it is not a part of the address, which is shown,
    written into reports and remembered.
    """
    return _queries.get(str(address), "")


def _from_hub_page(page: SplitResult) -> Address | None:
    """Return the address of what a page of the hub shows; None for its other pages."""
    parts = [part for part in page.path.split("/") if part]
    if len(parts) == 2:
        # the page of a repository, perhaps with a look into one of its files
        shown = parse_qs(page.query).get("show_file_info", [""])[0]
        return _hub_address("/".join([*parts, *shown.split("/")]))
    if len(parts) >= 4 and parts[2] in _HUB_PAGES:
        owner, name, _, revision, *file = parts
        pinned = f"{name}@{quote(unquote(revision), safe='')}"
        return _hub_address("/".join((owner, pinned, *map(unquote, file))))
    return None


def _from_registry_page(path: str) -> Address | None:
    """Return the address of what a page of Ollama's library shows; None for its other pages."""
    parts = [part for part in path.split("/") if part]
    if len(parts) < 2:
        return None
    owner, model = parts[:2]
    return Address(f"{REGISTRY}://{model if owner == 'library' else f'{owner}/{model}'}")


def _hub_address(rest: str) -> Address:
    owner, _, rest = rest.partition("/")
    name, at, revision = rest.partition("/")[0].partition("@")
    file = rest.partition("/")[2]
    if at and (long := _LONG_REVISION.match(rest.partition("@")[2])):
        revision, file = quote(long[0], safe=""), rest[len(name) + 1 + long.end() :]
    good = (
        _HUB_PART.fullmatch(owner)
        and _HUB_PART.fullmatch(name)
        and (not at or _REVISION.fullmatch(unquote(revision)))
        and not _CONTROLS.search(file)
    )
    repository = f"{name}{at}{revision}"
    if not good:
        what = "is not a model of the hub. Such addresses look like hf://owner/repository"
        raise FormatError(f"{quoted(f'{HUB}://{owner}/{repository}')} {what}")
    return Address("/".join(filter(None, (f"{HUB}://{owner}", repository, file.strip("/")))))


_refusing: Final[list[str]] = []  # who refuses all addresses, in words
_SETTING: Final = "File \u203a Read nothing from the web is on"


def refuse_all(refused: bool) -> None:
    """Switch reading of addresses off by the setting, or on again; who is stronger stays so."""
    with suppress(ValueError):
        _refusing.remove(_SETTING)
    if refused:
        _refusing.append(_SETTING)


@contextmanager
def offline() -> Iterator[None]:
    """Switch reading of addresses off for a while, whatever the setting says."""
    who = "--offline was given"
    _refusing.insert(0, who)
    try:
        yield
    finally:
        _refusing.remove(who)


def forbidden_by() -> str:
    """Return what refuses all addresses more strongly than the setting, in words; or ""."""
    if os.environ.get(OFFLINE_VARIABLE, "0") not in ("", "0"):
        return f"{OFFLINE_VARIABLE} is set"
    return next((who for who in _refusing if who != _SETTING), "")


def check_allowed(address: Address) -> None:
    """Raise `SourceError` if no address may be read, or what reads them is not installed."""
    why = forbidden_by() or next(iter(_refusing), "")
    if why:
        raise SourceError(f"is an address, and nothing is fetched: {why}", address)
    if find_spec("urllib3") is None:
        what = "is an address, which needs the extra: pip install 'gguf-explorer[remote]'"
        raise SourceError(what, address)


class HubPart(NamedTuple):
    """What an address of the hub names."""

    repository: str  # OWNER/REPO
    revision: str  # a branch, a tag or a commit
    file: str  # "" for the whole repository

    @classmethod
    def of(cls, address: Address) -> HubPart:
        """Take an address apart; `parse_address` has checked its form."""
        owner, _, rest = address.rest.partition("/")
        repository, _, file = rest.partition("/")
        name, _, revision = repository.partition("@")
        return cls(f"{owner}/{name}", unquote(revision) or "main", file)

    def address(self, file: str = "") -> Address:
        """Return the address of the repository, or of a file of it, at this revision."""
        place = f"{HUB}://{self.repository}@{quote(self.revision, safe='')}"
        return Address(f"{place}/{file}" if file else place)


def is_this_machine(host: str) -> bool:
    """Return whether a host's name or number is this machine's own, without asking anybody."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    number = as_number(host)
    return number is not None and number.is_loopback


_EMBEDDING: Final = ipaddress.ip_network("64:ff9b::/96")  # IPv4 behind a translator, RFC 6052


def is_public(host: str) -> bool:
    """Return whether a number, not a name, is an address that the whole internet reaches."""
    number = as_number(host)
    if isinstance(number, ipaddress.IPv6Address):
        inner = number.ipv4_mapped or number.sixtofour
        if number in _EMBEDDING:
            inner = ipaddress.IPv4Address(int(number) & 0xFFFFFFFF)
        number = inner or number
    return number is not None and number.is_global and not number.is_multicast


def as_number(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that a host is written as, also in brackets; None for a name."""
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
