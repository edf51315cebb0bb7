package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A transactional producer; every one of a scenario has the same transactional id.
func (w *world) producer() (*kgo.Client, error) {
	return w.client(kgo.TransactionalID(w.run+"-t"), kgo.TransactionTimeout(30*time.Second))
}

// Sends the records in one transaction and ends it.
func (w *world) transact(cl *kgo.Client, end kgo.TransactionEndTry, records ...*kgo.Record) error {
	if err := cl.BeginTransaction(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := w.send(cl, records...); err != nil {
		return err
	}
	if err := cl.EndTransaction(w.ctx, end); err != nil {
		return fmt.Errorf("end: %w", err)
	}
	return nil
}

func txnCommitAbort(w *world) (string, error) {
	topic, err := w.topic("", 2)
	if err != nil {
		return "", err
	}
	cl, err := w.producer()
	if err != nil {
		return "", err
	}
	defer cl.Close()
	committed, all := make([][]string, 2), make([][]string, 2)
	for t := range 6 {
		var records []*kgo.Record
		for i := range 20 {
			p, value := i%2, fmt.Sprintf("%d-%d", t, i)
			records = append(records, text(topic, p, value))
			all[p] = append(all[p], value)
			if t%2 == 0 {
				committed[p] = append(committed[p], value)
			}
		}
		if err := w.transact(cl, kgo.TransactionEndTry(t%2 == 0), records...); err != nil {
			return "", fmt.Errorf("transaction %d: %w", t, err)
		}
	}
	if err := w.transact(cl, kgo.TryCommit, text(topic, 0, "end"), text(topic, 1, "end")); err != nil {
		return "", err
	}
	return "", w.expectBoth(topic, committed, all)
}

// Checks what a read_committed and a read_uncommitted reader see of two partitions.
func (w *world) expectBoth(topic string, committed, all [][]string) error {
	got, err := w.readToEnd(topic, 2, kgo.ReadCommitted())
	if err == nil {
		err = same(committed, got)
	}
	if err != nil {
		return fmt.Errorf("read_committed: %w", err)
	}
	if got, err = w.readToEnd(topic, 2, kgo.ReadUncommitted()); err == nil {
		err = same(all, got)
	}
	if err != nil {
		return fmt.Errorf("read_uncommitted: %w", err)
	}
	return nil
}

func zombieFenced(w *world) (string, error) {
	topic, err := w.topic("", 1)
	if err != nil {
		return "", err
	}
	zombie, err := w.producer()
	if err != nil {
		return "", err
	}
	defer zombie.Close()
	if err := zombie.BeginTransaction(); err != nil {
		return "", err
	}
	if err := w.send(zombie, text(topic, 0, "zombie-1")); err != nil {
		return "", err
	}
	winner, err := w.producer()
	if err != nil {
		return "", err
	}
	defer winner.Close()
	if err := w.transact(winner, kgo.TryCommit, text(topic, 0, "winner")); err != nil {
		return "", fmt.Errorf("winner: %w", err)
	}
	call := "produce"
	fence := zombie.ProduceSync(w.ctx, text(topic, 0, "zombie-2")).FirstErr()
	if fence == nil {
		call = "commit"
		fence = zombie.EndTransaction(w.ctx, kgo.TryCommit)
	}
	note("zombie's %s: %v", call, fence)
	if !errors.Is(fence, kerr.ProducerFenced) && !errors.Is(fence, kerr.InvalidProducerEpoch) {
		return "", fmt.Errorf("the zombie's %s should be fenced, says: %v", call, fence)
	}
	if err := w.transact(winner, kgo.TryCommit, text(topic, 0, "end")); err != nil {
		return "", fmt.Errorf("winner: %w", err)
	}
	got, err := w.readToEnd(topic, 1, kgo.ReadCommitted())
	if err != nil {
		return "", err
	}
	var code *kerr.Error
	errors.As(fence, &code)
	return fmt.Sprintf("%s: %s", call, code.Message), same([][]string{{"winner"}}, got)
}

func readCommittedOpen(w *world) (string, error) {
	topic, err := w.topic("", 1)
	if err != nil {
		return "", err
	}
	plain, err := w.client()
	if err != nil {
		return "", err
	}
	defer plain.Close()
	open, err := w.producer()
	if err != nil {
		return "", err
	}
	defer open.Close()
	if err := w.send(plain, text(topic, 0, "before")); err != nil {
		return "", err
	}
	if err := open.BeginTransaction(); err != nil {
		return "", err
	}
	if err := w.send(open, text(topic, 0, "open")); err != nil {
		return "", err
	}
	if err := w.send(plain, text(topic, 0, "after")); err != nil {
		return "", err
	}
	var seen []string
	if err := w.read(topic, kgo.ReadUncommitted(), func(r *kgo.Record) bool {
		seen = append(seen, string(r.Value))
		return len(seen) >= 3
	}); err != nil {
		return "", err
	}
	if !slices.Equal(seen, []string{"before", "open", "after"}) {
		return "", fmt.Errorf("read_uncommitted saw %q", seen)
	}
	if err := w.latest(kadm.NewClient(plain), topic); err != nil {
		return "", err
	}
	return "", w.waitsForCommit(topic, open)
}

// The latest offset is where the open transaction begins for one kind of reader and the end of the log for the other.
func (w *world) latest(adm *kadm.Client, topic string) error {
	stable, err := adm.ListCommittedOffsets(w.ctx, topic)
	if err != nil {
		return err
	}
	high, err := adm.ListEndOffsets(w.ctx, topic)
	if err != nil {
		return err
	}
	s, _ := stable.Lookup(topic, 0)
	h, _ := high.Lookup(topic, 0)
	if s.Err != nil || h.Err != nil || s.Offset != 1 || h.Offset != 3 {
		return fmt.Errorf("latest is %d (%v) and %d (%v), should be 1 and 3", s.Offset, s.Err, h.Offset, h.Err)
	}
	return nil
}

// One read_committed reader sees `before`, then nothing until the commit, then the rest.
func (w *world) waitsForCommit(topic string, open *kgo.Client) error {
	reader, err := w.client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer reader.Close()
	var seen []string
	poll := func(ctx context.Context, enough int) error {
		for len(seen) < enough && ctx.Err() == nil {
			fetches := reader.PollFetches(ctx)
			if err := fetches.Err(); err != nil && ctx.Err() == nil {
				return err
			}
			fetches.EachRecord(func(r *kgo.Record) { seen = append(seen, string(r.Value)) })
		}
		return nil
	}
	if err := poll(w.ctx, 1); err != nil {
		return err
	}
	quiet, cancel := context.WithTimeout(w.ctx, time.Second)
	defer cancel()
	if err := poll(quiet, 2); err != nil {
		return err
	}
	if !slices.Equal(seen, []string{"before"}) {
		return fmt.Errorf("read_committed saw %q while the transaction was open", seen)
	}
	if err := open.EndTransaction(w.ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if err := poll(w.ctx, 3); err != nil {
		return err
	}
	if !slices.Equal(seen, []string{"before", "open", "after"}) {
		return fmt.Errorf("read_committed saw %q after the commit", seen)
	}
	return nil
}

func consumeTransformProduce(w *world) (string, error) {
	in, err := w.topic("-in", 2)
	if err != nil {
		return "", err
	}
	out, err := w.topic("-out", 2)
	if err != nil {
		return "", err
	}
	feed, err := w.client()
	if err != nil {
		return "", err
	}
	defer feed.Close()
	const total = 200
	if err := w.send(feed, numbered(in, 0, total)...); err != nil {
		return "", err
	}
	if err := w.pipeline(in, out, total); err != nil {
		return "", err
	}
	got, err := w.readToEnd(out, 2, kgo.ReadCommitted())
	if err != nil {
		return "", err
	}
	if err := same(count("out-", 0, total), got); err != nil {
		return "", fmt.Errorf("read_committed: %w", err)
	}
	if got, err = w.readToEnd(out, 2, kgo.ReadUncommitted()); err != nil {
		return "", err
	}
	if n := len(got[0]) + len(got[1]); n <= total {
		return "", fmt.Errorf("read_uncommitted saw %d records, there was an abort", n)
	}
	return "", w.until("committed offsets at the end of the input", func() (bool, error) {
		at, err := w.committed(w.run+"-g", in, 2)
		return slices.Equal(at, []int64{total / 2, total / 2}), err
	})
}

// Moves all records from one topic to the other in transactions and ends with a transaction of `end` records.
func (w *world) pipeline(in, out string, total int) error {
	session, err := kgo.NewGroupTransactSession(append(w.settings(),
		kgo.TransactionalID(w.run+"-t"),
		kgo.ConsumerGroup(w.run+"-g"),
		kgo.ConsumeTopics(in),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets())...)
	if err != nil {
		return err
	}
	defer session.Close()
	for done, round := 0, 0; done < total; round++ {
		taken, err := w.round(session, out, round != 1)
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		done += taken
	}
	if err := session.Begin(); err != nil {
		return err
	}
	if err := session.ProduceSync(w.ctx, text(out, 0, "end"), text(out, 1, "end")).FirstErr(); err != nil {
		return err
	}
	committed, err := session.End(w.ctx, kgo.TryCommit)
	if err == nil && !committed {
		err = errors.New("the last transaction was aborted")
	}
	return err
}

// One round; answers how many records were committed. On an abort the session seeks back to the committed offsets itself.
func (w *world) round(session *kgo.GroupTransactSession, out string, commit bool) (int, error) {
	fetches := session.PollRecords(w.ctx, 50)
	if err := fetches.Err(); err != nil {
		return 0, fmt.Errorf("poll: %w", err)
	}
	if err := session.Begin(); err != nil {
		return 0, fmt.Errorf("begin: %w", err)
	}
	var made []*kgo.Record
	fetches.EachRecord(func(r *kgo.Record) {
		made = append(made, text(out, int(r.Partition), "out-"+string(r.Value)))
	})
	if err := session.ProduceSync(w.ctx, made...).FirstErr(); err != nil {
		return 0, fmt.Errorf("produce: %w", err)
	}
	committed, err := session.End(w.ctx, kgo.TransactionEndTry(commit))
	note("%d records, commit asked %v, committed %v, error %v", len(made), commit, committed, err)
	if err != nil || committed != commit {
		return 0, fmt.Errorf("asked to commit %v, committed %v: %w", commit, committed, err)
	}
	if !committed {
		return 0, nil
	}
	return len(made), nil
}
