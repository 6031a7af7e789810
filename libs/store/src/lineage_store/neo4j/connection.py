"""Connections to Neo4j: addresses, credentials, transactions, and errors with their remedies."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import parse_qs, urlsplit

import neo4j
from neo4j import exceptions

from lineage_core.environment.secrets import secret_from_environment
from lineage_core.environment.shown_address import shown_address
from lineage_core.tracing.budget import current_budget
from lineage_store.errors import StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from typing_extensions import LiteralString

DEFAULT_DATABASE = "neo4j"
DEFAULT_USER = "neo4j"
TLS = "+s"
"""End of the schemes whose servers must prove who they are."""
CONNECT_TIMEOUT_S = 10.0
RETRY_S = 30.0
"""How long transient errors (deadlocks, a server that restarts) are retried."""
FETCH_ROWS = 1_000
TIMEOUT_S_MIN = 0.001
"""0 would be no bound."""

T = TypeVar("T")

# What the driver logs is in the exception too; without a handler it would reach people's terminals.
logging.getLogger("neo4j").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a Neo4j and the credentials. ``uri`` holds no credentials; ``password`` is never shown.

    ``ca_file``: PEM file of the authorities that TLS trusts; empty: the system's.
    """

    uri: str
    database: str = DEFAULT_DATABASE
    user: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""


def read_address(url: str, environment: Mapping[str, str] = os.environ) -> Address:
    """The address that ``neo4j://host:port?database=name`` and the environment give.

    Raises:
        StoreError: the text can't be used, or the password's file can't be read.
    """
    try:
        parts = urlsplit(url)
        host, options = parts.hostname, parse_qs(parts.query, strict_parsing=bool(parts.query))
        unusable = not host or parts.path not in ("", "/") or parts.port == 0
    except ValueError:
        raise StoreError(_form()) from None
    if parts.username is not None or parts.password is not None:
        # Not repeated: the text may hold the password.
        raise StoreError(
            "a store's URL must not hold credentials: "
            "give LINEAGE_NEO4J_USER and LINEAGE_NEO4J_PASSWORD or LINEAGE_NEO4J_PASSWORD_FILE"
        )
    if unusable or set(options) - {"database"}:
        raise StoreError(f"store {shown_address(url)!r} can't be used. {_form()}")
    ca_file = environment.get("LINEAGE_NEO4J_CA_FILE", "")
    if ca_file and not parts.scheme.endswith(TLS):
        raise StoreError(
            f"LINEAGE_NEO4J_CA_FILE is of use with neo4j+s:// or bolt+s:// only, not with {url}"
        )
    return Address(
        f"{parts.scheme}://{parts.netloc}",
        options.get("database", [DEFAULT_DATABASE])[-1],
        environment.get("LINEAGE_NEO4J_USER", ""),
        secret_from_environment(environment, "LINEAGE_NEO4J_PASSWORD", StoreError),
        ca_file,
    )


def _form() -> str:
    return "Give neo4j://HOST:PORT or neo4j+s://HOST:PORT, with ?database=NAME if need be"


class Reads(Protocol):
    """What answers queries: a :class:`Connection`, or one about an application."""

    def read(self, query: LiteralString, **values: Any) -> list[list[Any]]:
        """All rows of a query; raises as :meth:`Connection.read`."""


class Connection:
    """A driver for one database; may be shared by threads, not by processes."""

    def __init__(self, address: Address, *, retry_s: float = RETRY_S) -> None:
        """Connect.

        Raises:
            StoreError: the server does not answer, or refuses the credentials.
        """
        self.address = address
        auth = (address.user or DEFAULT_USER, address.password) if address.password else None
        uri = address.uri
        trust: dict[str, Any] = {}
        if address.ca_file:
            # The driver takes authorities of one's own only beside the plain scheme.
            uri = uri.replace(f"{TLS}://", "://", 1)
            trusted = neo4j.TrustCustomCAs(address.ca_file)
            trust = {"encrypted": True, "trusted_certificates": trusted}
        with self._opening():
            self._driver = neo4j.GraphDatabase.driver(
                uri,
                auth=auth,
                **trust,
                connection_timeout=CONNECT_TIMEOUT_S,
                max_transaction_retry_time=retry_s,
                fetch_size=FETCH_ROWS,
                # Hints on unknown labels, as in a new database, would reach people's terminals.
                notifications_min_severity="OFF",
            )
        try:
            with self._opening():
                self._driver.verify_connectivity()
        except BaseException:
            self._driver.close()
            raise

    def read(self, query: LiteralString, **values: Any) -> list[list[Any]]:
        """All rows of a query.

        Raises:
            StoreError: the store can't be read.
            BudgetError: the question that it is read for takes too long.
        """
        return self.read_each((query, values))[0]

    def read_each(self, *queries: tuple[LiteralString, dict[str, Any]]) -> list[list[list[Any]]]:
        """The rows of some queries, one after the other in one transaction; raises as :meth:`read`.

        Each sees what is committed by then.
        """

        def work(transaction: neo4j.ManagedTransaction) -> list[list[list[Any]]]:
            return [transaction.run(query, values).values() for query, values in queries]

        budget = current_budget()
        budget.check()
        if math.isfinite(budget.left_s):
            work = neo4j.unit_of_work(timeout=max(budget.left_s, TIMEOUT_S_MIN))(work)
        try:
            with self.errors("read"), self._session(neo4j.READ_ACCESS) as session:
                return session.execute_read(work)
        except StoreError:
            # It may have been given up for that.
            budget.check()
            raise

    def write(self, work: Callable[[neo4j.ManagedTransaction], T]) -> T:
        """Run ``work`` in a transaction; after a transient error again, in a new one.

        Raises:
            StoreError: the store can't be written.
        """
        with self.errors("write"), self._session(neo4j.WRITE_ACCESS) as session:
            return session.execute_write(work)

    def run(
        self, query: LiteralString, *, timeout_s: float | None = None, **values: Any
    ) -> list[list[Any]]:
        """Run a statement that opens transactions of its own, or changes the schema.

        ``timeout_s``: when the server ends it; None: as the server is set up.

        Raises:
            StoreError: the store can't be written.
        """
        with self.errors("write"), self._session(neo4j.WRITE_ACCESS) as session:
            return session.run(neo4j.Query(query, timeout=timeout_s), values).values()

    @contextmanager
    def holding(self, query: LiteralString, *, timeout_s: float) -> Iterator[None]:
        """Keep a transaction open that ran ``query``, and so its locks. It is undone at the end, or when this process ends.

        ``timeout_s``: when the server ends it, also while it waits for the locks.

        Raises:
            StoreError: the locks can't be acquired.
        """
        with self._session(neo4j.WRITE_ACCESS) as session:
            with self.errors("write"):
                transaction = session.begin_transaction(timeout=timeout_s)
            try:
                with self.errors("write"):
                    transaction.run(query).consume()
                yield
            finally:
                # It may have ended by itself: its time was up, or the server went away.
                with suppress(exceptions.DriverError, exceptions.Neo4jError):
                    transaction.close()

    def close(self) -> None:
        """Let go of all connections."""
        self._driver.close()

    @contextmanager
    def _opening(self) -> Iterator[None]:
        try:
            with self.errors("open"):
                yield
        except (OSError, ValueError) as error:
            # A name that can't be resolved, a file of certificates that can't be read.
            raise _explained(error, self.address, "open") from error

    def _session(self, mode: str) -> neo4j.Session:
        return self._driver.session(
            database=self.address.database,
            default_access_mode=mode,
            fetch_size=FETCH_ROWS,
        )

    @contextmanager
    def errors(self, verb: str) -> Iterator[None]:
        """Turn the driver's errors into :class:`StoreError`."""
        try:
            yield
        except (exceptions.DriverError, exceptions.Neo4jError) as error:
            raise _explained(error, self.address, verb) from error


def _explained(error: Exception, address: Address, verb: str) -> StoreError:
    at, text = address.uri, " ".join(str(error).split())
    tls = "without TLS (else give neo4j+s://)"
    if urlsplit(at).scheme.endswith((TLS, "+ssc")):
        tls = "with TLS and a certificate that is trusted (LINEAGE_NEO4J_CA_FILE)"
    match error:
        case exceptions.AuthError() | exceptions.Forbidden():
            return StoreError(
                f"Neo4j at {at} refuses user {address.user or DEFAULT_USER!r}: "
                "check LINEAGE_NEO4J_USER and LINEAGE_NEO4J_PASSWORD or LINEAGE_NEO4J_PASSWORD_FILE"
            )
        case (
            exceptions.ServiceUnavailable() | exceptions.SessionExpired() | OSError() | ValueError()
        ):
            return StoreUnavailableError(
                f"can't reach Neo4j at {at} ({text}): see whether it runs (`lineage stack status`) "
                f"{tls}, or name another store by --store or LINEAGE_STORE"
            )
        case exceptions.ClientError() if "Database.DatabaseNotFound" in str(error.code):
            return StoreError(f"Neo4j at {at} has no database {address.database!r}")
        case exceptions.Neo4jError() | exceptions.DriverError() if _may_pass(error):
            return StoreUnavailableError(f"can't {verb} the lineage store {at} for now: {text}")
        case _:
            return StoreError(f"can't {verb} the lineage store {at}: {text}")


def _may_pass(error: exceptions.Neo4jError | exceptions.DriverError) -> bool:
    return error.is_retryable() or isinstance(error, exceptions.ForbiddenOnReadOnlyDatabase)
