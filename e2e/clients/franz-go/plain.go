package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Record i: everything about it is a function of i and the start time, so a reader can check it.
func record(topic string, i int, start time.Time) *kgo.Record {
	r := text(topic, i%3, fmt.Sprintf("value-%d-%s", i, strings.Repeat("x", 100)))
	r.Key = fmt.Appendf(nil, "key-%d", i)
	switch i % 10 {
	case 0:
		r.Key = nil
	case 1:
		r.Value = nil
	case 2:
		r.Value = []byte{}
	}
	r.Headers = []kgo.RecordHeader{{Key: "n", Value: fmt.Append(nil, i)}, {Key: "bin", Value: []byte{0, 0xff, 0x80}}}
	r.Timestamp = start.Add(time.Duration(i) * time.Millisecond)
	return r
}

// Equal as the protocol sees it: null is not the same as empty.
func equal(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// Says how record i came back different, or nil.
func differs(sent, got *kgo.Record, i int) error {
	switch {
	case got.Partition != int32(i%3) || got.Offset != int64(i/3):
		return fmt.Errorf("record %d is at partition %d offset %d", i, got.Partition, got.Offset)
	case !equal(sent.Key, got.Key):
		return fmt.Errorf("record %d: key %q came back as %q", i, sent.Key, got.Key)
	case !equal(sent.Value, got.Value):
		return fmt.Errorf("record %d: value %q came back as %q", i, sent.Value, got.Value)
	case !sent.Timestamp.Equal(got.Timestamp):
		return fmt.Errorf("record %d: time %v came back as %v", i, sent.Timestamp, got.Timestamp)
	case len(got.Headers) != len(sent.Headers):
		return fmt.Errorf("record %d: %d headers came back as %d", i, len(sent.Headers), len(got.Headers))
	}
	for h := range sent.Headers {
		if sent.Headers[h].Key != got.Headers[h].Key || !equal(sent.Headers[h].Value, got.Headers[h].Value) {
			return fmt.Errorf("record %d: header %v came back as %v", i, sent.Headers[h], got.Headers[h])
		}
	}
	return nil
}

func withCodec(id uint8, codec kgo.CompressionCodec) scenario {
	return func(w *world) (string, error) {
		topic, err := w.topic("", 3)
		if err != nil {
			return "", err
		}
		cl, err := w.client(kgo.ProducerBatchCompression(codec))
		if err != nil {
			return "", err
		}
		defer cl.Close()
		const total = 300
		start := time.UnixMilli(time.Now().UnixMilli())
		var sent []*kgo.Record
		for i := range total {
			sent = append(sent, record(topic, i, start))
		}
		if err := w.send(cl, sent...); err != nil {
			return "", err
		}
		for i, r := range sent {
			if r.Partition != int32(i%3) || r.Offset != int64(i/3) {
				return "", fmt.Errorf("record %d was acknowledged at partition %d offset %d", i, r.Partition, r.Offset)
			}
		}
		return "", w.compare(topic, id, sent)
	}
}

// Reads the records back and compares each, and the codec each batch is stored with.
func (w *world) compare(topic string, codec uint8, sent []*kgo.Record) error {
	read := 0
	var wrong error
	err := w.read(topic, kgo.ReadUncommitted(), func(r *kgo.Record) bool {
		i := int(r.Offset)*3 + int(r.Partition)
		if wrong == nil && i < len(sent) {
			wrong = differs(sent[i], r, i)
		}
		if wrong == nil && r.Attrs.CompressionType() != codec {
			wrong = fmt.Errorf("record %d is stored with codec %d, sent with %d", i, r.Attrs.CompressionType(), codec)
		}
		read++
		return wrong != nil || read >= len(sent)
	})
	if wrong != nil {
		return wrong
	}
	if err == nil && read != len(sent) {
		return fmt.Errorf("sent %d records, read %d", len(sent), read)
	}
	return err
}

// One line to the proxy in front of the broker; answers the number in its answer.
func proxy(command string) (n int, err error) {
	conn, err := net.Dial("tcp", os.Getenv("E2E_PROXY_CONTROL"))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	fmt.Fprintln(conn, command)
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("proxy, %s: %w", command, err)
	}
	note("proxy: %s", strings.TrimSpace(line))
	_, err = fmt.Sscanf(line[strings.IndexByte(line, ' ')+1:], "%d", &n)
	return n, err
}

func idempotentReconnect(w *world) (string, error) {
	if os.Getenv("E2E_PROXY_CONTROL") == "" {
		return "the broker is not behind the proxy", errCannot
	}
	topic, err := w.topic("", 2)
	if err != nil {
		return "", err
	}
	cl, err := w.client()
	if err != nil {
		return "", err
	}
	defer cl.Close()
	if err := w.send(cl, numbered(topic, 0, 100)...); err != nil {
		return "", err
	}
	before, err := proxy("hits")
	if err != nil {
		return "", err
	}
	if armed, err := proxy("lose"); err != nil || armed < 1 {
		return "", fmt.Errorf("the proxy armed %d connections (%v)", armed, err)
	}
	if err := w.send(cl, numbered(topic, 100, 200)...); err != nil {
		return "", fmt.Errorf("while answers get lost: %w", err)
	}
	if err := w.sendAndDrop(cl, numbered(topic, 200, 300)); err != nil {
		return "", fmt.Errorf("while connections are dropped: %w", err)
	}
	after, err := proxy("hits")
	if err != nil {
		return "", err
	}
	if after <= before {
		return "", fmt.Errorf("the proxy lost no answer")
	}
	if err := w.send(cl, text(topic, 0, "end"), text(topic, 1, "end")); err != nil {
		return "", err
	}
	got, err := w.readToEnd(topic, 2, kgo.ReadUncommitted())
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d answers lost", after-before), same(count("", 0, 300), got)
}

func (w *world) sendAndDrop(cl *kgo.Client, records []*kgo.Record) error {
	failed := make(chan error, len(records))
	for i, r := range records {
		if i == len(records)/2 {
			if _, err := proxy("drop"); err != nil {
				return err
			}
		}
		cl.Produce(w.ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				failed <- err
			}
		})
	}
	if err := cl.Flush(w.ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// Records with the values [from, to), spread over two partitions.
func numbered(topic string, from, to int) (records []*kgo.Record) {
	for i := from; i < to; i++ {
		records = append(records, text(topic, i%2, fmt.Sprint(i)))
	}
	return records
}

// The values [from, to) with a prefix, as two partitions should hold them.
func count(prefix string, from, to int) [][]string {
	values := make([][]string, 2)
	for i := from; i < to; i++ {
		values[i%2] = append(values[i%2], fmt.Sprintf("%s%d", prefix, i))
	}
	return values
}
