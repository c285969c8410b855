package gocommon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// Line is an output line.
type Line map[string]any

// NewLine returns a line with the present time.
func NewLine(name string, fields Line) Line {
	fields["name"] = name
	fields["timestamp"] = time.Now().UnixMilli()
	return fields
}

var stdout sync.Mutex

// Emit writes whole lines to standard output at once; it exits if that is not possible.
func Emit(lines ...Line) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, line := range lines {
		if err := encoder.Encode(line); err != nil {
			Fail(err)
		}
	}
	stdout.Lock()
	defer stdout.Unlock()
	if _, err := os.Stdout.Write(text.Bytes()); err != nil {
		Fail(fmt.Errorf("standard output: %w", err))
	}
}

// EmitShutdown writes shutdown_complete.
func EmitShutdown() { Emit(NewLine("shutdown_complete", Line{})) }

// SentRecord is a record that is given to the library; it reports its outcome.
type SentRecord struct {
	topic  string
	key    *string
	value  string
	sentNs int64
}

// NewSentRecord returns record number N; call it immediately before the library's call.
func NewSentRecord(options Options, number int) *SentRecord {
	record := &SentRecord{topic: options.Topic, key: options.Key(number), value: options.Value(number)}
	record.sentNs = time.Now().UnixNano()
	return record
}

// Key returns the key's bytes, nil if there is none.
func (record *SentRecord) Key() []byte {
	if record.key == nil {
		return nil
	}
	return []byte(*record.key)
}

// Value returns the value's bytes.
func (record *SentRecord) Value() []byte { return []byte(record.value) }

// Acknowledged reports the library's success; the offset is -1 with acks=0.
func (record *SentRecord) Acknowledged(partition int32, offset int64) {
	record.report("producer_send_success", Line{"partition": partition, "offset": offset})
}

// Failure is an error of the library.
type Failure struct {
	Exception string // its name
	Message   string
	Code      int16 // Kafka's error number; 0: none
	Rejected  bool  // the record never left the application
}

// Failed reports that the library gave the record up.
func (record *SentRecord) Failed(failure Failure) {
	fields := Line{"exception": failure.Exception, "message": failure.Message}
	if failure.Code > 0 {
		fields["code"] = failure.Code
	}
	if failure.Rejected {
		fields["outcome"] = "rejected"
	}
	record.report("producer_send_error", fields)
}

func (record *SentRecord) report(name string, fields Line) {
	fields["topic"] = record.topic
	fields["key"] = record.key
	fields["value"] = record.value
	fields["sent_ns"] = record.sentNs
	fields["acked_ns"] = time.Now().UnixNano()
	Emit(NewLine(name, fields))
}

// Received is a consumed record.
type Received struct {
	Partition  int32
	Offset     int64
	Key, Value []byte
}

// EmitRecords writes the lines of a poll's records of a topic, and their summary.
func EmitRecords(topic string, records []Received) {
	if len(records) == 0 {
		return
	}
	type span struct {
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		Count     int    `json:"count"`
		MinOffset int64  `json:"minOffset"`
		MaxOffset int64  `json:"maxOffset"`
	}
	var lines []Line
	var spans []*span
	now := time.Now().UnixNano()
	for _, record := range records {
		lines = append(lines, NewLine("record_data", Line{
			"topic": topic, "partition": record.Partition, "offset": record.Offset,
			"key": text(record.Key), "value": text(record.Value), "received_ns": now,
		}))
		place := slices.IndexFunc(spans, func(one *span) bool {
			return one.Partition == record.Partition
		})
		if place < 0 {
			place = len(spans)
			spans = append(spans, &span{topic, record.Partition, 0, record.Offset, record.Offset})
		}
		spans[place].Count++
		spans[place].MinOffset = min(spans[place].MinOffset, record.Offset)
		spans[place].MaxOffset = max(spans[place].MaxOffset, record.Offset)
	}
	summary := NewLine("records_consumed", Line{"count": len(records), "partitions": spans})
	Emit(append(lines, summary)...)
}

func text(data []byte) *string {
	if data == nil {
		return nil
	}
	text := string(data)
	return &text
}

// EmitAssignment writes that partitions were "assigned" or "revoked"; a member that revokes none
// writes nothing.
func EmitAssignment(change string, partitions map[string][]int32) {
	listed := []Line{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			listed = append(listed, Line{"topic": topic, "partition": number})
		}
	}
	if change == "assigned" || len(listed) > 0 {
		Emit(NewLine("partitions_"+change, Line{"partitions": listed}))
	}
}

// EmitCommit writes the result of a commit; the offsets are the next to read, by partition.
func EmitCommit(topic string, offsets map[int32]int64, err error) {
	listed := []Line{}
	for partition, offset := range offsets {
		listed = append(listed, Line{"topic": topic, "partition": partition, "offset": offset})
	}
	var message any
	if err != nil {
		message = err.Error()
	}
	Emit(NewLine("offsets_committed", Line{
		"success": err == nil, "error": message, "offsets": listed,
	}))
}
