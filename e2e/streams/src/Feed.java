import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Where the input comes from. */
final class Feed {
    private static final int PARTITIONS = 4;

    private Feed() {}

    /** feed BOOTSTRAP: makes the topics, then sends as many orders, and as many payments, as each line on stdin asks for. */
    static void run(String bootstrap) throws Exception {
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap))) {
            List<NewTopic> topics = Stream.of(Shop.ORDERS, Shop.PAYMENTS, Shop.TOTALS, Shop.WINDOWS)
                .map(name -> new NewTopic(name, PARTITIONS, (short) 1)).toList();
            admin.createTopics(topics).all().get();
        }
        Say.count("ready", PARTITIONS);
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "acks", "all", "enable.idempotence", true, "linger.ms", 2,
            "delivery.timeout.ms", 300000, "max.block.ms", 300000, "reconnect.backoff.max.ms", 200, "retry.backoff.ms", 20);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
                BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            int next = 0;
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                for (int end = next + Integer.parseInt(line); next < end; next++) {
                    send(producer, Shop.ORDERS, next);
                    send(producer, Shop.PAYMENTS, next);
                }
            }
        }
    }

    private static void send(KafkaProducer<String, String> producer, String topic, int n) {
        producer.send(new ProducerRecord<>(topic, n % PARTITIONS, null, "v" + n), (place, error) -> {
            if (error != null) {
                Say.line("unsent", "v", topic + " v" + n + ": " + error);
            }
        });
    }
}
