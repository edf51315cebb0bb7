// Transactions of librdkafka, cell by cell. README.md says what is read from stdin and written to stdout.
// The few functions of librdkafka's stable C interface that are used are declared here, so that only the library itself is needed.
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;
typedef struct rd_kafka_list_s rd_kafka_list_t;
typedef struct rd_kafka_group_s rd_kafka_group_t;
rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t);
rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *, void *);
int rd_kafka_produce(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *);
void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *, void (*)(rd_kafka_t *, const void *, void *));
void rd_kafka_topic_destroy(rd_kafka_topic_t *);
void rd_kafka_destroy(rd_kafka_t *);
rd_kafka_list_t *rd_kafka_topic_partition_list_new(int);
void *rd_kafka_topic_partition_list_add(rd_kafka_list_t *, const char *, int32_t);
int rd_kafka_topic_partition_list_set_offset(rd_kafka_list_t *, const char *, int32_t, int64_t);
rd_kafka_group_t *rd_kafka_consumer_group_metadata_new(const char *);
rd_kafka_error_t *rd_kafka_init_transactions(rd_kafka_t *, int);
rd_kafka_error_t *rd_kafka_begin_transaction(rd_kafka_t *);
rd_kafka_error_t *rd_kafka_send_offsets_to_transaction(rd_kafka_t *, const rd_kafka_list_t *, const rd_kafka_group_t *, int);
rd_kafka_error_t *rd_kafka_commit_transaction(rd_kafka_t *, int);
const char *rd_kafka_error_string(const rd_kafka_error_t *);
const char *rd_kafka_version_str(void);

enum { PRODUCER = 0, COPY = 2, PATIENCE = 30000, WARM_UP = 5, VALUE = 100, MOST = 16 };
static const char *const INPUT = "bench-input", *const OUTPUT = "bench-output", *const GROUP = "bench-group";

struct producer {
    rd_kafka_t *client;
    rd_kafka_topic_t *topic;
    rd_kafka_list_t *offsets;
    rd_kafka_group_t *group;
    int number, records, failed;
    int64_t offset, until;
    // Microseconds of each transaction and of its commit, one after the other.
    uint32_t *took;
    size_t count, room;
};

static int64_t now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000LL + time.tv_nsec / 1000;
}

static int fails(rd_kafka_error_t *error, const char *what) {
    if (error) fprintf(stderr, "%s: %s\n", what, rd_kafka_error_string(error));
    return error != NULL;
}

static int transact(struct producer *p) {
    static char value[VALUE];
    int64_t begun = now_us();
    if (fails(rd_kafka_begin_transaction(p->client), "begin")) return 1;
    for (int i = 0; i < p->records; i++)
        if (rd_kafka_produce(p->topic, p->number, COPY, value, VALUE, NULL, 0, NULL)) return 1;
    rd_kafka_topic_partition_list_set_offset(p->offsets, INPUT, p->number, ++p->offset);
    if (fails(rd_kafka_send_offsets_to_transaction(p->client, p->offsets, p->group, PATIENCE), "offsets")) return 1;
    int64_t ending = now_us();
    if (fails(rd_kafka_commit_transaction(p->client, PATIENCE), "commit")) return 1;
    int64_t done = now_us();
    if (p->count + 2 > p->room) {
        p->room = 2 * p->room + 1024;
        p->took = realloc(p->took, p->room * sizeof *p->took);
        if (!p->took) abort();
    }
    p->took[p->count++] = done - begun;
    p->took[p->count++] = done - ending;
    return 0;
}

static void *begin(void *context) {
    struct producer *p = context;
    p->failed = fails(rd_kafka_init_transactions(p->client, PATIENCE), "init");
    for (int i = 0; i < WARM_UP && !p->failed; i++) p->failed = transact(p);
    p->count = 0;
    return NULL;
}

static void *work(void *context) {
    struct producer *p = context;
    while (!p->failed && now_us() < p->until) p->failed = transact(p);
    return NULL;
}

// Without a listener for delivery reports librdkafka's flush, a part of commit, sleeps 10 ms instead of being woken.
static void delivered(rd_kafka_t *client, const void *message, void *opaque) {
    (void)client, (void)message, (void)opaque;
}

static int open_producer(struct producer *p, const char *broker, int number, int records) {
    char why[256], id[64];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    snprintf(id, sizeof id, "bench-librdkafka-%d", number);
    if (rd_kafka_conf_set(conf, "bootstrap.servers", broker, why, sizeof why) ||
        rd_kafka_conf_set(conf, "transactional.id", id, why, sizeof why) ||
        rd_kafka_conf_set(conf, "linger.ms", "0", why, sizeof why) ||
        rd_kafka_conf_set(conf, "log_level", "2", why, sizeof why)) {
        fprintf(stderr, "client: %s\n", why);
        return 1;
    }
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    if (!(p->client = rd_kafka_new(PRODUCER, conf, why, sizeof why))) {
        fprintf(stderr, "client: %s\n", why);
        return 1;
    }
    p->topic = rd_kafka_topic_new(p->client, OUTPUT, NULL);
    p->offsets = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(p->offsets, INPUT, number);
    p->group = rd_kafka_consumer_group_metadata_new(GROUP);
    p->number = number;
    p->records = records;
    return 0;
}

static int in_parallel(struct producer *all, int count, void *(*body)(void *)) {
    pthread_t threads[MOST];
    int failed = 0;
    for (int i = 0; i < count; i++) pthread_create(&threads[i], NULL, body, &all[i]);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < count; i++) failed |= all[i].failed;
    return failed;
}

static void cell(const char *broker, int producers, int records, int millis) {
    struct producer all[MOST] = {0};
    char go[16];
    for (int i = 0; i < producers; i++)
        if (open_producer(&all[i], broker, i, records)) { puts("error a client cannot be made"); return; }
    if (in_parallel(all, producers, begin)) { puts("error a first transaction failed"); return; }
    puts("ready");
    fflush(stdout);
    if (!fgets(go, sizeof go, stdin)) exit(1);
    int64_t begun = now_us();
    for (int i = 0; i < producers; i++) all[i].until = begun + millis * 1000LL;
    int failed = in_parallel(all, producers, work);
    double seconds = (now_us() - begun) / 1e6;
    if (failed) puts("error a transaction failed");
    else {
        printf("done %.6f", seconds);
        for (int i = 0; i < producers; i++)
            for (size_t k = 0; k + 1 < all[i].count; k += 2) printf(" %" PRIu32 ",%" PRIu32, all[i].took[k], all[i].took[k + 1]);
        puts("");
    }
    fflush(stdout);
    for (int i = 0; i < producers; i++) {
        rd_kafka_topic_destroy(all[i].topic);
        rd_kafka_destroy(all[i].client);
        free(all[i].took);
    }
}

int main(void) {
    char line[256], broker[128];
    int version, producers, records, millis;
    fprintf(stderr, "librdkafka %s\n", rd_kafka_version_str());
    while (fgets(line, sizeof line, stdin)) {
        int found = sscanf(line, "cell %127s %d %d %d %d", broker, &version, &producers, &records, &millis);
        if (found != 5 || version != 1 || producers < 1 || producers > MOST) puts("error not a cell for librdkafka");
        else cell(broker, producers, records, millis);
        fflush(stdout);
    }
    return 0;
}
