import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/** What one process asks for and sees, as lines of the checker's format on stdout. */
final class History {
    private final String process;
    private final PrintStream out =
        new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 20), false, StandardCharsets.UTF_8);
    private int op;

    History(String process) {
        this.process = process;
    }

    static String key(TopicPartition place) {
        return place.topic() + "/" + place.partition();
    }

    /** To be called before doing what was said: a process that is killed then has still said it. */
    void flush() {
        out.flush();
    }

    String process() {
        return process;
    }

    /** The number of the operation under way. */
    int op() {
        return op;
    }

    void begin(String kind) {
        op++;
        say(op, "begin", text("kind", kind) + now());
    }

    void end() {
        say(op, "end", text("outcome", "ok") + now());
        flush();
    }

    void assigned(TopicPartition place) {
        say(op, "assigned", text("key", key(place)));
    }

    void read(ConsumerRecord<String, String> record) {
        TopicPartition place = new TopicPartition(record.topic(), record.partition());
        say(op, "read", text("key", key(place)) + number("offset", record.offset()) + text("value", record.value()));
    }

    /** A record is about to be sent that was made from another. */
    void write(TopicPartition target, String value, ConsumerRecord<String, String> from) {
        TopicPartition place = new TopicPartition(from.topic(), from.partition());
        String source = ",\"from\":{\"key\":\"" + key(place) + "\"" + number("offset", from.offset()) + "}";
        say(op, "write", text("key", key(target)) + text("value", value) + source);
    }

    /** The transaction is to commit this offset. */
    void offset(String group, TopicPartition place, long offset) {
        say(op, "offset", text("group", group) + text("key", key(place)) + number("offset", offset));
    }

    /** The group has committed this offset, or none. */
    void committed(String group, TopicPartition place, Long offset) {
        say(op, "committed", text("group", group) + text("key", key(place)) + number("offset", offset));
    }

    void ending(String ending) {
        say(op, "ending", text("ending", ending));
        flush();
    }

    void ack(int op, String value, long offset) {
        say(op, "ack", text("value", value) + number("offset", offset));
    }

    private static String now() {
        return number("at", ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now()));
    }

    private static String number(String name, Long number) {
        return ",\"" + name + "\":" + number;
    }

    /** Nothing that is said here needs an escape. */
    private static String text(String name, String text) {
        return ",\"" + name + "\":\"" + text + "\"";
    }

    private void say(int op, String event, String facts) {
        out.print("{\"event\":\"" + event + "\",\"process\":\"" + process + "\",\"op\":" + op + facts + "}\n");
    }
}
