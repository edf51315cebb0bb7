package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What one process asks for and sees, as lines of the checker's format on stdout.
type history struct {
	process string
	op      int
}

type facts map[string]any

var (
	outLock sync.Mutex
	out     = bufio.NewWriterSize(os.Stdout, 1<<20)
)

// To be called before doing what was said: a process that is killed then has still said it.
func flush() {
	outLock.Lock()
	defer outLock.Unlock()
	out.Flush()
}

func newHistory(process string) *history { return &history{process: process} }

func key(topic string, partition int32) string { return fmt.Sprintf("%s/%d", topic, partition) }

func (h *history) say(event string, f facts) { h.sayOf(h.op, event, f) }

func (h *history) sayOf(op int, event string, f facts) {
	f["event"], f["process"], f["op"] = event, h.process, op
	line, _ := json.Marshal(f)
	outLock.Lock()
	defer outLock.Unlock()
	out.Write(append(line, '\n'))
}

func (h *history) begin(kind string) {
	h.op++
	h.say("begin", facts{"kind": kind, "at": time.Now().UnixMicro()})
}

func (h *history) end(outcome string) { h.endOf(h.op, outcome) }

func (h *history) endOf(op int, outcome string) {
	h.sayOf(op, "end", facts{"outcome": outcome, "at": time.Now().UnixMicro()})
	flush()
}

func (h *history) read(r *kgo.Record) {
	h.say("read", facts{"key": key(r.Topic, r.Partition), "offset": r.Offset, "value": string(r.Value)})
}

// A record is about to be sent; `from` is the record it was made from, if any.
func (h *history) write(topic string, partition int32, value string, from *kgo.Record) {
	f := facts{"key": key(topic, partition), "value": value}
	if from != nil {
		f["from"] = facts{"key": key(from.Topic, from.Partition), "offset": from.Offset}
	}
	h.say("write", f)
}

// Gives the client a record that the history has, and says where it landed once that is known.
func (h *history) send(produce func(context.Context, *kgo.Record, func(*kgo.Record, error)), topic string, partition int32, value string, done func()) {
	op := h.op
	r := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}
	produce(context.Background(), r, func(r *kgo.Record, err error) {
		if err != nil {
			note("%s: %v", value, err)
		} else {
			h.sayOf(op, "ack", facts{"value": value, "offset": r.Offset})
		}
		done()
	})
}
