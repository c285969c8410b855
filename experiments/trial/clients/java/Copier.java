import java.io.FileReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;

import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A member of a consumer group that copies records to another topic, with Kafka's Java clients.
 *
 * Its options and its reports are those of Kafka's VerifiableConsumer. A record is reported once
 * its copy is stored, as far as the producer knows. `--commit` says when the offsets are committed:
 * `before` or `after` the copies are stored, or `within` one transaction with them. A copier whose
 * copies are not stored, or whose transaction was aborted, reads again from its group's last commit.
 * One that was fenced goes on with a new producer under the same transactional id.
 *
 * Janino compiles this file when it is run; it knows no lambda expressions.
 */
public class Copier implements ConsumerRebalanceListener {

    private static final Duration POLL = Duration.ofMillis(100);

    private final Map options;
    private final Properties producerSettings;
    private final KafkaConsumer consumer;
    private final String output;
    private final int outputPartitions;
    private final String commit;
    private final Map committed = new HashMap();
    private KafkaProducer producer;
    private volatile boolean isStopping;

    private Copier(Map options, Properties consumerSettings, Properties producerSettings) {
        this.options = options;
        this.producerSettings = producerSettings;
        output = (String) options.get("--output-topic");
        outputPartitions = Integer.parseInt((String) options.get("--output-partitions"));
        commit = (String) options.get("--commit");
        consumer = new KafkaConsumer(
            consumerSettings, new StringDeserializer(), new StringDeserializer());
        startProducer();
    }

    public static void main(String[] arguments) throws Exception {
        Map options = new HashMap();
        for (int at = 0; at < arguments.length - 1; at++) {
            if (arguments[at].startsWith("--") && !arguments[at + 1].startsWith("--")) {
                options.put(arguments[at], arguments[at + 1]);
            }
        }
        Properties all = new Properties();
        FileReader file = new FileReader((String) options.get("--command-config"));
        all.load(file);
        file.close();
        Properties consumerSettings = new Properties();
        Properties producerSettings = new Properties();
        for (Iterator names = all.stringPropertyNames().iterator(); names.hasNext();) {
            String name = (String) names.next();
            if (name.startsWith("producer.")) {
                producerSettings.setProperty(
                    name.substring("producer.".length()), all.getProperty(name));
                continue;
            }
            consumerSettings.setProperty(name, all.getProperty(name));
            if (name.startsWith("s") && name.matches("(security|sasl|ssl)\\..*")) {
                producerSettings.setProperty(name, all.getProperty(name));
            }
        }
        String servers = (String) options.get("--bootstrap-server");
        consumerSettings.setProperty("bootstrap.servers", servers);
        consumerSettings.setProperty("group.id", (String) options.get("--group-id"));
        if (options.containsKey("--assignment-strategy")) {
            consumerSettings.setProperty(
                "partition.assignment.strategy", (String) options.get("--assignment-strategy"));
        }
        producerSettings.setProperty("bootstrap.servers", servers);
        final Copier copier = new Copier(options, consumerSettings, producerSettings);
        final Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread() {
            public void run() {
                copier.isStopping = true;
                try {
                    main.join();
                } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                }
            }
        });
        copier.run();
    }

    private void run() {
        report("startup_complete", null);
        List topics = new ArrayList();
        topics.add(options.get("--topic"));
        consumer.subscribe(topics, this);
        while (!isStopping) {
            ConsumerRecords records = consumer.poll(POLL);
            Map offsets = positions();
            if (!records.isEmpty() || !offsets.isEmpty()) {
                copy(records, offsets);
            }
        }
        consumer.close();
        producer.close(Duration.ofSeconds(5));
        report("shutdown_complete", null);
    }

    private void copy(ConsumerRecords records, Map offsets) {
        if (commit.equals("within")) {
            copyInTransaction(records, offsets);
        } else if (commit.equals("before")) {
            if (commitOffsets(offsets)) {
                send(records, true);
            }
        } else if (send(records, true)) {
            commitOffsets(offsets);
        } else {
            readAgain();
        }
    }

    private void copyInTransaction(ConsumerRecords records, Map offsets) {
        try {
            producer.beginTransaction();
            send(records, false);
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            commitTransaction();
            noteCommit(offsets);
            for (Iterator all = records.iterator(); all.hasNext();) {
                reportCopied((ConsumerRecord) all.next());
            }
            reportConsumed(records.count());
            reportCommit(offsets, null);
        } catch (RuntimeException error) {
            reportCommit(offsets, error);
            abort(error);
            readAgain();
        }
    }

    /** Commit; a commit that timed out has to be repeated, as it may not be aborted. */
    private void commitTransaction() {
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException error) {
                System.err.println("commitTransaction: " + error);
                if (isStopping) {
                    throw error;
                }
            }
        }
    }

    /** Abort the transaction; a fenced producer, or one that cannot abort, is replaced. */
    private void abort(RuntimeException error) {
        if (!isFenced(error)) {
            try {
                producer.abortTransaction();
                return;
            } catch (RuntimeException failed) {
                System.err.println("abortTransaction: " + failed);
            }
        }
        producer.close(Duration.ZERO);
        startProducer();
    }

    private void startProducer() {
        producer = new KafkaProducer(
            producerSettings, new StringSerializer(), new StringSerializer());
        if (commit.equals("within")) {
            producer.initTransactions();
        }
    }

    private static boolean isFenced(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof ProducerFencedException
                    || cause instanceof InvalidProducerEpochException) {
                return true;
            }
        }
        return false;
    }

    /** Produce copies; outside of a transaction, wait for each; return whether all are stored. */
    private boolean send(ConsumerRecords records, boolean awaits) {
        List sent = new ArrayList();
        for (Iterator all = records.iterator(); all.hasNext();) {
            ConsumerRecord record = (ConsumerRecord) all.next();
            Integer partition = Integer.valueOf(record.partition() % outputPartitions);
            sent.add(producer.send(
                new ProducerRecord(output, partition, record.key(), record.value())));
        }
        if (!awaits) {
            return true;
        }
        boolean areStored = true;
        int stored = 0;
        Iterator futures = sent.iterator();
        for (Iterator all = records.iterator(); all.hasNext();) {
            ConsumerRecord record = (ConsumerRecord) all.next();
            try {
                ((Future) futures.next()).get();
                reportCopied(record);
                stored++;
            } catch (Exception error) {
                areStored = false;
            }
        }
        reportConsumed(stored);
        return areStored;
    }

    /** Return the positions that are not committed yet: behind records, or markers alone. */
    private Map positions() {
        Map offsets = new HashMap();
        for (Iterator all = consumer.assignment().iterator(); all.hasNext();) {
            TopicPartition partition = (TopicPartition) all.next();
            Long position = Long.valueOf(consumer.position(partition));
            Long before = (Long) committed.get(partition);
            if (before == null) {
                before = Long.valueOf(committedOffset(partition));
                committed.put(partition, before);
            }
            if (position.longValue() > before.longValue()) {
                offsets.put(partition, new OffsetAndMetadata(position.longValue()));
            }
        }
        return offsets;
    }

    private long committedOffset(TopicPartition partition) {
        OffsetAndMetadata found = (OffsetAndMetadata) consumer.committed(
            Collections.singleton(partition)).get(partition);
        return found == null ? 0 : found.offset();
    }

    private boolean commitOffsets(Map offsets) {
        try {
            consumer.commitSync(offsets);
        } catch (KafkaException error) {
            reportCommit(offsets, error);
            readAgain();
            return false;
        }
        noteCommit(offsets);
        reportCommit(offsets, null);
        return true;
    }

    private void noteCommit(Map offsets) {
        for (Iterator all = offsets.entrySet().iterator(); all.hasNext();) {
            Map.Entry place = (Map.Entry) all.next();
            committed.put(
                place.getKey(), Long.valueOf(((OffsetAndMetadata) place.getValue()).offset()));
        }
    }

    /** Go back to what the group has committed, in the partitions that the member still owns. */
    private void readAgain() {
        while (!isStopping) {
            try {
                for (Iterator all = consumer.assignment().iterator(); all.hasNext();) {
                    TopicPartition partition = (TopicPartition) all.next();
                    long offset = committedOffset(partition);
                    committed.put(partition, Long.valueOf(offset));
                    consumer.seek(partition, offset);
                }
                return;
            } catch (TimeoutException error) {
                System.err.println("committed: " + error);
            }
        }
    }

    public void onPartitionsAssigned(Collection partitions) {
        reportPartitions("partitions_assigned", partitions);
    }

    public void onPartitionsRevoked(Collection partitions) {
        for (Iterator all = partitions.iterator(); all.hasNext();) {
            committed.remove(all.next());
        }
        reportPartitions("partitions_revoked", partitions);
    }

    private void reportPartitions(String name, Collection partitions) {
        StringBuilder places = new StringBuilder();
        for (Iterator all = partitions.iterator(); all.hasNext();) {
            TopicPartition place = (TopicPartition) all.next();
            places.append(places.length() > 0 ? "," : "").append("{\"topic\":\"")
                .append(place.topic()).append("\",\"partition\":").append(place.partition())
                .append('}');
        }
        report(name, "\"partitions\":[" + places + "]");
    }

    private void reportCopied(ConsumerRecord record) {
        report("record_data", "\"value\":\"" + record.value() + "\",\"partition\":"
            + record.partition() + ",\"offset\":" + record.offset());
    }

    private void reportConsumed(int count) {
        report("records_consumed", "\"count\":" + count);
    }

    private void reportCommit(Map offsets, Exception error) {
        StringBuilder places = new StringBuilder();
        for (Iterator all = offsets.entrySet().iterator(); all.hasNext();) {
            Map.Entry place = (Map.Entry) all.next();
            TopicPartition partition = (TopicPartition) place.getKey();
            places.append(places.length() > 0 ? "," : "").append("{\"partition\":")
                .append(partition.partition()).append(",\"offset\":")
                .append(((OffsetAndMetadata) place.getValue()).offset()).append('}');
        }
        String how = error == null ? "\"success\":true"
            : "\"success\":false,\"error\":\"" + error.getClass().getName() + "\"";
        report("offsets_committed", "\"offsets\":[" + places + "]," + how);
    }

    private static void report(String name, String fields) {
        System.out.println("{\"timestamp\":" + System.currentTimeMillis() + ",\"name\":\"" + name
            + "\"" + (fields == null ? "" : "," + fields) + "}");
    }
}
