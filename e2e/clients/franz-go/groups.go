package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A group member that polls until it is stopped, commits after every poll and remembers what it owned and read.
type member struct {
	cl   *kgo.Client
	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex
	owned  map[int32]bool
	moves  int      // how often partitions came or went
	read   []string // values
	failed error    // a commit that went wrong
	group  error    // why the group threw it out
}

// The hook by which franz-go tells that the group threw the member out.
func (m *member) OnGroupManageError(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	note("group error: %v", err)
	m.group = err
}

// Joins the run's group; a static member when it has an instance id.
func (w *world) join(topic, instance string) (*member, error) {
	m := &member{owned: map[int32]bool{}, done: make(chan struct{})}
	opts := []kgo.Opt{
		kgo.ConsumerGroup(w.run + "-g"),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(10 * time.Second),
		kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.WithHooks(m),
		kgo.OnPartitionsAssigned(m.came),
		kgo.OnPartitionsRevoked(m.went),
		kgo.OnPartitionsLost(m.went),
	}
	if instance != "" {
		opts = append(opts, kgo.InstanceID(instance))
	}
	cl, err := w.client(opts...)
	if err != nil {
		return nil, err
	}
	m.cl = cl
	ctx, stop := context.WithCancel(w.ctx)
	m.stop = stop
	go m.run(ctx)
	return m, nil
}

func (m *member) run(ctx context.Context) {
	defer close(m.done)
	for ctx.Err() == nil {
		fetches := m.cl.PollRecords(ctx, 10)
		records := fetches.Records()
		var failed error
		if len(records) > 0 {
			failed = m.cl.CommitRecords(context.WithoutCancel(ctx), records...)
		}
		m.mu.Lock()
		for _, r := range records {
			m.read = append(m.read, string(r.Value))
		}
		if failed != nil {
			note("commit: %v", failed)
			m.failed = failed
		}
		m.mu.Unlock()
		m.cl.AllowRebalance()
	}
}

func (m *member) came(_ context.Context, _ *kgo.Client, given map[string][]int32) {
	m.move(given, func(p int32) { m.owned[p] = true })
}

func (m *member) went(_ context.Context, _ *kgo.Client, taken map[string][]int32) {
	m.move(taken, func(p int32) { delete(m.owned, p) })
}

func (m *member) move(topics map[string][]int32, change func(int32)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, partitions := range topics {
		for _, p := range partitions {
			m.moves++
			change(p)
		}
	}
}

// What the member owns, how often that changed, and how much it has read.
func (m *member) now() (owned []int32, moves, read int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.owned)), m.moves, len(m.read)
}

// Stops polling and closes the client: a dynamic member leaves the group, a static one stays in it.
func (m *member) close() {
	m.stop()
	<-m.done
	m.cl.CloseAllowingRebalance()
}

// Waits until both members own two partitions, none of them twice.
func (w *world) shared(a, b *member) error {
	return w.until("two partitions for each of two members", func() (bool, error) {
		ours, _, _ := a.now()
		theirs, _, _ := b.now()
		all := slices.Sorted(slices.Values(append(ours, theirs...)))
		return len(ours) == 2 && len(theirs) == 2 && slices.Equal(all, []int32{0, 1, 2, 3}), nil
	})
}

func groupRebalance(w *world) (string, error) {
	topic, err := w.topic("", 4)
	if err != nil {
		return "", err
	}
	feed, err := w.client()
	if err != nil {
		return "", err
	}
	defer feed.Close()
	if err := w.feed(feed, topic, 0, 80); err != nil {
		return "", err
	}
	a, err := w.join(topic, "")
	if err != nil {
		return "", err
	}
	if err := w.progress("the first member", a, []*member{a}, 80); err != nil {
		return "", err
	}
	b, err := w.join(topic, "")
	if err != nil {
		return "", err
	}
	if err := w.shared(a, b); err != nil {
		return "", err
	}
	if err := w.feed(feed, topic, 80, 140); err != nil {
		return "", err
	}
	if err := w.progress("both members", nil, []*member{a, b}, 140); err != nil {
		return "", err
	}
	a.close()
	if err := w.progress("the second member", b, []*member{a, b}, 140); err != nil {
		return "", err
	}
	if err := w.feed(feed, topic, 140, 200); err != nil {
		return "", err
	}
	if err := w.progress("the second member", b, []*member{a, b}, 200); err != nil {
		return "", err
	}
	b.close()
	return w.readOnce(topic, a, b)
}

// Produces the records [from, to), one after the other over four partitions.
func (w *world) feed(cl *kgo.Client, topic string, from, to int) error {
	var records []*kgo.Record
	for i := from; i < to; i++ {
		records = append(records, text(topic, i%4, fmt.Sprint(i)))
	}
	return w.send(cl, records...)
}

// Waits until all members together have read so much and the owner, if any, owns all partitions.
func (w *world) progress(who string, owner *member, all []*member, want int) error {
	return w.until(fmt.Sprintf("%s: %d records read", who, want), func() (bool, error) {
		total := 0
		for _, m := range all {
			_, _, read := m.now()
			total += read
		}
		if owner == nil {
			return total >= want, nil
		}
		owned, _, _ := owner.now()
		return len(owned) == 4 && total >= want, nil
	})
}

// Each of the 200 records was read once by one of the two, and the committed offsets say so too.
func (w *world) readOnce(topic string, a, b *member) (string, error) {
	if err := errors.Join(a.failed, b.failed); err != nil {
		return "", fmt.Errorf("commit: %w", err)
	}
	times := map[string]int{}
	for _, value := range append(slices.Clone(a.read), b.read...) {
		times[value]++
	}
	for i := range 200 {
		if n := times[fmt.Sprint(i)]; n != 1 {
			return "", fmt.Errorf("record %d was read %d times", i, n)
		}
	}
	at, err := w.committed(w.run+"-g", topic, 4)
	if err == nil && !slices.Equal(at, []int64{50, 50, 50, 50}) {
		err = fmt.Errorf("committed offsets are %v", at)
	}
	return fmt.Sprintf("%d and %d records", len(a.read), len(b.read)), err
}

func staticMember(w *world) (string, error) {
	topic, err := w.topic("", 4)
	if err != nil {
		return "", err
	}
	a, err := w.join(topic, w.run+"-a")
	if err != nil {
		return "", err
	}
	defer a.close()
	b, err := w.join(topic, w.run+"-b")
	if err != nil {
		return "", err
	}
	if err := w.shared(a, b); err != nil {
		return "", err
	}
	had, _, _ := b.now()
	_, moves, _ := a.now()
	_, generation := a.cl.GroupMetadata()
	b.close()
	b2, err := w.join(topic, w.run+"-b")
	if err != nil {
		return "", err
	}
	defer b2.close()
	if err := w.owns(b2, had); err != nil {
		return "", err
	}
	_, after := a.cl.GroupMetadata()
	if _, m, _ := a.now(); m != moves || after != generation {
		return "", fmt.Errorf("the return of B moved A: %d changes, generation %d then %d", m-moves, generation, after)
	}
	b3, err := w.join(topic, w.run+"-b")
	if err != nil {
		return "", err
	}
	defer b3.close()
	if err := w.owns(b3, had); err != nil {
		return "", err
	}
	return "", w.until("the replaced member receives FENCED_INSTANCE_ID", func() (bool, error) {
		b2.mu.Lock()
		defer b2.mu.Unlock()
		return errors.Is(b2.group, kerr.FencedInstanceID), nil
	})
}

func (w *world) owns(m *member, want []int32) error {
	return w.until(fmt.Sprintf("a member owns the partitions %v", want), func() (bool, error) {
		owned, _, _ := m.now()
		return slices.Equal(owned, want), nil
	})
}
