"""What the programs of `cargo xtask eos` share: how they speak, and how they insist while a broker is away."""

import faulthandler
import json
import select
import sys
import time

from confluent_kafka import KafkaError, KafkaException

CALL = 3  # seconds that one call to the broker may take before it is made again
FATAL = 3  # exit code of a worker whose client cannot go on: it is started anew

# What passes by itself while a broker is away or just back.
PASSING = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._WAIT_COORD,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
}


class Abort(Exception):
    """The transaction has to be aborted; the client continues."""


class History:
    """What one process asks for and sees, as lines of the checker's format on stdout."""

    def __init__(self, process):
        self.process, self.op = process, 0
        self.said = sys.stdout

    def say(self, event, op=None, **facts):
        line = {"event": event, "process": self.process, "op": self.op if op is None else op} | facts
        self.said.write(json.dumps(line) + "\n")

    def flush(self):
        """To be called before doing what was said: a process that is killed then has still said it."""
        self.said.flush()

    def begin(self, kind):
        self.op += 1
        self.say("begin", kind=kind, at=time.time_ns() // 1000)
        return self.op

    def end(self, outcome, op=None):
        self.say("end", op, outcome=outcome, at=time.time_ns() // 1000)
        self.flush()

    def write(self, partition, value, source=None):
        self.say("write", key=partition, value=value, **({"from": source} if source else {}))

    def read(self, message):
        key = f"{message.topic()}/{message.partition()}"
        self.say("read", key=key, offset=message.offset(), value=message.value().decode())


def note(text):
    print(text, file=sys.stderr, flush=True)


def watch(seconds=8 * CALL):
    """Ends the program when it does not come back here in time: a call that hangs must not stop the pipeline."""
    faulthandler.dump_traceback_later(seconds, exit=True)


def calm():
    faulthandler.cancel_dump_traceback_later()


def common(bootstrap):
    return {
        "bootstrap.servers": bootstrap,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "retry.backoff.ms": 20,
        "topic.metadata.refresh.fast.interval.ms": 50,
    }


def transactional(bootstrap, transactional_id):
    return common(bootstrap) | {
        "transactional.id": transactional_id,
        "transaction.timeout.ms": 8000,
        "linger.ms": 0,
        # After all brokers were away librdkafka 2.16 by default drops what it knows of them, and then waits forever in
        # send_offsets_to_transaction for the handle of the group coordinator that it has dropped.
        "metadata.recovery.strategy": "none",
    }


def asked(timeout):
    """A line that came on stdin, None when there is none yet, "" when stdin is closed."""
    ready, _, _ = select.select([sys.stdin.fileno()], [], [], timeout)
    return sys.stdin.buffer.readline().decode() if ready else None


def insist(call, *arguments):
    """Repeats a call while that may help; says with the exception what to do otherwise."""
    while True:
        watch()
        try:
            return call(*arguments)
        except KafkaException as e:
            error = e.args[0]
            # First: a record that was too long on its way passes for a time-out, and only an abort helps.
            if error.txn_requires_abort():
                raise Abort(f"{call.__name__}: {error}") from e
            elif error.retriable() or error.code() in PASSING:
                note(f"{call.__name__}: {error}, once more")
                time.sleep(0.01)
            else:
                raise


def transaction(history, producer, body):
    """Runs `body` in a transaction; `body` raises Abort when it must not commit. Returns whether it was committed."""
    history.begin("txn")
    insist(producer.begin_transaction)
    try:
        body()
        history.say("ending", ending="commit")
        history.flush()
        insist(producer.commit_transaction, CALL)
        history.end("ok")
        return True
    except Abort as why:
        note(f"abort: {why}")
        history.say("ending", ending="abort")
        history.flush()
        insist(producer.abort_transaction, CALL)
        history.end("ok")
        return False


def send(history, producer, topic, partition, value, done=lambda: None):
    """Gives the client a record that the history has, and says where it landed once that is known."""
    op = history.op

    def delivered(error, message):
        if error:
            note(f"{value}: {error}")
        else:
            history.say("ack", op, value=value, offset=message.offset())
        done()

    producer.produce(topic, value, partition=partition, on_delivery=delivered)


def run(program, *arguments):
    """Runs a worker until it ends or cannot go on."""
    try:
        program(*arguments).run()
    except (KafkaException, Abort) as e:
        note(f"cannot go on: {e}")
        sys.stdout.flush()
        sys.exit(FATAL)
