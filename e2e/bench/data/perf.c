// Producing and consuming with librdkafka, as fast as it goes: one run, one line of NAME=NUMBER words on stdout.
//   perf produce HOST:PORT TOPIC RECORD COUNT    acks=all, idempotent; the first fifth is not counted
//   perf consume HOST:PORT TOPIC PARTITION COUNT
// The few functions of librdkafka's stable C interface that are used are declared here, so that only the library itself is needed.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_list_s rd_kafka_list_t;
typedef struct {
    int err;
    rd_kafka_topic_t *topic;
    int32_t partition;
    void *payload;
    size_t length;
    void *key;
    size_t key_length;
    int64_t offset;
    void *opaque;
} rd_kafka_message_t;
rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *, void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *));
rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t);
rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *, void *);
int rd_kafka_produce(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *);
int rd_kafka_poll(rd_kafka_t *, int);
int64_t rd_kafka_message_latency(const rd_kafka_message_t *);
rd_kafka_list_t *rd_kafka_topic_partition_list_new(int);
void *rd_kafka_topic_partition_list_add(rd_kafka_list_t *, const char *, int32_t);
int rd_kafka_topic_partition_list_set_offset(rd_kafka_list_t *, const char *, int32_t, int64_t);
int rd_kafka_assign(rd_kafka_t *, const rd_kafka_list_t *);
rd_kafka_message_t *rd_kafka_consumer_poll(rd_kafka_t *, int);
void rd_kafka_message_destroy(rd_kafka_message_t *);

enum { PRODUCER = 0, CONSUMER = 1, ANY_PARTITION = -1, COPY = 2, PATIENCE = 60 };

// Delivered and failed records; microseconds from produce to report of each that counts.
static long delivered, failed, warm, counted;
static uint32_t *took;
static double begun, ended;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void report(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    if (message->err) {
        failed++;
        return;
    }
    ended = now();
    if (++delivered == warm) begun = ended;
    else if (delivered > warm) took[counted++] = rd_kafka_message_latency(message);
}

static int by_size(const void *a, const void *b) {
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return (one > other) - (one < other);
}

static rd_kafka_t *open_client(int kind, const char *broker, const char *const (*settings)[2]) {
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    int bad = rd_kafka_conf_set(conf, "bootstrap.servers", broker, why, sizeof why);
    for (; !bad && (*settings)[0]; settings++) bad = rd_kafka_conf_set(conf, (*settings)[0], (*settings)[1], why, sizeof why);
    if (kind == PRODUCER) rd_kafka_conf_set_dr_msg_cb(conf, report);
    rd_kafka_t *client = bad ? NULL : rd_kafka_new(kind, conf, why, sizeof why);
    if (!client) fprintf(stderr, "client: %s\n", why);
    return client;
}

static int produce(const char *broker, const char *topic, size_t size, long count) {
    static const char *const settings[][2] = {{"enable.idempotence", "true"}, {"log_level", "2"}, {NULL, NULL}};
    rd_kafka_t *client = open_client(PRODUCER, broker, settings);
    if (!client) return 1;
    rd_kafka_topic_t *handle = rd_kafka_topic_new(client, topic, NULL);
    char *value = malloc(size);
    took = malloc(count * sizeof *took);
    if (!value || !took) return 1;
    for (size_t i = 0; i < size; i++) value[i] = i % 2 ? 'x' : rand();
    warm = count / 5;
    double deadline = now() + PATIENCE;
    for (long sent = 0; sent < count && now() < deadline;) {
        if (rd_kafka_produce(handle, ANY_PARTITION, COPY, value, size, NULL, 0, NULL) == 0) {
            if (++sent % 1000 == 0) rd_kafka_poll(client, 0);
        } else rd_kafka_poll(client, 10);
    }
    while (delivered + failed < count && now() < deadline) rd_kafka_poll(client, 100);
    if (delivered < count) {
        fprintf(stderr, "%ld of %ld records were delivered, %ld failed\n", delivered, count, failed);
        return 1;
    }
    qsort(took, counted, sizeof *took, by_size);
    printf("seconds=%.6f requests=%ld records=%ld bytes=%.0f p50=%u p99=%u\n", ended - begun, counted, counted,
           (double)counted * size, took[counted / 2], took[counted * 99 / 100]);
    return 0;
}

static int consume(const char *broker, const char *topic, int partition, long count) {
    static const char *const settings[][2] = {{"group.id", "perf"}, {"enable.auto.commit", "false"}, {"log_level", "2"}, {NULL, NULL}};
    rd_kafka_t *client = open_client(CONSUMER, broker, settings);
    if (!client) return 1;
    rd_kafka_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, partition);
    rd_kafka_topic_partition_list_set_offset(list, topic, partition, 0);
    if (rd_kafka_assign(client, list)) return 1;
    double deadline = now() + PATIENCE, bytes = 0;
    long seen = 0;
    while (seen < count && now() < deadline) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(client, 1000);
        if (!message) continue;
        if (!message->err) {
            // The time to connect is not the reading's.
            if (seen++ == 0) begun = now();
            bytes += message->length;
        }
        rd_kafka_message_destroy(message);
    }
    if (seen < count) {
        fprintf(stderr, "%ld of %ld records came\n", seen, count);
        return 1;
    }
    printf("seconds=%.6f requests=%ld records=%ld bytes=%.0f\n", now() - begun, seen, seen, bytes);
    return 0;
}

int main(int count, char **words) {
    int outcome = 1;
    if (count == 6 && strcmp(words[1], "produce") == 0) outcome = produce(words[2], words[3], atol(words[4]), atol(words[5]));
    else if (count == 6 && strcmp(words[1], "consume") == 0) outcome = consume(words[2], words[3], atoi(words[4]), atol(words[5]));
    else fprintf(stderr, "usage: perf produce HOST:PORT TOPIC RECORD COUNT | perf consume HOST:PORT TOPIC PARTITION COUNT\n");
    fflush(stdout);
    // Everything is measured; taking clients down takes seconds and tells nothing.
    _Exit(outcome);
}
