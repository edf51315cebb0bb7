package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The most records in one transaction.
const batch = 20

// work BOOTSTRAP SOURCE TARGET GROUP SLOT static|dynamic SEED: consume, transform, produce; each batch and the offsets behind it
// in one transaction, until stdin is closed. An error ends the worker, and it is started anew.
func work(args []string) error {
	bootstrap, source, target, group, slot := args[0], args[1], args[2], args[3], args[4]
	opts := settings(bootstrap,
		kgo.TransactionalID(group+"-"+slot),
		kgo.TransactionTimeout(20*time.Second),
		kgo.ConsumerGroup(group),
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
	partitions, err := count(kadm.NewClient(session.Client()), target)
	if err != nil {
		return err
	}
	seed := fnv.New64()
	fmt.Fprint(seed, args[6], slot)
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
		if err := step(session, target, partitions, chance.IntN(10) > 0); err != nil {
			say(event{E: "fatal", Why: err.Error()})
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

func step(session *kgo.GroupTransactSession, target string, partitions int64, commit bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	fetches := session.PollRecords(ctx, batch)
	if fetches.NumRecords() == 0 {
		return nil
	}
	if err := session.Begin(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	fetches.EachRecord(func(r *kgo.Record) {
		text := fmt.Appendf(nil, "%d %d %s", r.Partition, r.Offset, r.Value)
		out := &kgo.Record{Topic: target, Partition: int32(r.Offset % partitions), Value: text}
		session.Produce(context.Background(), out, nil)
		say(event{E: "seen", Partition: r.Partition, Offset: r.Offset, Value: string(r.Value)})
	})
	flush()
	committed, err := session.End(context.Background(), kgo.TransactionEndTry(commit))
	switch {
	case err != nil:
		return fmt.Errorf("end: %w", err)
	case committed:
		say(event{E: "commit", Count: fetches.NumRecords()})
	case commit:
		say(event{E: "abort", Why: "the session did"})
	default:
		say(event{E: "abort", Why: "on purpose"})
	}
	flush()
	return nil
}
