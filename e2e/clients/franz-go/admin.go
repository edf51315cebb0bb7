package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func admin(w *world) (string, error) {
	cl, err := w.client()
	if err != nil {
		return "", err
	}
	defer cl.Close()
	a := &administrator{w, kadm.NewClient(cl), cl, w.run}
	for _, step := range []struct {
		what string
		run  func() error
	}{
		{"create topic", a.create},
		{"describe topic", a.describe},
		{"configs", a.configs},
		{"create partitions", a.partitions},
		{"list topics", a.list},
		{"list offsets", a.offsets},
		{"group", a.group},
		{"delete records", a.deleteRecords},
		{"delete topic", a.deleteTopic},
		{"more", a.more},
	} {
		if err := step.run(); err != nil {
			return "", fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return "", nil
}

// One topic and everything that an administrator does to it.
type administrator struct {
	*world
	adm   *kadm.Client
	cl    *kgo.Client
	topic string
}

func (a *administrator) create() error {
	hour := "3600000"
	if _, err := a.adm.CreateTopic(a.ctx, 2, 1, map[string]*string{"retention.ms": &hour}, a.topic); err != nil {
		return err
	}
	if _, err := a.adm.CreateTopic(a.ctx, 2, 1, nil, a.topic); !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("the second time should say TOPIC_ALREADY_EXISTS, says: %v", err)
	}
	return nil
}

func (a *administrator) describe() error {
	return a.until("two partitions with a leader", func() (bool, error) {
		m, err := a.adm.Metadata(a.ctx, a.topic)
		if err != nil {
			return false, err
		}
		t := m.Topics[a.topic]
		if errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
			return false, nil
		}
		ready := t.Err == nil && len(t.Partitions) == 2
		for _, p := range t.Partitions {
			known := slices.Contains(m.Brokers.NodeIDs(), p.Leader)
			ready = ready && p.Err == nil && known && len(p.Replicas) == 1 && len(p.ISR) == 1
		}
		return ready, t.Err
	})
}

// The value and the source of some configs of the topic.
func (a *administrator) config(keys ...string) (map[string]kadm.Config, error) {
	described, err := a.adm.DescribeTopicConfigs(a.ctx, a.topic)
	if err != nil {
		return nil, err
	}
	resource, err := described.On(a.topic, nil)
	if err != nil {
		return nil, err
	}
	found := map[string]kadm.Config{}
	for _, c := range resource.Configs {
		if slices.Contains(keys, c.Key) {
			found[c.Key] = c
		}
	}
	return found, resource.Err
}

func (a *administrator) configs() error {
	before, err := a.config("retention.ms", "segment.bytes")
	if err != nil {
		return err
	}
	retention, segment := before["retention.ms"], before["segment.bytes"]
	if retention.MaybeValue() != "3600000" || segment.Value == nil || segment.Source.String() == retention.Source.String() {
		return fmt.Errorf("retention.ms is %s, segment.bytes is %s (%s)", retention.MaybeValue(), segment.MaybeValue(), segment.Source)
	}
	two, half := "7200000", "500000"
	answers, err := a.adm.AlterTopicConfigs(a.ctx, []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "retention.ms", Value: &two},
		{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &half},
	}, a.topic)
	if err != nil {
		return err
	}
	if _, err := answers.On(a.topic, func(r *kadm.AlterConfigsResponse) error { return r.Err }); err != nil {
		return err
	}
	return a.until("the new values", func() (bool, error) {
		now, err := a.config("retention.ms", "max.message.bytes")
		r, m := now["retention.ms"], now["max.message.bytes"]
		return r.MaybeValue() == two && m.MaybeValue() == half, err
	})
}

func (a *administrator) partitions() error {
	answers, err := a.adm.UpdatePartitions(a.ctx, 4, a.topic)
	if err != nil {
		return err
	}
	if err := answers.Error(); err != nil {
		return err
	}
	return a.until("four partitions", func() (bool, error) {
		topics, err := a.adm.ListTopics(a.ctx, a.topic)
		return len(topics[a.topic].Partitions) == 4, err
	})
}

func (a *administrator) list() error {
	topics, err := a.adm.ListTopics(a.ctx)
	if err == nil && !topics.Has(a.topic) {
		err = errors.New("the topic is not in the list")
	}
	return err
}

// Checks the first and the last offset of partition 0.
func (a *administrator) bounds(first, last int64) error {
	starts, err := a.adm.ListStartOffsets(a.ctx, a.topic)
	if err != nil {
		return err
	}
	ends, err := a.adm.ListEndOffsets(a.ctx, a.topic)
	if err != nil {
		return err
	}
	s, _ := starts.Lookup(a.topic, 0)
	e, _ := ends.Lookup(a.topic, 0)
	if s.Err != nil || e.Err != nil || s.Offset != first || e.Offset != last {
		return fmt.Errorf("earliest %d (%v), latest %d (%v), should be %d and %d", s.Offset, s.Err, e.Offset, e.Err, first, last)
	}
	return nil
}

func (a *administrator) offsets() error {
	var records []*kgo.Record
	for i := range 10 {
		records = append(records, text(a.topic, 0, fmt.Sprint(i)))
	}
	if err := a.send(a.cl, records...); err != nil {
		return err
	}
	return a.bounds(0, 10)
}

func (a *administrator) group() error {
	group := a.run + "-g"
	consumer, err := a.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(a.topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	for read := 0; read < 5; {
		fetches := consumer.PollRecords(a.ctx, 5-read)
		if err := fetches.Err(); err != nil {
			consumer.Close()
			return err
		}
		read += fetches.NumRecords()
	}
	err = consumer.CommitUncommittedOffsets(a.ctx)
	consumer.Close()
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	listed, err := a.adm.ListGroups(a.ctx)
	if err != nil {
		return err
	}
	if _, found := listed[group]; !found {
		return errors.New("the group is not in the list")
	}
	if err := a.until("the group is empty", func() (bool, error) {
		described, err := a.adm.DescribeGroups(a.ctx, group)
		g := described[group]
		return g.State == "Empty" && len(g.Members) == 0, errors.Join(err, g.Err)
	}); err != nil {
		return err
	}
	if at, err := a.committed(group, a.topic, 1); err != nil || at[0] != 5 {
		return fmt.Errorf("its offset is %v (%v), should be 5", at, err)
	}
	return a.deleteGroup(group)
}

func (a *administrator) deleteGroup(group string) error {
	if _, err := a.adm.DeleteGroup(a.ctx, group); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	listed, err := a.adm.ListGroups(a.ctx)
	if _, found := listed[group]; err == nil && found {
		err = errors.New("the deleted group is in the list")
	}
	return err
}

func (a *administrator) deleteRecords() error {
	before := kadm.Offsets{}
	before.AddOffset(a.topic, 0, 4, -1)
	answers, err := a.adm.DeleteRecords(a.ctx, before)
	if err != nil {
		return err
	}
	if err := answers.Error(); err != nil {
		return err
	}
	return a.bounds(4, 10)
}

func (a *administrator) deleteTopic() error {
	if _, err := a.adm.DeleteTopic(a.ctx, a.topic); err != nil {
		return err
	}
	return a.until("the topic is gone", func() (bool, error) {
		topics, err := a.adm.ListTopics(a.ctx)
		return err == nil && !topics.Has(a.topic), err
	})
}

// What this client can ask and few others do: log folders, transactions, producers, access lists.
func (a *administrator) more() error {
	dirs, err := a.adm.DescribeAllLogDirs(a.ctx, nil)
	if err != nil {
		return fmt.Errorf("log dirs: %w", err)
	}
	if len(dirs) == 0 {
		return errors.New("no broker described its log folders")
	}
	if _, err := a.adm.ListTransactions(a.ctx, nil, nil); err != nil {
		return fmt.Errorf("list transactions: %w", err)
	}
	acls, err := a.adm.DescribeACLs(a.ctx, kadm.NewACLs().AnyResource().ResourcePatternType(kadm.ACLPatternAny).
		Operations(kadm.OpAny).Allow().AllowHosts().Deny().DenyHosts())
	if err != nil {
		return fmt.Errorf("access lists: %w", err)
	}
	for _, r := range acls {
		if security() == nil && !errors.Is(r.Err, kerr.SecurityDisabled) {
			return fmt.Errorf("access lists should say SECURITY_DISABLED, say: %v", r.Err)
		}
	}
	return nil
}
