"""Kafka, Redis and Neo4j set up as where others share the network: TLS, logins, few rights.

The launcher's servers with another configuration; every secret lies in a file that only its owner reads.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from lineage.stack.kafka_server import CHECK_LIMIT_S, Kafka
from lineage.stack.neo4j_server import DATABASE, Neo4j, write_secret
from lineage.stack.ports import LOOPBACK
from lineage.stack.programs import redis_server
from lineage.stack.redis_server import Redis
from lineage.stack.server import NotReady, Say, silent
from tests.support.jvm import OPTIONS

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

ADMIN, EMITTER, LINKER, WRITER, NOBODY = "admin", "emitter", "linker", "writer", "nobody"
API = "api"

LINKER_ACL = (
    "user linker on #{sha256} ~lm:* resetchannels -@all +ping +info +dbsize +set +get +expire +eval "
    "+sadd +scard +sdiff +sismember +smembers +hset +hget +hmget +hgetall +hlen +hkeys +hdel +hincrby "
    "+waitaof"
)
API_ACL = (
    "user api on #{sha256} ~lm-rate:* resetchannels -@all +ping +evalsha +script|load +exists +get +set "
    "+incrby +pttl +rename"
)
"""docs/guide/security.md gives these lines."""


@dataclass(frozen=True)
class Files:
    """Certificates and passwords of one set of servers, in ``folder``."""

    folder: Path
    authority: trustme.CA = field(default_factory=trustme.CA)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.authority.cert_pem.write_to_path(self.ca_file)
        trustme.CA().cert_pem.write_to_path(self.stranger_file)
        issued = self.authority.issue_cert(LOOPBACK, "localhost")
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        # What Java reads; Redis does so too.
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        chain = "".join(one.bytes().decode() for one in issued.cert_chain_pems)
        write_secret(self.key_file, pem)
        self.certificate_file.write_text(chain)
        write_secret(self.key_and_chain_file, pem + chain)
        for user in (ADMIN, EMITTER, LINKER, WRITER, API, NOBODY):
            write_secret(self.password_file(user), secrets.token_hex(16))

    @property
    def ca_file(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def stranger_file(self) -> Path:
        """An authority that issued nothing of this."""
        return self.folder / "stranger.pem"

    @property
    def key_file(self) -> Path:
        return self.folder / "server.key"

    @property
    def certificate_file(self) -> Path:
        return self.folder / "server.pem"

    @property
    def key_and_chain_file(self) -> Path:
        return self.folder / "server.key-and-chain"

    def password_file(self, user: str) -> Path:
        return self.folder / f"{user}.password"

    def password(self, user: str) -> str:
        return self.password_file(user).read_text().strip()


class SecuredKafka(Kafka):
    """SASL_SSL with PLAIN (admin, emitter) and SCRAM-SHA-512 (the others), and ACLs that deny."""

    def __init__(self, folder: Path, port: int, controller_port: int, files: Files) -> None:
        super().__init__(folder, port, controller_port, options=OPTIONS.split())
        self._files = files

    def prepare(self, say: Say = silent) -> None:
        super().prepare(say)
        file = self._properties
        lines = [
            one.replace("PLAINTEXT://", "SASL_SSL://")
            for one in file.read_text().splitlines()
            if not one.startswith("listener.security.protocol.map")
        ]
        plain = {user: self._files.password(user) for user in (ADMIN, EMITTER, NOBODY)}
        users = " ".join(f'user_{name}="{password}"' for name, password in plain.items())
        lines += [
            "listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name=SASL_SSL",
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol=PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config="
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{ADMIN}" password="{plain[ADMIN]}" {users};',
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config="
            "org.apache.kafka.common.security.scram.ScramLoginModule required;",
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={self._files.key_and_chain_file}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self._files.ca_file}",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            # The controller's listener, which is the broker's own.
            f"super.users=User:{ADMIN};User:ANONYMOUS",
        ]
        write_secret(file, "\n".join(lines))

    def user_settings(self, user: str) -> dict[str, str]:
        """How one of our programs gets in as ``user``."""
        plain = user in (ADMIN, EMITTER, NOBODY)
        return {
            "LINEAGE_KAFKA": self.bootstrap,
            "LINEAGE_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "LINEAGE_KAFKA_SASL_MECHANISM": "PLAIN" if plain else "SCRAM-SHA-512",
            "LINEAGE_KAFKA_SASL_USERNAME": user,
            "LINEAGE_KAFKA_SASL_PASSWORD_FILE": str(self._files.password_file(user)),
            "LINEAGE_KAFKA_SSL_CA_FILE": str(self._files.ca_file),
        }

    def client_config(self, user: str = ADMIN) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": self._files.password(user),
            "ssl.ca.location": str(self._files.ca_file),
            "log_level": 0,
        }

    def admin(self) -> AdminClient:
        return self._admin()

    def _admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        return AdminClient(self.client_config())


class SecuredRedis(Redis):
    """TLS only; nobody gets in without a login, and the linker may do what it needs."""

    def __init__(self, folder: Path, port: int, files: Files) -> None:
        super().__init__(folder, port)
        self._files = files

    @property
    def url(self) -> str:
        return f"rediss://{LOOPBACK}:{self.port}/0"

    def prepare(self, say: Say = silent) -> None:
        super().prepare(say)
        lines = [one for one in self._config.read_text().splitlines() if one[:5] != "port "]
        lines += [
            "port 0",
            f"tls-port {self.port}",
            f"tls-cert-file {self._files.certificate_file}",
            f"tls-key-file {self._files.key_file}",
            f"tls-ca-cert-file {self._files.ca_file}",
            "tls-auth-clients no",
            f"aclfile {self.folder / 'users.acl'}",
        ]
        self._config.write_text("\n".join(lines) + "\n")
        acl = LINKER_ACL if self._knows_waitaof() else LINKER_ACL.removesuffix(" +waitaof")
        users = [
            "user default off",
            f"user {ADMIN} on #{self._hash(ADMIN)} ~* &* +@all",
            acl.format(sha256=self._hash(LINKER)),
            API_ACL.format(sha256=self._hash(API)),
            f"user {NOBODY} on #{self._hash(NOBODY)} resetkeys -@all +ping",
        ]
        write_secret(self.folder / "users.acl", "\n".join(users))

    def check(self) -> None:
        from redis.exceptions import RedisError

        try:
            with self.client() as client:
                client.ping()
        except (RedisError, OSError) as error:
            raise NotReady(str(error)) from None

    def client(self) -> Any:
        """A client of the administrator; the caller closes it (`with`)."""
        from redis import Redis as Client

        return Client(
            host=LOOPBACK,
            port=self.port,
            ssl=True,
            ssl_ca_certs=str(self._files.ca_file),
            username=ADMIN,
            password=self._files.password(ADMIN),
            socket_timeout=CHECK_LIMIT_S,
        )

    def user_settings(self, user: str) -> dict[str, str]:
        """How one of our programs gets in as ``user``."""
        return {
            "LINEAGE_REDIS": self.url,
            "LINEAGE_REDIS_USERNAME": user,
            "LINEAGE_REDIS_PASSWORD_FILE": str(self._files.password_file(user)),
            "LINEAGE_REDIS_CA_FILE": str(self._files.ca_file),
        }

    def _hash(self, user: str) -> str:
        return hashlib.sha256(self._files.password(user).encode()).hexdigest()

    @staticmethod
    def _knows_waitaof() -> bool:
        said = subprocess.run(
            [str(redis_server()), "--version"], capture_output=True, text=True, check=True
        ).stdout
        major, minor = map(int, re.findall(r"v=(\d+)\.(\d+)", said)[0])
        return (major, minor) >= (7, 2)


class SecuredNeo4j(Neo4j):
    """Bolt with TLS only; ``writer`` is a user beside the administrator."""

    def __init__(self, folder: Path, port: int, files: Files) -> None:
        super().__init__(folder, port, heap="768m", options=OPTIONS.split())
        self._files = files

    @property
    def uri(self) -> str:
        return f"neo4j+s://{LOOPBACK}:{self.port}"

    def prepare(self, say: Say = silent) -> None:
        super().prepare(say)
        folder = self._home / "certificates" / "bolt"
        folder.mkdir(parents=True, exist_ok=True)
        write_secret(folder / "private.key", self._files.key_file.read_text())
        (folder / "public.crt").write_text(self._files.certificate_file.read_text())
        with self._config.open("a") as config:
            config.write(
                "server.bolt.tls_level=REQUIRED\n"
                "dbms.ssl.policy.bolt.enabled=true\n"
                "dbms.ssl.policy.bolt.base_directory=certificates/bolt\n"
                "dbms.ssl.policy.bolt.client_auth=NONE\n"
            )

    def driver(self) -> Any:
        """A driver of the administrator; the caller closes it (`with`)."""
        import neo4j

        return neo4j.GraphDatabase.driver(
            f"bolt://{LOOPBACK}:{self.port}",
            auth=(self.user, self.password),
            encrypted=True,
            trusted_certificates=neo4j.TrustCustomCAs(str(self._files.ca_file)),
            connection_timeout=CHECK_LIMIT_S,
            max_transaction_retry_time=0,
        )

    def check(self) -> None:
        from neo4j.exceptions import DriverError, Neo4jError

        try:
            with self.driver() as driver:
                driver.execute_query("RETURN 1", database_=DATABASE)
        except (DriverError, Neo4jError, OSError) as error:
            raise NotReady(str(error)) from None

    def after_start(self) -> None:
        with self.driver() as driver:
            driver.execute_query(
                "CREATE USER $name IF NOT EXISTS SET PASSWORD $password CHANGE NOT REQUIRED",
                name=WRITER,
                password=self._files.password(WRITER),
                database_="system",
            )

    def user_settings(self, user: str = WRITER) -> dict[str, str]:
        """How one of our programs gets in as ``user``."""
        return {
            "LINEAGE_STORE": self.uri,
            "LINEAGE_NEO4J_USER": user,
            "LINEAGE_NEO4J_PASSWORD_FILE": str(self._files.password_file(user)),
            "LINEAGE_NEO4J_CA_FILE": str(self._files.ca_file),
        }
