import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;

/** Transactions and what readers see of them. */
final class Transactions {
    private static final String COMMITTED = "read_committed";
    private static final String UNCOMMITTED = "read_uncommitted";

    private Transactions() {}

    private static KafkaProducer<byte[], byte[]> transactional(Main.Env env) {
        KafkaProducer<byte[], byte[]> producer =
            Kit.producer(env, Map.of("transactional.id", env.runId() + "-t", "transaction.timeout.ms", 60000));
        producer.initTransactions();
        return producer;
    }

    private static void writeEnd(KafkaProducer<byte[], byte[]> producer, String topic, int partitions) {
        producer.beginTransaction();
        Kit.Sender sender = new Kit.Sender(producer, topic);
        IntStream.range(0, partitions).forEach(p -> sender.send(p, "end"));
        producer.commitTransaction();
    }

    static String commitAbort(Main.Env env) throws Exception {
        Kit.create(env, env.runId(), 2);
        try (KafkaProducer<byte[], byte[]> producer = transactional(env)) {
            Kit.Sender sender = new Kit.Sender(producer, env.runId());
            for (int t = 0; t < 6; t++) {
                producer.beginTransaction();
                for (int i = 0; i < 20; i++) {
                    sender.send(i % 2, t + "-" + i);
                }
                sender.flush();
                if (t % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
            writeEnd(producer, env.runId(), 2);
        }
        for (int p = 0; p < 2; p++) {
            Kit.equal(Kit.readToEnd(env, env.runId(), 2, COMMITTED).get(p), written(p, 2), COMMITTED);
            Kit.equal(Kit.readToEnd(env, env.runId(), 2, UNCOMMITTED).get(p), written(p, 1), UNCOMMITTED);
        }
        return "";
    }

    /** What every `step`-th transaction wrote to a partition, and the end. */
    private static List<String> written(int partition, int step) {
        List<String> values = new ArrayList<>();
        for (int t = 0; t < 6; t += step) {
            for (int i = partition; i < 20; i += 2) {
                values.add(t + "-" + i);
            }
        }
        values.add("end");
        return values;
    }

    static String consumeTransformProduce(Main.Env env) throws Exception {
        String source = env.runId() + "-in";
        String sink = env.runId() + "-out";
        String group = env.runId() + "-g";
        Kit.create(env, source, 2);
        Kit.create(env, sink, 2);
        try (KafkaProducer<byte[], byte[]> plain = Kit.producer(env, Map.of())) {
            Kit.Sender sender = new Kit.Sender(plain, source);
            sender.numbers(0, 200, 2);
            sender.flush();
        }
        Map<String, Object> settings = Map.of("group.id", group, "isolation.level", COMMITTED, "max.poll.records", 50);
        try (KafkaProducer<byte[], byte[]> producer = transactional(env);
             KafkaConsumer<byte[], byte[]> consumer = Kit.consumer(env, settings)) {
            consumer.subscribe(List.of(source));
            copy(consumer, producer, sink);
            writeEnd(producer, sink, 2);
        }
        Map<Integer, List<String>> copied = Kit.readToEnd(env, sink, 2, COMMITTED);
        for (int p = 0; p < 2; p++) {
            int partition = p;
            List<String> wanted = IntStream.range(0, 100).mapToObj(n -> "out-" + (n * 2 + partition)).sorted().toList();
            List<String> seen = copied.get(p).stream().filter(v -> !v.equals("end")).sorted().toList();
            Kit.equal(seen, wanted, "output partition " + p);
        }
        int all = Kit.readToEnd(env, sink, 2, UNCOMMITTED).values().stream().mapToInt(v -> v.size() - 1).sum();
        Kit.check(all > 200, "the aborted round left nothing: " + all + " records");
        Kit.equal(Groups.committed(env, group), List.of(100L, 100L), "committed offsets");
        System.err.println((all - 200) + " records of the aborted round stayed hidden");
        return "";
    }

    private static void copy(KafkaConsumer<byte[], byte[]> consumer, KafkaProducer<byte[], byte[]> producer, String sink)
            throws Exception {
        int copied = 0;
        int rounds = 0;
        long deadline = System.nanoTime() + Kit.LIMIT.toNanos();
        Kit.Sender sender = new Kit.Sender(producer, sink);
        while (copied < 200) {
            Kit.check(System.nanoTime() < deadline, "only " + copied + " records copied");
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Kit.POLL);
            if (records.isEmpty()) {
                continue;
            }
            rounds++;
            producer.beginTransaction();
            for (ConsumerRecord<byte[], byte[]> record : records) {
                sender.send(record.partition(), "out-" + Kit.text(record.value()));
            }
            Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
            consumer.assignment().forEach(tp -> positions.put(tp, new OffsetAndMetadata(consumer.position(tp))));
            producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
            if (rounds == 2) {
                sender.flush();
                producer.abortTransaction();
                Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
                committed.forEach((tp, offset) -> consumer.seek(tp, offset == null ? 0 : offset.offset()));
                continue;
            }
            producer.commitTransaction();
            copied += records.count();
        }
    }

    static String zombieFenced(Main.Env env) throws Exception {
        Kit.create(env, env.runId(), 1);
        KafkaProducer<byte[], byte[]> zombie = transactional(env);
        zombie.beginTransaction();
        Kit.Sender sender = new Kit.Sender(zombie, env.runId());
        sender.send(0, "zombie-1");
        sender.flush();
        KafkaProducer<byte[], byte[]> winner = transactional(env);
        winner.beginTransaction();
        new Kit.Sender(winner, env.runId()).send(0, "winner");
        winner.commitTransaction();
        String call = "nothing";
        Throwable error = null;
        try {
            call = "send";
            sender.send(0, "zombie-2");
            call = "flush";
            sender.flush();
            call = "commitTransaction";
            zombie.commitTransaction();
        } catch (ExecutionException | KafkaException thrown) {
            error = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
        }
        boolean fenced = error instanceof ProducerFencedException || error instanceof InvalidProducerEpochException;
        Kit.check(fenced, call + " failed with " + error);
        String commit = commitOf(zombie);
        zombie.close(Kit.LIMIT);
        writeEnd(winner, env.runId(), 1);
        winner.close();
        Kit.equal(Kit.readToEnd(env, env.runId(), 1, COMMITTED).get(0), List.of("winner", "end"), COMMITTED);
        return call + ": " + error.getClass().getSimpleName() + ", then commit: " + commit;
    }

    /** The zombie's commit must fail whatever its send met. */
    private static String commitOf(KafkaProducer<byte[], byte[]> zombie) {
        try {
            zombie.commitTransaction();
        } catch (KafkaException thrown) {
            return thrown.getClass().getSimpleName();
        }
        throw new Main.Failed("the zombie committed");
    }

    static String readCommittedOpen(Main.Env env) throws Exception {
        Kit.create(env, env.runId(), 1);
        List<String> all = List.of("before", "open", "after");
        try (KafkaProducer<byte[], byte[]> plain = Kit.producer(env, Map.of());
             KafkaProducer<byte[], byte[]> producer = transactional(env);
             Kit.Reader dirty = new Kit.Reader(env, env.runId(), 1, UNCOMMITTED);
             Kit.Reader clean = new Kit.Reader(env, env.runId(), 1, COMMITTED);
             Admin admin = Kit.admin(env)) {
            Kit.Sender outside = new Kit.Sender(plain, env.runId());
            Kit.Sender inside = new Kit.Sender(producer, env.runId());
            outside.send(0, "before");
            outside.flush();
            producer.beginTransaction();
            inside.send(0, "open");
            inside.flush();
            outside.send(0, "after");
            outside.flush();
            dirty.until("3 uncommitted records", () -> dirty.records.size() >= 3);
            Kit.equal(dirty.values().get(0), all, UNCOMMITTED);
            clean.until("the record before", () -> !clean.records.isEmpty());
            IntStream.range(0, 10).forEach(n -> clean.step());
            Kit.equal(clean.values().get(0), List.of("before"), "read_committed while open");
            OffsetSpec latest = OffsetSpec.latest();
            Kit.equal(AdminCalls.offset(admin, env.runId(), latest, IsolationLevel.READ_COMMITTED), 1L, "latest, committed");
            Kit.equal(AdminCalls.offset(admin, env.runId(), latest, IsolationLevel.READ_UNCOMMITTED), 3L, "latest");
            producer.commitTransaction();
            clean.until("the rest", () -> clean.records.size() >= 3);
            Kit.equal(clean.values().get(0), all, "read_committed after the commit");
        }
        return "";
    }
}
