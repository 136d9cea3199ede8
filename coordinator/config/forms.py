"""The forms of a configuration's values, beyond their types; each has the fix for a value without it."""

from __future__ import annotations

import errno
import ipaddress
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, NamedTuple

from coordinator.core.addresses import host_and_port
from coordinator.core.topics import NAME_LETTER

_LABEL: Final = r"\w([-\w]{0,61}\w)?"
_ADDRESS: Final = re.compile(
    rf"(\[(?P<six>[^\]\s]+)\]|(?P<host>{_LABEL}(\.{_LABEL})*\.?))(:(?P<port>[0-9]{{1,5}}))?"
)
_PORT_MAX: Final = 65_535
_NON_PERSISTENT: Final = "non-persistent://"
_TOPIC: Final = re.compile(rf"non-persistent://{NAME_LETTER}+/{NAME_LETTER}+/[^/\s]+", re.ASCII)
_WRITE_ADDRESS: Final = "write host:port, for example 127.0.0.1:6650 or [fd00::7]:6650"


class ConfigError(ValueError):
    """The configuration cannot be used; the message names the key, the reason and the fix."""


class ValueForm(NamedTuple):
    """A form of values; it stands beside their type in ``Annotated``.

    Args:
        accepts: returns whether a value has it.
        fix: tells what to write in place of a value that has not.
    """

    accepts: Callable[[Any], object]
    fix: str


def between(low: float, high: float, *, beside: float | None = None) -> ValueForm:
    """Return the form of the numbers from one to another, and of one more."""
    others = "" if beside is None else f", or {beside}"
    return ValueForm(lambda n: low <= n <= high or n == beside, f"use {low} to {high}{others}")


def like(pattern: str, fix: str) -> ValueForm:
    """Return the form of texts that a pattern matches as a whole."""
    return ValueForm(re.compile(pattern, re.ASCII).fullmatch, fix)


def url(*beginnings: str) -> ValueForm:
    """Return the form of URLs that begin in one of these ways and go on with host or host:port."""
    return ValueForm(
        lambda text: text.startswith(beginnings) and _address(_servers(text).partition("/")[0]),
        f"it must start with {_or(beginnings)} and go on with host or host:port, for example "
        f"{beginnings[0]}[fd00::7]:8080",
    )


def node_path(example: str) -> ValueForm:
    """Return the form of ZooKeeper's paths below the root, without relative parts."""
    return like(r"(/(?!\.{1,2}(/|$))[^/\x00-\x1f\x7f]+)+", f"it must look like {example}")


def or_empty(form: ValueForm) -> ValueForm:
    """Return the form of the same texts and the empty one."""
    return ValueForm(lambda text: not text or form.accepts(text), form.fix)


def split_address(key: str, address: str) -> tuple[str, int]:
    """Host and port of an address; an IPv6 address has brackets in it, and none as a host.

    Raises:
        ConfigError: it is not host:port.
    """
    match = _address(address)
    if match is None or match["port"] is None:
        raise ConfigError(f"{key} {address!r}: {_WRITE_ADDRESS}")
    return match["six"] or match["host"], int(match["port"])


@contextmanager
def address_told(key: str, host: str, port: int) -> Iterator[None]:
    """Tell an address that this block finds in use by its key; other failures pass through.

    Raises:
        ConfigError: the address is in use.
    """
    try:
        yield
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise ConfigError(
            f"{key} {host_and_port(host, port)}: address already in use; stop what listens there "
            f"(sudo ss -ltnp 'sport = :{port}' names it), or change {key}"
        ) from error


def _address(text: str) -> re.Match[str] | None:
    """Host, and port if there is one; None if it is no address."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"] or 0) > _PORT_MAX:
        return None
    return match if match["six"] is None or _can(ipaddress.IPv6Address, match["six"]) else None


def _is_plain_host(text: str) -> bool:
    """Return whether a text is a host, with a port or without, as browsers and tools spell it."""
    match = _address(text) if text.isascii() and "%" not in text else None
    return match is not None and not (match["host"] or "").endswith(".")


def _is_bus_url(text: str) -> bool:
    servers = _bus_servers(text)
    return text.startswith(("pulsar://", "pulsar+ssl://")) and all(
        _address(server) or _is_six(server) for server in servers
    )


def _bus_servers(service_url: str) -> list[str]:
    return _servers(service_url).partition("/")[0].split(",")


def _is_six(server: str) -> bool:
    return server.count(":") > 1


def _can(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _or(words: tuple[str, ...]) -> str:
    return " or ".join(words)


def _servers(service_url: str) -> str:
    return service_url.partition("://")[2]


_IS_ADDRESS = ValueForm(lambda text: (match := _address(text)) and match["port"], _WRITE_ADDRESS)

BrokerId = Annotated[
    str,
    like(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", "use letters, digits and . _ : - (at most 128)"),
]
Address = Annotated[str, _IS_ADDRESS]
AddressOrNone = Annotated[str, or_empty(_IS_ADDRESS)]
Addresses = Annotated[
    str,
    ValueForm(
        lambda text: "/" not in text,
        "write no path here; it goes before those of zookeeper_root and zookeeper_brokers_path",
    ),
    ValueForm(lambda text: all(map(_IS_ADDRESS.accepts, text.split(","))), _WRITE_ADDRESS),
]
Host = Annotated[
    str,
    ValueForm(
        _is_plain_host,
        "write a name or an address, with a port or without, for example broker-1.example or "
        "[fd00::7]:8087",
    ),
]
Network = Annotated[
    str,
    ValueForm(
        lambda text: _can(ipaddress.ip_network, text),
        "write an address, or a network by its first one, such as 10.1.2.3 or 10.1.2.0/24",
    ),
]
BusUrl = Annotated[
    str,
    ValueForm(
        _is_bus_url,
        "it must start with pulsar:// or pulsar+ssl:// and go on with host or host:port, several "
        "between commas, for example pulsar://broker-1:6650,broker-2:6650",
    ),
    ValueForm(
        lambda text: not any(map(_is_six, _bus_servers(text))),
        "Pulsar's client takes no IPv6 address in a service URL; write a name that has it, such as "
        "localhost or the broker's own",
    ),
]
BusTopic = Annotated[
    str,
    ValueForm(
        lambda topic: topic.startswith(_NON_PERSISTENT),
        "it must start with non-persistent://: reports need no storage, and a stored one is old",
    ),
    ValueForm(
        lambda topic: _TOPIC.fullmatch(topic) or not topic.startswith(_NON_PERSISTENT),
        "write non-persistent://tenant/namespace/topic",
    ),
]
ListenerOrNone = Annotated[
    str,
    like(r"[-.\w]{0,128}", "use letters, digits and . _ -, as in the broker's advertisedListeners"),
]
GroupOrNone = Annotated[str, like(rf"{NAME_LETTER}{{0,255}}", "use letters, digits and -=:._")]
Namespace = Annotated[
    str, like(rf"{NAME_LETTER}+(/{NAME_LETTER}+){{1,2}}", "write tenant/namespace")
]
Role = Annotated[str, ValueForm(bool, "a role must not be empty")]
