// The franz-go side of `cargo xtask eos`: the programs of ../../../exactly-once.md.
// They must not know which broker they talk to, nor what the checker makes of what they say.
package main

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var programs = map[string]struct {
	arguments int
	run       func([]string) error
}{
	"create":    {3, create},
	"fill":      {3, fill},
	"work":      {7, work},
	"read":      {2, read},
	"committed": {3, committed},
	"drained":   {4, drained},
}

func main() {
	if len(os.Args) < 2 {
		fail(2, "which program?")
	}
	program, known := programs[os.Args[1]]
	if !known || len(os.Args)-2 != program.arguments {
		fail(2, "no such program, or a wrong number of arguments")
	}
	err := program.run(os.Args[2:])
	flush()
	if err != nil {
		fail(3, err.Error())
	}
}

func fail(code int, why string) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(code)
}

func note(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func settings(bootstrap string, more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.FetchMaxWait(50 * time.Millisecond),
		kgo.UnknownTopicRetries(-1),
		kgo.RequestRetries(1 << 20),
	}, more...)
}

func admin(bootstrap string) (*kadm.Client, error) {
	cl, err := kgo.NewClient(settings(bootstrap)...)
	if err != nil {
		return nil, err
	}
	return kadm.NewClient(cl), nil
}

// Lines from stdin; the channel closes with it.
func asked() <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
	}()
	return lines
}

// create BOOTSTRAP TOPIC PARTITIONS
func create(args []string) error {
	adm, err := admin(args[0])
	if err != nil {
		return err
	}
	defer adm.Close()
	partitions, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err = adm.CreateTopic(ctx, int32(partitions), 1, nil, args[1])
	return err
}

// fill BOOTSTRAP TOPIC PARTITIONS: produces unique values idempotently, as many as each line asks for.
func fill(args []string) error {
	partitions, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(settings(args[0], kgo.MaxBufferedRecords(1<<20))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	h, next := newHistory("fill"), 0
	for line := range asked() {
		n, err := strconv.Atoi(line)
		if err != nil {
			return err
		}
		h.begin("send")
		left := &atomic.Int64{}
		left.Store(int64(n))
		op, values := h.op, make([]string, n)
		for i := range values {
			values[i] = fmt.Sprintf("v%d", next+i)
			h.write(args[1], int32((next+i)%partitions), values[i], nil)
		}
		flush()
		for i, value := range values {
			h.send(cl.Produce, args[1], int32((next+i)%partitions), value, func() {
				if left.Add(-1) == 0 {
					h.endOf(op, "ok")
				}
			})
		}
		next += n
	}
	return cl.Flush(context.Background())
}

// The ends of a topic's partitions, for either kind of reader.
func ends(ctx context.Context, adm *kadm.Client, topic string) (stable, high map[int32]int64, err error) {
	collect := func(list func(context.Context, ...string) (kadm.ListedOffsets, error)) map[int32]int64 {
		found := map[int32]int64{}
		listed, listErr := list(ctx, topic)
		if listErr == nil {
			listErr = listed.Error()
		}
		if listErr != nil {
			err = listErr
		}
		listed.Each(func(o kadm.ListedOffset) { found[o.Partition] = o.Offset })
		return found
	}
	return collect(adm.ListCommittedOffsets), collect(adm.ListEndOffsets), err
}

// The ends when no transaction is open any more. One that a worker left behind has to time out, so this waits longer than that;
// what is open still is for the judge to see.
func settled(ctx context.Context, adm *kadm.Client, topic string) (stable, high map[int32]int64, err error) {
	for deadline := time.Now().Add(40 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		stable, high, err = ends(ctx, adm, topic)
		if err != nil || maps.Equal(stable, high) || time.Now().After(deadline) {
			return stable, high, err
		}
	}
}

// read BOOTSTRAP TOPIC: everything that a read_committed reader sees, to the last stable offset.
func read(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 80*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(settings(args[0], kgo.ConsumeTopics(args[1]), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())...)
	if err != nil {
		return err
	}
	defer cl.Close()
	stable, high, err := settled(ctx, kadm.NewClient(cl), args[1])
	if err != nil {
		return err
	}
	h := newHistory("franz-go reads " + args[1])
	h.begin("drain")
	missing := map[int32]bool{}
	for p := range high {
		h.say("ends", facts{"key": key(args[1], p), "high": high[p], "stable": stable[p]})
		if stable[p] > 0 {
			missing[p] = true
		}
	}
	for len(missing) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("reading %s, partitions %v missing: %w", args[1], missing, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				h.read(r)
			}
			if r.Offset+1 >= stable[r.Partition] {
				delete(missing, r.Partition)
			}
		})
	}
	for p := range high {
		h.say("drained", facts{"key": key(args[1], p)})
	}
	h.end("ok")
	return nil
}

// committed BOOTSTRAP GROUP TOPIC: what the group has committed.
func committed(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	adm, err := admin(args[0])
	if err != nil {
		return err
	}
	defer adm.Close()
	offsets, err := adm.FetchOffsets(ctx, args[1])
	if err != nil {
		return err
	}
	h := newHistory("franz-go asks for offsets")
	h.begin("poll")
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == args[2] {
			h.say("committed", facts{"group": args[1], "key": key(o.Topic, o.Partition), "offset": o.At})
		}
	})
	h.end("ok")
	return offsets.Error()
}

// drained BOOTSTRAP GROUP TOPIC SECONDS: waits until the group has committed the end of every partition.
func drained(args []string) error {
	seconds, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second)
	defer cancel()
	adm, err := admin(args[0])
	if err != nil {
		return err
	}
	defer adm.Close()
	for {
		behind, err := lag(ctx, adm, args[1], args[2])
		if err == nil && behind == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d records are not consumed after %d s (%v)", behind, seconds, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func lag(ctx context.Context, adm *kadm.Client, group, topic string) (behind int64, err error) {
	_, high, err := ends(ctx, adm, topic)
	if err != nil {
		return -1, err
	}
	offsets, err := adm.FetchOffsets(ctx, group)
	if err != nil {
		return -1, err
	}
	for p, end := range high {
		at := int64(0)
		if o, found := offsets.Lookup(topic, p); found {
			at = max(o.At, 0)
		}
		behind += end - at
	}
	return behind, nil
}
