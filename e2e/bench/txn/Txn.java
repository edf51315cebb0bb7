// Transactions of Kafka's own Java client, cell by cell. README.md says what is read from stdin and written to stdout.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Txn {
    private static final String INPUT = "bench-input";
    private static final String OUTPUT = "bench-output";
    private static final ConsumerGroupMetadata GROUP = new ConsumerGroupMetadata("bench-group");
    private static final int WARM_UP = 5;
    private static final byte[] VALUE = new byte[100];

    private static final class Producer implements AutoCloseable {
        private final KafkaProducer<byte[], byte[]> client;
        private final int number;
        private final int records;
        private long offset;
        private final StringBuilder took = new StringBuilder();

        Producer(String broker, int number, int records) {
            Map<String, Object> settings = Map.of(
                "bootstrap.servers", broker,
                "transactional.id", "bench-java-" + number,
                "linger.ms", 0);
            client = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
            this.number = number;
            this.records = records;
        }

        Void begin() {
            client.initTransactions();
            for (int i = 0; i < WARM_UP; i++) transact();
            took.setLength(0);
            return null;
        }

        Void work(long until) {
            while (System.nanoTime() < until) transact();
            return null;
        }

        private void transact() {
            long begun = System.nanoTime();
            client.beginTransaction();
            for (int i = 0; i < records; i++) client.send(new ProducerRecord<>(OUTPUT, number, null, VALUE));
            client.sendOffsetsToTransaction(
                Map.of(new TopicPartition(INPUT, number), new OffsetAndMetadata(++offset)), GROUP);
            long ending = System.nanoTime();
            client.commitTransaction();
            long done = System.nanoTime();
            took.append(' ').append((done - begun) / 1000).append(',').append((done - ending) / 1000);
        }

        @Override
        public void close() {
            client.close();
        }
    }

    private static void together(ExecutorService threads, List<Callable<Void>> work) throws Exception {
        for (Future<Void> done : threads.invokeAll(work)) done.get();
    }

    private static void cell(String[] words, BufferedReader lines) throws Exception {
        int count = Integer.parseInt(words[3]);
        int records = Integer.parseInt(words[4]);
        long time = Long.parseLong(words[5]) * 1_000_000;
        List<Producer> producers = new ArrayList<>();
        ExecutorService threads = Executors.newFixedThreadPool(count);
        try {
            for (int i = 0; i < count; i++) producers.add(new Producer(words[1], i, records));
            together(threads, producers.stream().map(p -> (Callable<Void>) p::begin).toList());
            System.out.println("ready");
            lines.readLine();
            long begun = System.nanoTime();
            together(threads, producers.stream().map(p -> (Callable<Void>) () -> p.work(begun + time)).toList());
            StringBuilder done = new StringBuilder("done " + (System.nanoTime() - begun) / 1e9);
            producers.forEach(p -> done.append(p.took));
            System.out.println(done);
        } finally {
            threads.shutdown();
            producers.forEach(Producer::close);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            try {
                if (words.length != 6 || !words[2].equals("2")) throw new IllegalArgumentException("not a cell: " + line);
                cell(words, lines);
            } catch (Exception error) {
                System.out.println("error " + error.toString().replace('\n', ' '));
            }
        }
    }
}
