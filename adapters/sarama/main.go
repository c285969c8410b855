// Verifiable producer and consumer with sarama; see docs/clients.md.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/IBM/sarama"

	common "ackbench/gocommon"
)

//go:embed adapter.json
var adapter []byte

const (
	maxBatch   = 500 // records of a partition that are reported together
	retryAfter = time.Second
)

func main() {
	sarama.Logger = log.New(os.Stderr, "sarama ", log.LstdFlags|log.Lmicroseconds)
	options := common.ReadOptions()
	ctx := common.StopContext()
	if options.Role == "producer" {
		produce(ctx, options)
	} else {
		consume(ctx, options)
	}
	common.EmitShutdown()
}

// setters returns those that producers and consumers share, together with a role's own.
func setters(
	config *sarama.Config, ofRole map[string]func(string) error,
) map[string]func(string) error {
	all := map[string]func(string) error{
		"client.id": common.Text(func(id string) { config.ClientID = id }),
		"metadata.max.age.ms": common.Millis(func(d time.Duration) {
			config.Metadata.RefreshFrequency = d
		}),
	}
	for name, set := range ofRole {
		all[name] = set
	}
	return all
}

func produce(ctx context.Context, options common.Options) {
	config := sarama.NewConfig()
	config.Producer.Return.Successes = true
	common.Apply(options.Properties, setters(config, map[string]func(string) error{
		"acks": common.OneOf(
			func(acks sarama.RequiredAcks) { config.Producer.RequiredAcks = acks },
			map[string]sarama.RequiredAcks{
				"all": sarama.WaitForAll, "-1": sarama.WaitForAll, "1": sarama.WaitForLocal,
				"0": sarama.NoResponse,
			}),
		"batch.size": common.Int(func(n int) { config.Producer.Flush.Bytes = n }),
		"compression.type": common.OneOf(
			func(codec sarama.CompressionCodec) { config.Producer.Compression = codec },
			map[string]sarama.CompressionCodec{
				"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP,
				"snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4,
				"zstd": sarama.CompressionZSTD,
			}),
		"enable.idempotence": common.Bool(func(enabled bool) {
			config.Producer.Idempotent = enabled
		}),
		"linger.ms": common.Millis(func(d time.Duration) { config.Producer.Flush.Frequency = d }),
		"max.in.flight.requests.per.connection": common.Int(func(n int) {
			config.Net.MaxOpenRequests = n
		}),
		"max.request.size": common.Int(func(n int) { config.Producer.MaxMessageBytes = n }),
		// The timeout of a Produce request at the broker, and of its response.
		"request.timeout.ms": common.Millis(func(d time.Duration) {
			config.Producer.Timeout = d
			config.Net.ReadTimeout = d
		}),
		"retries":          common.Int(func(n int) { config.Producer.Retry.Max = n }),
		"retry.backoff.ms": common.Millis(func(d time.Duration) { config.Producer.Retry.Backoff = d }),
	}))
	forced := requireIdempotence(config, options)
	producer, err := sarama.NewAsyncProducer(options.BootstrapServers, config)
	failInvalid(err)
	common.EmitStartup(options, adapter, "github.com/IBM/sarama", forced)

	var reports sync.WaitGroup
	reports.Add(2)
	go func() {
		defer reports.Done()
		for message := range producer.Successes() {
			offset := message.Offset
			if config.Producer.RequiredAcks == sarama.NoResponse {
				offset = -1
			}
			message.Metadata.(*common.SentRecord).Acknowledged(message.Partition, offset)
		}
	}()
	go func() {
		defer reports.Done()
		for failed := range producer.Errors() {
			failed.Msg.Metadata.(*common.SentRecord).Failed(failure(failed.Err))
		}
	}()
	for number := range common.DueRecords(ctx, options) {
		record := common.NewSentRecord(options, number)
		message := &sarama.ProducerMessage{
			Topic: options.Topic, Value: sarama.ByteEncoder(record.Value()), Metadata: record,
		}
		if key := record.Key(); key != nil {
			message.Key = sarama.ByteEncoder(key)
		}
		producer.Input() <- message // Blocks while the producer's buffers are full.
	}
	producer.AsyncClose() // Sends what is buffered; then the two channels are closed.
	reports.Wait()
}

// requireIdempotence sets what the library demands of an idempotent producer and does not set by
// itself, unless properties name it; it returns these settings.
func requireIdempotence(config *sarama.Config, options common.Options) map[string]string {
	forced := map[string]string{}
	if !config.Producer.Idempotent {
		return forced
	}
	if _, given := options.Properties["acks"]; !given {
		config.Producer.RequiredAcks = sarama.WaitForAll
		forced["acks"] = "all"
	}
	const inFlight = "max.in.flight.requests.per.connection"
	if _, given := options.Properties[inFlight]; !given {
		config.Net.MaxOpenRequests = 1
		forced[inFlight] = "1"
	}
	return forced
}

// failInvalid exits if a client could not be made.
func failInvalid(err error) {
	var invalid sarama.ConfigurationError
	if errors.As(err, &invalid) {
		common.FailSetting(err)
	}
	if err != nil {
		common.Fail(err)
	}
}

func failure(err error) common.Failure {
	result := common.Failure{Exception: fmt.Sprintf("%T", err), Message: err.Error()}
	var ofBroker sarama.KError
	var refused sarama.ConfigurationError
	switch {
	case errors.As(err, &ofBroker):
		result.Code = int16(ofBroker)
	case errors.As(err, &refused):
		result.Rejected = true // The record is larger than the setting allows.
	}
	return result
}

func consume(ctx context.Context, options common.Options) {
	config := sarama.NewConfig()
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.AutoCommit.Enable = options.Autocommit()
	requireVersion := func(version sarama.KafkaVersion) {
		if !config.Version.IsAtLeast(version) {
			config.Version = version
		}
	}
	common.Apply(options.Properties, setters(config, map[string]func(string) error{
		"auto.commit.interval.ms": common.Millis(func(d time.Duration) {
			config.Consumer.Offsets.AutoCommit.Interval = d
		}),
		"auto.offset.reset": common.OneOf(
			func(offset int64) { config.Consumer.Offsets.Initial = offset },
			map[string]int64{"earliest": sarama.OffsetOldest, "latest": sarama.OffsetNewest}),
		"client.rack": common.Text(func(rack string) {
			config.RackID = rack
			requireVersion(sarama.V2_4_0_0)
		}),
		"enable.auto.commit": common.Bool(func(bool) {}), // options.Autocommit
		"fetch.max.wait.ms":  common.Millis(func(d time.Duration) { config.Consumer.MaxWaitTime = d }),
		"fetch.min.bytes":    common.Int(func(n int) { config.Consumer.Fetch.Min = int32(n) }),
		"group.instance.id": common.Text(func(id string) {
			config.Consumer.Group.InstanceId = id
			requireVersion(sarama.V2_3_0_0)
		}),
		"heartbeat.interval.ms": common.Millis(func(d time.Duration) {
			config.Consumer.Group.Heartbeat.Interval = d
		}),
		"isolation.level": common.OneOf(
			func(level sarama.IsolationLevel) { config.Consumer.IsolationLevel = level },
			map[string]sarama.IsolationLevel{
				"read_committed": sarama.ReadCommitted, "read_uncommitted": sarama.ReadUncommitted,
			}),
		"max.partition.fetch.bytes": common.Int(func(n int) { config.Consumer.Fetch.Default = int32(n) }),
		"partition.assignment.strategy": common.Assignors(
			func(strategies []sarama.BalanceStrategy) {
				config.Consumer.Group.Rebalance.GroupStrategies = strategies
			},
			map[string]sarama.BalanceStrategy{
				"range":      sarama.NewBalanceStrategyRange(),
				"roundrobin": sarama.NewBalanceStrategyRoundRobin(),
				"sticky":     sarama.NewBalanceStrategySticky(),
			}),
		"request.timeout.ms": common.Millis(func(d time.Duration) { config.Net.ReadTimeout = d }),
		"session.timeout.ms": common.Millis(func(d time.Duration) {
			config.Consumer.Group.Session.Timeout = d
		}),
	}))
	group, err := sarama.NewConsumerGroup(options.BootstrapServers, options.GroupID, config)
	failInvalid(err)
	common.EmitStartup(options, adapter, "github.com/IBM/sarama",
		map[string]string{"enable.auto.commit": fmt.Sprint(options.Autocommit())})
	go func() {
		for err := range group.Errors() {
			sarama.Logger.Println("consumer group:", err)
		}
	}()
	// Consume returns whenever the group rebalances, and is then called again.
	for ctx.Err() == nil {
		handler := &reporter{topic: options.Topic, commit: !options.Autocommit()}
		if err := group.Consume(ctx, []string{options.Topic}, handler); err != nil {
			sarama.Logger.Println("consume:", err)
			select {
			case <-time.After(retryAfter):
			case <-ctx.Done():
			}
		}
	}
	if err := group.Close(); err != nil {
		sarama.Logger.Println("close:", err)
	}
}

// reporter reports a session's records, and commits them.
//
// The library does not tell how a commit ended: there are no offsets_committed lines.
type reporter struct {
	topic  string
	commit bool
}

func (r *reporter) Setup(session sarama.ConsumerGroupSession) error {
	common.EmitAssignment("assigned", session.Claims())
	return nil
}

// Cleanup is called after all ConsumeClaim have returned.
func (r *reporter) Cleanup(session sarama.ConsumerGroupSession) error {
	common.EmitAssignment("revoked", session.Claims())
	return nil
}

// ConsumeClaim reports the records of one partition until the session ends.
func (r *reporter) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			last := r.report(message, claim)
			session.MarkMessage(last, "")
			if r.commit {
				session.Commit()
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

// report reports a record and those that have arrived with it; it returns the last one.
func (r *reporter) report(
	message *sarama.ConsumerMessage, claim sarama.ConsumerGroupClaim,
) *sarama.ConsumerMessage {
	var records []common.Received
	for {
		records = append(records, common.Received{
			Partition: message.Partition, Offset: message.Offset,
			Key: message.Key, Value: message.Value,
		})
		if len(records) == maxBatch {
			break
		}
		select {
		case next, open := <-claim.Messages():
			if open {
				message = next
				continue
			}
		default:
		}
		break
	}
	common.EmitRecords(r.topic, records)
	return message
}
