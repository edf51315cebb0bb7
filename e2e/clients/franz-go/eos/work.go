package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The most records in one transaction.
const batch = 20

// One that moves records.
type worker struct {
	session       *kgo.GroupTransactSession
	history       *history
	group, target string
	partitions    int64
	// How many records it has written, and what it writes in this transaction for each that it read.
	written int
	text    map[*kgo.Record]string
	// Partitions of the source; their places are all new when the group gave or took any.
	source []string
	stale  atomic.Bool
}

// The group gave or took partitions, or the session went back.
func (w *worker) moved() { w.stale.Store(true) }

// The partitions whose places are new.
func (w *worker) anew() []string {
	if w.stale.Swap(false) {
		return w.source
	}
	return nil
}

// work BOOTSTRAP SOURCE TARGET GROUP SLOT static|dynamic SEED: consume, transform, produce; each batch and the offsets behind it
// in one transaction, until stdin is closed. An error ends the worker, and it is started anew.
func work(args []string) error {
	bootstrap, source, target, group, slot := args[0], args[1], args[2], args[3], args[4]
	seed := fnv.New64()
	fmt.Fprint(seed, args[6], slot)
	w := &worker{history: newHistory(fmt.Sprintf("work-%s.%x", slot, uint32(seed.Sum64()))), group: group, target: target}
	moved := func(context.Context, *kgo.Client, map[string][]int32) { w.moved() }
	opts := settings(bootstrap,
		kgo.TransactionalID(group+"-"+slot),
		kgo.TransactionTimeout(8*time.Second),
		kgo.ConsumerGroup(group),
		kgo.OnPartitionsAssigned(moved),
		kgo.OnPartitionsRevoked(moved),
		kgo.OnPartitionsLost(moved),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(200*time.Millisecond))
	if args[5] == "static" {
		opts = append(opts, kgo.InstanceID(group+"-"+slot))
	}
	session, err := kgo.NewGroupTransactSession(opts...)
	if err != nil {
		return err
	}
	defer session.Close()
	w.session = session
	if w.partitions, err = count(kadm.NewClient(session.Client()), target); err != nil {
		return err
	}
	for p := range w.partitions {
		w.source = append(w.source, key(source, int32(p)))
	}
	chance := rand.New(rand.NewPCG(seed.Sum64(), 0))
	stdin := asked()
	for {
		select {
		case _, open := <-stdin:
			if !open {
				return nil
			}
		default:
		}
		if err := w.step(context.Background(), chance.IntN(10) > 0); err != nil {
			return err
		}
	}
}

// The number of partitions of a topic. A broker that has just started may not know its topics yet.
func count(adm *kadm.Client, topic string) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		topics, err := adm.ListTopics(ctx, topic)
		if n := len(topics[topic].Partitions); n > 0 {
			return int64(n), nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%s has no partitions (%v)", topic, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (w *worker) step(ctx context.Context, commit bool) error {
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	fetches := w.session.PollRecords(ctx, batch)
	if fetches.NumRecords() == 0 {
		return nil
	}
	w.history.begin("txn")
	if err := w.session.Begin(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	w.tell(fetches)
	if !commit {
		w.history.say("ending", facts{"ending": "abort"})
	} else {
		w.history.say("ending", facts{"ending": "commit"})
	}
	flush()
	fetches.EachRecord(func(r *kgo.Record) {
		w.history.send(w.session.Produce, w.target, int32(r.Offset%w.partitions), w.text[r], func() {})
	})
	committed, err := w.session.End(context.Background(), kgo.TransactionEndTry(commit))
	if err != nil {
		return fmt.Errorf("end: %w", err)
	}
	if commit && !committed {
		note("abort: the session did")
		w.history.say("ending", facts{"ending": "abort"})
	}
	if !committed {
		// The session is back at what the group has committed.
		w.moved()
	}
	w.history.end("ok")
	return nil
}

// Takes down what the transaction reads and will write.
func (w *worker) tell(fetches kgo.Fetches) {
	for _, k := range w.anew() {
		w.history.say("assigned", facts{"key": k})
	}
	ends := map[string]int64{}
	w.text = map[*kgo.Record]string{}
	fetches.EachRecord(func(r *kgo.Record) {
		w.history.read(r)
		w.written++
		// With the count every value is one of its own: the same input may be written again after an abort.
		text := fmt.Sprintf("%d %d %s %s.%d", r.Partition, r.Offset, r.Value, w.history.process, w.written)
		w.text[r] = text
		w.history.write(w.target, int32(r.Offset%w.partitions), text, r)
		ends[key(r.Topic, r.Partition)] = r.Offset + 1
	})
	for k, end := range ends {
		w.history.say("offset", facts{"group": w.group, "key": k, "offset": end})
	}
}
