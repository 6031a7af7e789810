"""Ports of the Spark that traces: other users of the machine reach them, and get neither rows nor have objects made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.job_runs import run_plain

pytestmark = pytest.mark.security
PROGRAM = """
import json, socket, struct
from pathlib import Path
from lineage_dataframes.spark.own_spark import start_spark

RPC, RPC_ANSWER = 3, 4
ANSWER_S = 20

spark = start_spark("local[1]", Path("warehouse"))
context = spark.sparkContext
number = context._jsc.sc().broadcast("a row", context._jvm.scala.reflect.ClassTag.apply(
    context._jvm.java.lang.Class.forName("java.lang.String"))).id()
env = context._jsc.sc().env()

def text(said):
    return struct.pack(">i", len(said)) + said

def read(connection, count):
    data = b""
    while len(data) < count and (more := connection.recv(count - len(data))):
        data += more
    return data

def asked(port, message):
    # Spark's frames: their length, what they are, a number of the request, the message.
    with socket.create_connection(("127.0.0.1", port), ANSWER_S) as connection:
        body = bytes([RPC]) + struct.pack(">qi", 1, len(message)) + message
        connection.sendall(struct.pack(">q", len(body) + 8) + body)
        head = read(connection, 8)
        if len(head) < 8:
            return RPC + 2, ""
        answer = read(connection, struct.unpack(">q", head)[0] - 8)
        return answer[0], answer.decode("latin-1")

blocks = b"\\0" + text(b"any") + text(b"driver") + struct.pack(">i", 1)
kind, said = asked(env.blockManager().blockManagerId().port(), blocks + text(b"broadcast_%d_piece0" % number))
told = {"block": kind == RPC_ANSWER}
# To nobody, from nowhere: what follows would be an object.
kind, said = asked(env.rpcEnv().address().port(), b"\\0\\0\\0" + b"no object of Java")
told["object"] = kind == RPC_ANSWER or "ObjectInputStream" in said
told["computes"] = spark.range(1000).groupBy("id").count().count()
spark.stop()
print(json.dumps(told))
"""


def test_who_has_no_secret_gets_no_block_and_has_no_object_made(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(PROGRAM)
    done = run_plain(tmp_path, "job.py")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "block": False,
        "object": False,
        "computes": 1000,
    }
