import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/** The programs of ../README.md. They must not know which broker they talk to, nor what the judge makes of what they say. */
public final class Main {
    private static final Duration LIMIT = Duration.ofSeconds(60);

    private Main() {}

    public static void main(String[] words) throws Exception {
        int code = 0;
        try {
            switch (words[0]) {
                case "app" -> app(words);
                case "feed" -> Feed.run(words[1]);
                case "drain" -> Look.drain(words[1], Long.parseLong(words[2]));
                case "look" -> Look.run(words[1], words[2]);
                default -> throw new IllegalArgumentException("no program " + words[0]);
            }
        } catch (Throwable thrown) {
            thrown.printStackTrace();
            code = 3;
        }
        System.out.flush();
        // Threads of clients that still try must not keep the process alive.
        Runtime.getRuntime().halt(code);
    }

    /** app BOOTSTRAP ID FOLDER INSTANCE GUARANTEE START */
    private static void app(String[] words) throws Exception {
        AtomicLong updates = new AtomicLong();
        KafkaStreams streams = new KafkaStreams(Shop.topology(Long.parseLong(words[6]), updates::incrementAndGet), settings(words));
        CountDownLatch over = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(thrown -> {
            Say.line("fatal", "why", String.valueOf(thrown));
            thrown.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((state, before) -> {
            System.err.println(before + " -> " + state);
            if (state == KafkaStreams.State.ERROR) {
                over.countDown();
            }
        });
        streams.start();
        new Thread(() -> listen(streams, over)).start();
        while (!over.await(20, TimeUnit.MILLISECONDS)) {
            report(updates);
        }
        CloseOptions leave = CloseOptions.groupMembershipOperation(GroupMembershipOperation.LEAVE_GROUP);
        if (!streams.close(leave.withTimeout(LIMIT))) {
            throw new IllegalStateException("not closed after " + LIMIT);
        }
        report(updates);
    }

    private static void report(AtomicLong updates) {
        long count = updates.getAndSet(0);
        if (count > 0) {
            Say.count("updates", count);
        }
    }

    /** Serves the lines on stdin; its end is the end of the application. */
    private static void listen(KafkaStreams streams, CountDownLatch over) {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                dump(streams);
            }
        } catch (Throwable thrown) {
            thrown.printStackTrace();
        }
        over.countDown();
    }

    /** Says everything that is in the stores of this instance, once it runs. */
    private static void dump(KafkaStreams streams) throws InterruptedException {
        long deadline = System.nanoTime() + LIMIT.toNanos();
        while (true) {
            try {
                List<String> stored = stored(streams);
                stored.forEach(value -> Say.line("stored", "v", value));
                Say.count("dumped", stored.size());
                return;
            } catch (InvalidStateStoreException notYet) {
                // A rebalance is on: the stores are closed, or on their way to the other instance.
                if (System.nanoTime() > deadline) {
                    throw notYet;
                }
                Thread.sleep(50);
            }
        }
    }

    private static List<String> stored(KafkaStreams streams) {
        if (streams.state() != KafkaStreams.State.RUNNING) {
            throw new InvalidStateStoreException("the application does not run");
        }
        List<String> stored = new ArrayList<>();
        boolean none = streams.metadataForLocalThreads().stream().flatMap(thread -> thread.activeTasks().stream())
            .flatMap(task -> task.topicPartitions().stream()).noneMatch(place -> place.topic().endsWith("-sales-repartition"));
        if (none) {
            return stored;
        }
        var totals = streams.store(
            StoreQueryParameters.fromNameAndType(Shop.TOTALS, QueryableStoreTypes.<String, String>keyValueStore()));
        try (var all = totals.all()) {
            all.forEachRemaining(entry -> stored.add(Shop.TOTALS + " " + entry.value));
        }
        var windows = streams.store(
            StoreQueryParameters.fromNameAndType(Shop.WINDOWS, QueryableStoreTypes.<String, String>windowStore()));
        try (var all = windows.all()) {
            all.forEachRemaining(entry -> stored.add(Shop.WINDOWS + " " + entry.value));
        }
        return stored;
    }

    private static Properties settings(String[] words) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[1]);
        settings.put("application.id", words[2]);
        settings.put("state.dir", words[3]);
        settings.put("processing.guarantee", words[5]);
        settings.put("group.protocol", "classic");
        settings.put("num.stream.threads", 2);
        // Every update is forwarded at once and can be counted.
        settings.put("statestore.cache.max.bytes", 0);
        settings.put("repartition.purge.interval.ms", 500);
        // Work moves to a new instance at once, and not only after it has caught up.
        settings.put("acceptable.recovery.lag", 1_000_000_000L);
        settings.put("reconnect.backoff.ms", 20);
        settings.put("reconnect.backoff.max.ms", 200);
        settings.put("retry.backoff.ms", 20);
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("consumer.session.timeout.ms", 6000);
        settings.put("consumer.heartbeat.interval.ms", 300);
        settings.put("consumer.max.poll.interval.ms", 30000);
        settings.put("consumer.fetch.max.wait.ms", 50);
        settings.put("producer.linger.ms", 2);
        // A static member's successor takes over at once; the death of a dynamic one is seen when its session times out.
        if (!words[4].equals("dynamic")) {
            settings.put("consumer.group.instance.id", words[4]);
        }
        return settings;
    }
}
