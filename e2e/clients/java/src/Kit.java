import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What several scenarios need: clients with the common settings, checks, waiting, the proxy. */
final class Kit {
    static final Duration LIMIT = Duration.ofSeconds(30);
    static final Duration POLL = Duration.ofMillis(100);

    private Kit() {}

    static void check(boolean holds, String message) {
        if (!holds) {
            throw new Main.Failed(message);
        }
    }

    static void equal(Object seen, Object wanted, String what) {
        check(Objects.equals(seen, wanted), what + ": saw " + seen + ", not " + wanted);
    }

    /** A probe that may throw what admin calls throw. */
    interface Probe {
        boolean holds() throws Exception;
    }

    static void until(String what, Probe probe) throws Exception {
        long deadline = System.nanoTime() + LIMIT.toNanos();
        while (!probe.holds()) {
            check(System.nanoTime() < deadline, "not in time: " + what);
            Thread.sleep(10);
        }
    }

    /** TLS and SASL, when the runner asks for them. */
    static Map<String, Object> security() {
        Map<String, Object> settings = new TreeMap<>();
        String user = System.getenv("E2E_USER");
        if (user != null) {
            settings.put("security.protocol", "SASL_SSL");
            settings.put("ssl.truststore.type", "PEM");
            settings.put("ssl.truststore.location", System.getenv("E2E_CA"));
            settings.put("sasl.mechanism", "SCRAM-SHA-512");
            settings.put("sasl.jaas.config", "org.apache.kafka.common.security.scram.ScramLoginModule required username=\""
                + user + "\" password=\"" + System.getenv("E2E_PASSWORD") + "\";");
        }
        return settings;
    }

    static Admin admin(Main.Env env) {
        Map<String, Object> settings = security();
        settings.put("bootstrap.servers", env.bootstrap());
        return Admin.create(settings);
    }

    static void create(Main.Env env, String topic, int partitions, Map<String, String> configs) throws Exception {
        try (Admin admin = admin(env)) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(configs))).all().get();
        }
    }

    static void create(Main.Env env, String topic, int partitions) throws Exception {
        create(env, topic, partitions, Map.of());
    }

    static KafkaProducer<byte[], byte[]> producer(Main.Env env, Map<String, Object> more) {
        Map<String, Object> settings = new TreeMap<>(Map.of(
            "bootstrap.servers", env.bootstrap(), "acks", "all", "linger.ms", 5, "max.block.ms", 30000));
        settings.putAll(security());
        settings.putAll(more);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(Main.Env env, Map<String, Object> more) {
        Map<String, Object> settings = new TreeMap<>(Map.of(
            "bootstrap.servers", env.bootstrap(), "auto.offset.reset", "earliest", "enable.auto.commit", false,
            "heartbeat.interval.ms", 500, "session.timeout.ms", 10000, "fetch.max.wait.ms", 100));
        settings.putAll(security());
        settings.putAll(more);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    static List<TopicPartition> partitions(String topic, int count) {
        return IntStream.range(0, count).mapToObj(p -> new TopicPartition(topic, p)).toList();
    }

    /** Sends values and, on flush, throws for any that was not acknowledged. */
    static final class Sender {
        private final KafkaProducer<byte[], byte[]> producer;
        private final String topic;
        private final List<Future<RecordMetadata>> acks = new ArrayList<>();

        Sender(KafkaProducer<byte[], byte[]> producer, String topic) {
            this.producer = producer;
            this.topic = topic;
        }

        void send(int partition, String value) {
            send(new ProducerRecord<>(topic, partition, null, bytes(value)));
        }

        void send(ProducerRecord<byte[], byte[]> record) {
            acks.add(producer.send(record));
        }

        /** Numbers `start` to `stop`, spread over the partitions. */
        void numbers(int start, int stop, int partitions) {
            for (int i = start; i < stop; i++) {
                send(i % partitions, Integer.toString(i));
            }
        }

        List<RecordMetadata> flush() throws Exception {
            producer.flush();
            List<RecordMetadata> seen = new ArrayList<>();
            for (Future<RecordMetadata> ack : acks) {
                seen.add(ack.get());
            }
            acks.clear();
            return seen;
        }
    }

    /** Reads all partitions from the beginning without a group. */
    static final class Reader implements AutoCloseable {
        final KafkaConsumer<byte[], byte[]> consumer;
        final List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        private final int partitions;

        Reader(Main.Env env, String topic, int partitions, String isolation) {
            consumer = Kit.consumer(env, Map.of("isolation.level", isolation));
            consumer.assign(Kit.partitions(topic, partitions));
            consumer.seekToBeginning(consumer.assignment());
            this.partitions = partitions;
        }

        void step() {
            consumer.poll(POLL).forEach(records::add);
        }

        void until(String what, BooleanSupplier condition) {
            long deadline = System.nanoTime() + LIMIT.toNanos();
            while (!condition.getAsBoolean()) {
                check(System.nanoTime() < deadline, "not in time: " + what);
                step();
            }
        }

        /** The values of each partition in order. */
        Map<Integer, List<String>> values() {
            Map<Integer, List<String>> values = new TreeMap<>();
            IntStream.range(0, partitions).forEach(p -> values.put(p, new ArrayList<>()));
            records.forEach(r -> values.get(r.partition()).add(text(r.value())));
            return values;
        }

        Map<Integer, List<String>> toEnd() {
            until("the end records", () -> values().values().stream()
                .allMatch(v -> !v.isEmpty() && v.get(v.size() - 1).equals("end")));
            close();
            return values();
        }

        @Override
        public void close() {
            consumer.close();
        }
    }

    static Map<Integer, List<String>> readToEnd(Main.Env env, String topic, int partitions, String isolation) {
        return new Reader(env, topic, partitions, isolation).toEnd();
    }

    /** Sends a word to the runner's proxy and returns the number in its answer. */
    static int proxy(String word) throws Exception {
        String[] address = System.getenv("E2E_PROXY_CONTROL").split(":");
        try (Socket control = new Socket(address[0], Integer.parseInt(address[1]))) {
            control.getOutputStream().write(bytes(word + "\n"));
            String answer = new BufferedReader(new InputStreamReader(control.getInputStream())).readLine();
            System.err.println("proxy: " + word + " -> " + answer);
            return Integer.parseInt(answer.split(" ")[1]);
        }
    }
}
