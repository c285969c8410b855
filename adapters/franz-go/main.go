// Verifiable producer and consumer with franz-go; see docs/clients.md.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	common "ackbench/gocommon"
)

//go:embed adapter.json
var adapter []byte

const (
	maxPollRecords = 500
	lastCommit     = 10 * time.Second
)

func main() {
	options := common.ReadOptions()
	ctx := common.StopContext()
	if options.Role == "producer" {
		produce(ctx, options)
	} else {
		consume(ctx, options)
	}
	common.EmitShutdown()
}

// settings collects the client's options.
type settings struct{ opts []kgo.Opt }

func (s *settings) add(opts ...kgo.Opt) { s.opts = append(s.opts, opts...) }

// client returns a client with the collected options; it exits with code 2 if they do not fit.
func (s *settings) client(options common.Options) *kgo.Client {
	s.add(
		kgo.SeedBrokers(options.BootstrapServers...),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, func() string {
			return time.Now().Format("2006-01-02 15:04:05.000 ")
		})),
	)
	client, err := kgo.NewClient(s.opts...)
	if err != nil {
		common.FailSetting(err)
	}
	return client
}

// setters returns those that producers and consumers share, together with a role's own.
func (s *settings) setters(ofRole map[string]func(string) error) map[string]func(string) error {
	all := map[string]func(string) error{
		"client.id": common.Text(func(id string) { s.add(kgo.ClientID(id)) }),
		"connections.max.idle.ms": common.Millis(func(d time.Duration) {
			s.add(kgo.ConnIdleTimeout(d))
		}),
		"metadata.max.age.ms": common.Millis(func(d time.Duration) {
			s.add(refreshingMetadata(d)...)
		}),
	}
	for name, set := range ofRole {
		all[name] = set
	}
	return all
}

func produce(ctx context.Context, options common.Options) {
	var s settings
	acks, idempotence := kgo.AllISRAcks(), "true"
	setAcks := func(value kgo.Acks) { acks = value }
	common.Apply(options.Properties, s.setters(map[string]func(string) error{
		"acks": common.OneOf(setAcks, map[string]kgo.Acks{
			"all": kgo.AllISRAcks(), "-1": kgo.AllISRAcks(), "1": kgo.LeaderAck(), "0": kgo.NoAck(),
		}),
		"batch.size": common.Int(func(n int) { s.add(kgo.ProducerBatchMaxBytes(int32(n))) }),
		"compression.type": common.OneOf(
			func(codec kgo.CompressionCodec) { s.add(kgo.ProducerBatchCompression(codec)) },
			map[string]kgo.CompressionCodec{
				"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
				"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(),
				"zstd": kgo.ZstdCompression(),
			}),
		"delivery.timeout.ms": common.Millis(func(d time.Duration) {
			s.add(kgo.RecordDeliveryTimeout(d))
		}),
		"enable.idempotence": common.Bool(func(enabled bool) {
			idempotence = fmt.Sprint(enabled)
		}),
		"linger.ms": common.Millis(func(d time.Duration) { s.add(kgo.ProducerLinger(d)) }),
		"max.in.flight.requests.per.connection": common.Int(func(n int) {
			s.add(kgo.MaxProduceRequestsInflightPerBroker(n))
		}),
		// The client waits for a response for both together.
		"request.timeout.ms": common.Millis(func(d time.Duration) {
			s.add(kgo.ProduceRequestTimeout(d), kgo.RequestTimeoutOverhead(d))
		}),
		"retries": common.Int(func(n int) { s.add(kgo.RecordRetries(n)) }),
	}))
	s.add(kgo.RequiredAcks(acks))
	// It is on by default; with other acks the client demands that it is off.
	if _, given := options.Properties["enable.idempotence"]; !given && acks != kgo.AllISRAcks() {
		idempotence = "false"
	}
	if idempotence == "false" {
		s.add(kgo.DisableIdempotentWrite())
	}
	client := s.client(options)
	common.EmitStartup(options, adapter, "github.com/twmb/franz-go",
		map[string]string{"enable.idempotence": idempotence})
	for number := range common.DueRecords(ctx, options) {
		send(client, options, number, acks == kgo.NoAck())
	}
	if err := client.Flush(context.Background()); err != nil {
		common.Fail(err)
	}
	client.Close()
}

// refreshingMetadata returns how often metadata is refreshed. The minimum between two refreshes is
// 5 s by default, and not above the maximum.
func refreshingMetadata(d time.Duration) []kgo.Opt {
	return []kgo.Opt{kgo.MetadataMaxAge(d), kgo.MetadataMinAge(min(d, 5*time.Second))}
}

// send gives one record to the client; Produce blocks while its buffer is full.
func send(client *kgo.Client, options common.Options, number int, noAck bool) {
	sent := common.NewSentRecord(options, number)
	record := &kgo.Record{Topic: options.Topic, Key: sent.Key(), Value: sent.Value()}
	client.Produce(context.Background(), record, func(record *kgo.Record, err error) {
		switch {
		case err != nil:
			sent.Failed(failure(err))
		case noAck:
			sent.Acknowledged(record.Partition, -1)
		default:
			sent.Acknowledged(record.Partition, record.Offset)
		}
	})
}

func failure(err error) common.Failure {
	var ofBroker *kerr.Error
	if errors.As(err, &ofBroker) {
		return common.Failure{Exception: ofBroker.Message, Message: err.Error(), Code: ofBroker.Code}
	}
	return common.Failure{Exception: fmt.Sprintf("%T", err), Message: err.Error()}
}

func consume(ctx context.Context, options common.Options) {
	c := &consumer{topic: options.Topic, autocommit: options.Autocommit()}
	var s settings
	common.Apply(options.Properties, s.setters(map[string]func(string) error{
		"auto.commit.interval.ms": common.Millis(func(d time.Duration) {
			if c.autocommit {
				s.add(kgo.AutoCommitInterval(d))
			}
		}),
		"auto.offset.reset": common.OneOf(
			func(offset kgo.Offset) { s.add(kgo.ConsumeResetOffset(offset)) },
			map[string]kgo.Offset{
				"earliest": kgo.NewOffset().AtStart(), "latest": kgo.NewOffset().AtEnd(),
			}),
		"client.rack":        common.Text(func(rack string) { s.add(kgo.Rack(rack)) }),
		"enable.auto.commit": common.Bool(func(bool) {}), // options.Autocommit
		"fetch.max.bytes":    common.Int(func(n int) { s.add(kgo.FetchMaxBytes(int32(n))) }),
		"fetch.max.wait.ms":  common.Millis(func(d time.Duration) { s.add(kgo.FetchMaxWait(d)) }),
		"fetch.min.bytes":    common.Int(func(n int) { s.add(kgo.FetchMinBytes(int32(n))) }),
		"group.instance.id":  common.Text(func(id string) { s.add(kgo.InstanceID(id)) }),
		"heartbeat.interval.ms": common.Millis(func(d time.Duration) {
			s.add(kgo.HeartbeatInterval(d))
		}),
		"isolation.level": common.OneOf(
			func(level kgo.IsolationLevel) { s.add(kgo.FetchIsolationLevel(level)) },
			map[string]kgo.IsolationLevel{
				"read_committed": kgo.ReadCommitted(), "read_uncommitted": kgo.ReadUncommitted(),
			}),
		"max.partition.fetch.bytes": common.Int(func(n int) {
			s.add(kgo.FetchMaxPartitionBytes(int32(n)))
		}),
		// Java's consumer asks the leader again for the replica in its rack after this time too.
		"metadata.max.age.ms": common.Millis(func(d time.Duration) {
			s.add(refreshingMetadata(d)...)
			s.add(kgo.RecheckPreferredReplicaInterval(d))
		}),
		"partition.assignment.strategy": common.Assignors(
			func(balancers []kgo.GroupBalancer) { s.add(kgo.Balancers(balancers...)) },
			map[string]kgo.GroupBalancer{
				"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(),
				"sticky": kgo.StickyBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer(),
			}),
		"request.timeout.ms": common.Millis(func(d time.Duration) {
			s.add(kgo.RequestTimeoutOverhead(d))
		}),
		"session.timeout.ms": common.Millis(func(d time.Duration) { s.add(kgo.SessionTimeout(d)) }),
	}))
	s.add(
		kgo.ConsumerGroup(options.GroupID),
		kgo.ConsumeTopics(options.Topic),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(c.onAssigned),
		kgo.OnPartitionsRevoked(c.onRevoked),
		kgo.OnPartitionsLost(c.onLost),
	)
	if c.autocommit {
		s.add(kgo.AutoCommitCallback(c.onCommit))
	} else {
		s.add(kgo.DisableAutoCommit())
	}
	client := s.client(options)
	common.EmitStartup(options, adapter, "github.com/twmb/franz-go",
		map[string]string{"enable.auto.commit": fmt.Sprint(c.autocommit)})
	c.run(ctx, client)
}

// consumer reports what it receives, and commits what was reported.
//
// BlockRebalanceOnPoll: between a poll and AllowRebalance, no partition is revoked.
type consumer struct {
	topic      string
	autocommit bool

	mutex          sync.Mutex
	positions      map[int32]kgo.EpochOffset // next to read, as far as not known to be committed
	commitInFlight bool
}

func (c *consumer) run(ctx context.Context, client *kgo.Client) {
	c.positions = map[int32]kgo.EpochOffset{}
	for ctx.Err() == nil {
		// The limit lets a failed commit be repeated where no record arrives.
		poll, cancel := context.WithTimeout(ctx, time.Second)
		fetches := client.PollRecords(poll, maxPollRecords)
		cancel()
		c.report(fetches)
		c.commit(client)
		client.AllowRebalance()
	}
	c.commitNow(client)
	client.CloseAllowingRebalance()
}

func (c *consumer) report(fetches kgo.Fetches) {
	for _, failed := range fetches.Errors() {
		ended := errors.Is(failed.Err, context.DeadlineExceeded) ||
			errors.Is(failed.Err, context.Canceled)
		if !ended {
			fmt.Fprintf(os.Stderr, "poll: %s-%d: %v\n", failed.Topic, failed.Partition, failed.Err)
		}
	}
	var records []common.Received
	c.mutex.Lock()
	defer c.mutex.Unlock()
	fetches.EachRecord(func(record *kgo.Record) {
		records = append(records, common.Received{
			Partition: record.Partition, Offset: record.Offset, Key: record.Key, Value: record.Value,
		})
		c.positions[record.Partition] = kgo.EpochOffset{
			Epoch: record.LeaderEpoch, Offset: record.Offset + 1,
		}
	})
	common.EmitRecords(c.topic, records)
}

// uncommitted returns a copy of the positions.
func (c *consumer) uncommitted() map[string]map[int32]kgo.EpochOffset {
	offsets := map[int32]kgo.EpochOffset{}
	for partition, offset := range c.positions {
		offsets[partition] = offset
	}
	return map[string]map[int32]kgo.EpochOffset{c.topic: offsets}
}

// commit begins a commit, unless one is in flight: the client would cancel that.
func (c *consumer) commit(client *kgo.Client) {
	c.mutex.Lock()
	begin := !c.autocommit && !c.commitInFlight && len(c.positions) > 0
	c.commitInFlight = c.commitInFlight || begin
	offsets := c.uncommitted()
	c.mutex.Unlock()
	if begin {
		client.CommitOffsets(context.Background(), offsets, c.onCommit)
	}
}

// commitNow commits and waits for the answer.
func (c *consumer) commitNow(client *kgo.Client) {
	c.mutex.Lock()
	offsets, none := c.uncommitted(), len(c.positions) == 0
	c.mutex.Unlock()
	if c.autocommit || none {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastCommit)
	defer cancel()
	client.CommitOffsetsSync(ctx, offsets, c.onCommit)
}

func (c *consumer) onCommit(
	_ *kgo.Client, request *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error,
) {
	offsets := map[int32]int64{}
	for _, topic := range request.Topics {
		for _, partition := range topic.Partitions {
			offsets[partition.Partition] = partition.Offset
		}
	}
	if err == nil {
		for _, topic := range response.Topics {
			for _, partition := range topic.Partitions {
				err = errors.Join(err, kerr.ErrorForCode(partition.ErrorCode))
			}
		}
	}
	common.EmitCommit(c.topic, offsets, err)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.commitInFlight = false
	for partition, offset := range offsets {
		if err == nil && c.positions[partition].Offset == offset {
			delete(c.positions, partition)
		}
	}
}

func (c *consumer) onAssigned(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	common.EmitAssignment("assigned", partitions)
}

func (c *consumer) onRevoked(_ context.Context, client *kgo.Client, partitions map[string][]int32) {
	c.commitNow(client)
	c.giveUp(partitions)
}

// onLost gives partitions up that another member may own already: a commit would fail.
func (c *consumer) onLost(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	c.giveUp(partitions)
}

func (c *consumer) giveUp(partitions map[string][]int32) {
	c.mutex.Lock()
	for _, partition := range partitions[c.topic] {
		delete(c.positions, partition)
	}
	c.mutex.Unlock()
	common.EmitAssignment("revoked", partitions)
}
