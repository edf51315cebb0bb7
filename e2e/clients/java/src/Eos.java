import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The worker of `cargo xtask eos` (../../../exactly-once.md): consume, transform, produce; each batch and the offsets behind it in
 * one transaction.
 */
public final class Eos {
    /** Records in one transaction, at most. */
    private static final int BATCH = 20;
    /** Time that one call to the broker may take before it is made again. */
    private static final int CALL_MS = 3000;
    /** A call that takes longer than this, all attempts together, ends the program: it must not stop the pipeline. */
    private static final Duration WATCH = Duration.ofSeconds(24);

    private final String group;
    private final String target;
    private final History history;
    private final Random chance;
    private final KafkaConsumer<String, String> consumer;
    private final KafkaProducer<String, String> producer;
    private final int partitions;
    /** Partitions whose place is new. */
    private final Set<TopicPartition> anew = new HashSet<>();
    private int written;
    private volatile long called = System.nanoTime();

    /** work BOOTSTRAP SOURCE TARGET GROUP SLOT static|dynamic SEED: until stdin is closed. */
    public static void main(String[] words) {
        int code = 0;
        try {
            new Eos(words).run(words[2]);
        } catch (Throwable thrown) {
            thrown.printStackTrace();
            code = 3;
        }
        // Threads of clients that still try must not keep the process alive.
        Runtime.getRuntime().halt(code);
    }

    private Eos(String[] words) {
        long seed = Long.parseUnsignedLong(words[7]);
        String bootstrap = words[1];
        String slot = words[5];
        target = words[3];
        group = words[4];
        history = new History("work-" + slot + "." + Integer.toHexString((int) seed));
        chance = new Random(seed + slot.hashCode());
        Thread watch = new Thread(this::watch);
        watch.setDaemon(true);
        watch.start();
        Map<String, Object> consuming = common(bootstrap);
        consuming.putAll(Map.of("group.id", group, "auto.offset.reset", "earliest", "enable.auto.commit", false, "isolation.level",
            "read_committed", "session.timeout.ms", 6000, "heartbeat.interval.ms", 200, "fetch.max.wait.ms", 50, "max.poll.records", BATCH));
        if (words[6].equals("static")) {
            consuming.put("group.instance.id", group + "-" + slot);
        }
        consumer = new KafkaConsumer<>(consuming, new StringDeserializer(), new StringDeserializer());
        Map<String, Object> producing = common(bootstrap);
        producing.putAll(Map.of("transactional.id", group + "-" + slot, "transaction.timeout.ms", 8000, "linger.ms", 0,
            "max.block.ms", CALL_MS, "request.timeout.ms", 5000, "delivery.timeout.ms", 20000));
        producer = new KafkaProducer<>(producing, new StringSerializer(), new StringSerializer());
        partitions = insist(() -> producer.partitionsFor(target)).size();
        insist(producer::initTransactions);
    }

    private static Map<String, Object> common(String bootstrap) {
        return new HashMap<>(Map.of("bootstrap.servers", bootstrap, "reconnect.backoff.ms", 20, "reconnect.backoff.max.ms", 200,
            "retry.backoff.ms", 20, "default.api.timeout.ms", CALL_MS, "request.timeout.ms", CALL_MS));
    }

    private void run(String source) throws Exception {
        consumer.subscribe(List.of(source), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> places) {}

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> places) {
                anew.addAll(places);
            }
        });
        Thread stdin = new Thread(Eos::awaitEnd);
        stdin.setDaemon(true);
        stdin.start();
        while (stdin.isAlive()) {
            called = System.nanoTime();
            List<ConsumerRecord<String, String>> batch = new ArrayList<>();
            consumer.poll(Duration.ofMillis(200)).forEach(batch::add);
            if (!batch.isEmpty() && !transaction(batch)) {
                rewind();
            }
        }
        called = System.nanoTime();
        consumer.close();
        producer.close();
    }

    private static void awaitEnd() {
        try {
            while (System.in.read() >= 0) {
                // Nothing is asked of a worker.
            }
        } catch (IOException gone) {
            System.err.println("stdin: " + gone);
        }
    }

    /** The transaction has to be aborted; the client continues. */
    private static final class Abort extends RuntimeException {
        Abort(String why, Throwable cause) {
            super(why, cause);
        }
    }

    /** Whether the batch was committed. */
    private boolean transaction(List<ConsumerRecord<String, String>> batch) {
        history.begin("txn");
        producer.beginTransaction();
        try {
            move(batch);
            history.ending("commit");
            insist(producer::commitTransaction);
            history.end();
            return true;
        } catch (Abort why) {
            System.err.println("abort: " + why.getMessage());
            history.ending("abort");
            insist(producer::abortTransaction);
            history.end();
            return false;
        }
    }

    private void move(List<ConsumerRecord<String, String>> batch) {
        anew.forEach(history::assigned);
        anew.clear();
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        Map<ConsumerRecord<String, String>, String> texts = new LinkedHashMap<>();
        for (ConsumerRecord<String, String> record : batch) {
            history.read(record);
            // With the count every value is one of its own: the same input may be written again after an abort.
            String text = record.partition() + " " + record.offset() + " " + record.value() + " " + history.process() + "." + ++written;
            history.write(place(record), text, record);
            texts.put(record, text);
            ends.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        ends.forEach((place, end) -> history.offset(group, place, end.offset()));
        history.flush();
        int op = history.op();
        texts.forEach((record, text) -> insist(() -> producer.send(
            new ProducerRecord<>(target, place(record).partition(), null, text), (at, error) -> {
                if (error == null) {
                    history.ack(op, text, at.offset());
                } else {
                    System.err.println(text + ": " + error);
                }
            })));
        insist(() -> producer.sendOffsetsToTransaction(ends, consumer.groupMetadata()));
        if (chance.nextInt(10) == 0) {
            producer.flush();
            throw new Abort("on purpose", null);
        }
    }

    private TopicPartition place(ConsumerRecord<String, String> record) {
        return new TopicPartition(target, (int) (record.offset() % partitions));
    }

    /** Back to the committed offsets, wherever the consumer is. */
    private void rewind() {
        Set<TopicPartition> places = consumer.assignment();
        Map<TopicPartition, OffsetAndMetadata> committed = insist(() -> consumer.committed(places));
        history.begin("poll");
        for (TopicPartition place : places) {
            OffsetAndMetadata at = committed.get(place);
            history.committed(group, place, at == null ? null : at.offset());
            if (at == null) {
                consumer.seekToBeginning(List.of(place));
            } else {
                consumer.seek(place, at);
            }
            anew.add(place);
        }
        history.end();
    }

    private interface Call<T> {
        T make();
    }

    private void insist(Runnable call) {
        insist(() -> {
            call.run();
            return null;
        });
    }

    /** Repeats a call that was not answered in time; says with the exception what to do otherwise. */
    private <T> T insist(Call<T> call) {
        called = System.nanoTime();
        while (true) {
            try {
                return call.make();
            } catch (TimeoutException late) {
                System.err.println(late + ", once more");
            } catch (ApplicationRecoverableException | AuthorizationException | UnsupportedVersionException fatal) {
                throw fatal;
            } catch (KafkaException error) {
                throw new Abort(error.toString(), error);
            }
        }
    }

    private void watch() {
        while (System.nanoTime() - called < WATCH.toNanos()) {
            try {
                Thread.sleep(100);
            } catch (InterruptedException end) {
                return;
            }
        }
        System.err.println("a call hangs");
        Thread.getAllStackTraces().forEach((thread, trace) -> System.err.println(thread + " " + List.of(trace)));
        Runtime.getRuntime().halt(3);
    }
}
