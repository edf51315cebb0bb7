import java.time.Duration;
import java.util.function.LongUnaryOperator;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * The topology: each order is joined with its payment, and both amounts are added up per customer, in all and per window of time.
 * Everything is a function of the number n in the input value "vn"; ../README.md has it, and the judge computes it again.
 */
final class Shop {
    static final String ORDERS = "orders";
    static final String PAYMENTS = "payments";
    static final String TOTALS = "totals";
    static final String WINDOWS = "windows";
    static final long CUSTOMERS = 20;
    /** Time between record n and record n + 1, in ms of the application's own time: a broker takes no times that are far ahead of its own. */
    static final long STEP = 10;
    static final Duration WINDOW = Duration.ofMillis(50 * STEP);
    /** Late records must not be dropped, however far one partition is ahead of another. */
    private static final Duration GRACE = Duration.ofHours(24);
    private static final Serde<String> TEXT = Serdes.String();

    private Shop() {}

    /** `start` is the time of record 0 in ms; `seen` is run for each update of a total. */
    static Topology topology(long start, Runnable seen) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> orders = byNumber(builder, ORDERS, start, n -> n * 31 % 1000);
        KStream<String, String> payments = byNumber(builder, PAYMENTS, start, n -> n * 17 % 1000);
        JoinWindows within = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMinutes(1), GRACE);
        KGroupedStream<String, String> sales = orders
            .join(payments, Shop::add, within, StreamJoined.with(TEXT, TEXT, TEXT).withName("paid").withStoreName("paid"))
            .selectKey((number, sale) -> "c" + number(sale) % CUSTOMERS)
            .repartition(Repartitioned.with(TEXT, TEXT).withName("sales"))
            .groupByKey(Grouped.with(TEXT, TEXT));
        Materialized<String, String, KeyValueStore<Bytes, byte[]>> totals = Materialized.as(TOTALS);
        sales.aggregate(() -> "", Shop::count, totals.withKeySerde(TEXT).withValueSerde(TEXT))
            .toStream()
            .peek((customer, total) -> seen.run())
            .to(TOTALS, Produced.with(TEXT, TEXT));
        Materialized<String, String, WindowStore<Bytes, byte[]>> windows = Materialized.as(WINDOWS);
        sales.windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, GRACE))
            .aggregate(() -> "", Shop::count, windows.withKeySerde(TEXT).withValueSerde(TEXT))
            .toStream((window, total) -> window.key() + "@" + (window.window().start() - start))
            .to(WINDOWS, Produced.with(TEXT, TEXT));
        return builder.build();
    }

    /** The values "vn" of a topic as "n AMOUNT", each with its own time, repartitioned by n. */
    private static KStream<String, String> byNumber(StreamsBuilder builder, String topic, long start, LongUnaryOperator amount) {
        Consumed<String, String> how = Consumed.with(TEXT, TEXT)
            .withTimestampExtractor((record, before) -> start + number(((String) record.value()).substring(1)) * STEP);
        return builder.stream(topic, how)
            .map((none, value) -> {
                String n = value.substring(1);
                return KeyValue.pair(n, n + " " + amount.applyAsLong(number(n)));
            })
            .repartition(Repartitioned.with(TEXT, TEXT).withName(topic));
    }

    /** The number a value starts with. */
    private static long number(String value) {
        return Long.parseLong(value.split(" ")[0]);
    }

    private static String add(String order, String payment) {
        String[] left = order.split(" ");
        return left[0] + " " + (Long.parseLong(left[1]) + Long.parseLong(payment.split(" ")[1]));
    }

    /** The next "CUSTOMER n COUNT SUM" after the last one and a sale "n AMOUNT". */
    private static String count(String customer, String sale, String last) {
        String[] words = sale.split(" ");
        String[] before = last.isEmpty() ? new String[] {"", "", "0", "0"} : last.split(" ");
        long count = Long.parseLong(before[2]) + 1;
        long sum = Long.parseLong(before[3]) + Long.parseLong(words[1]);
        return customer + " " + words[0] + " " + count + " " + sum;
    }
}
