// The franz-go client of the end-to-end tests, run as `franz-go BOOTSTRAP SCENARIO RUN_ID`; ../../README.md has the contract.
// It must not know which broker it talks to.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The world of one scenario. The run id starts every name that it creates on the broker.
type world struct {
	ctx       context.Context
	bootstrap string
	run       string
}

// A scenario answers what people should know about a pass, or why it failed.
type scenario func(*world) (detail string, err error)

var scenarios = map[string]scenario{
	"produce-consume-none":   withCodec(0, kgo.NoCompression()),
	"produce-consume-gzip":   withCodec(1, kgo.GzipCompression()),
	"produce-consume-snappy": withCodec(2, kgo.SnappyCompression()),
	"produce-consume-lz4":    withCodec(3, kgo.Lz4Compression()),
	"produce-consume-zstd":   withCodec(4, kgo.ZstdCompression()),
	"admin":                  admin,
	"group-rebalance":        groupRebalance,
	"static-member":          staticMember,
	"idempotent-reconnect":   idempotentReconnect,
	"txn-commit-abort":       txnCommitAbort,
	"ctp":                    consumeTransformProduce,
	"zombie-fenced":          zombieFenced,
	"read-committed-open":    readCommittedOpen,
}

// What a scenario says when it can not be run at all.
var errCannot = errors.New("cannot")

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: franz-go BOOTSTRAP SCENARIO RUN_ID")
		os.Exit(2)
	}
	run, known := scenarios[os.Args[2]]
	if !known {
		say("cannot", "unknown scenario")
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	detail, err := run(&world{ctx, os.Args[1], os.Args[3]})
	switch {
	case err == nil:
		say("pass", detail)
	case errors.Is(err, errCannot):
		say("cannot", detail)
	default:
		say("fail", err.Error())
		os.Exit(1)
	}
}

func say(result, detail string) {
	line, _ := json.Marshal(map[string]string{"result": result, "detail": strings.ReplaceAll(detail, "\n", "; ")})
	fmt.Println(string(line))
}

func note(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// A client with the settings every scenario shares, plus its own.
func (w *world) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(w.settings(), opts...)...)
}

// TLS and SASL, when the runner asks for them.
func security() []kgo.Opt {
	user, password := os.Getenv("E2E_USER"), os.Getenv("E2E_PASSWORD")
	if user == "" {
		return nil
	}
	roots := x509.NewCertPool()
	if pem, err := os.ReadFile(os.Getenv("E2E_CA")); err == nil {
		roots.AppendCertsFromPEM(pem)
	}
	login := scram.Auth{User: user, Pass: password}
	return []kgo.Opt{kgo.DialTLSConfig(&tls.Config{RootCAs: roots}), kgo.SASL(login.AsSha512Mechanism())}
}

func (w *world) settings() []kgo.Opt {
	return append(security(), []kgo.Opt{
		kgo.SeedBrokers(w.bootstrap),
		kgo.UnknownTopicRetries(50),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.FetchMaxWait(300 * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}...)
}

// Creates a topic named by the run id and the suffix.
func (w *world) topic(suffix string, partitions int32) (string, error) {
	cl, err := w.client()
	if err != nil {
		return "", err
	}
	defer cl.Close()
	name := w.run + suffix
	if _, err := kadm.NewClient(cl).CreateTopic(w.ctx, partitions, 1, nil, name); err != nil {
		return "", fmt.Errorf("create topic %s: %w", name, err)
	}
	return name, nil
}

// Asks until the question answers true, or the scenario's time is over.
func (w *world) until(what string, ask func() (bool, error)) error {
	for {
		done, err := ask()
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if done {
			return nil
		}
		select {
		case <-w.ctx.Done():
			return fmt.Errorf("%s: not seen in time", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// A record whose value is the text.
func text(topic string, partition int, value string) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: int32(partition), Value: []byte(value)}
}

// Sends and waits for every acknowledgement.
func (w *world) send(cl *kgo.Client, records ...*kgo.Record) error {
	if err := cl.ProduceSync(w.ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	return nil
}

// Reads every partition from its beginning until `enough` says so.
func (w *world) read(topic string, level kgo.IsolationLevel, enough func(*kgo.Record) bool) error {
	cl, err := w.client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(level), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	done := false
	for !done {
		fetches := cl.PollFetches(w.ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("reading %s: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { done = enough(r) || done })
	}
	return nil
}

// The values of each partition up to its record `end`.
func (w *world) readToEnd(topic string, partitions int, level kgo.IsolationLevel) ([][]string, error) {
	values := make([][]string, partitions)
	missing := partitions
	err := w.read(topic, level, func(r *kgo.Record) bool {
		if string(r.Value) == "end" {
			missing--
		} else {
			values[r.Partition] = append(values[r.Partition], string(r.Value))
		}
		return missing == 0
	})
	return values, err
}

// Compares what each partition holds with what it should hold.
func same(want, got [][]string) error {
	for p := range want {
		for i := range max(len(want[p]), len(got[p])) {
			switch {
			case i >= len(got[p]):
				return fmt.Errorf("partition %d ends after %d values, %q should follow", p, i, want[p][i])
			case i >= len(want[p]):
				return fmt.Errorf("partition %d should end after %d values, %q follows", p, i, got[p][i])
			case want[p][i] != got[p][i]:
				return fmt.Errorf("partition %d: value %d is %q, should be %q", p, i, got[p][i], want[p][i])
			}
		}
	}
	return nil
}

// The committed offset of each partition, -1 where there is none.
func (w *world) committed(group, topic string, partitions int) ([]int64, error) {
	cl, err := w.client()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	offsets, err := kadm.NewClient(cl).FetchOffsets(w.ctx, group)
	if err != nil {
		return nil, err
	}
	at := make([]int64, partitions)
	for p := range at {
		o, found := offsets.Lookup(topic, int32(p))
		if o.Err != nil {
			return nil, o.Err
		}
		at[p] = -1
		if found {
			at[p] = o.At
		}
	}
	return at, nil
}
