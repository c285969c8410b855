import java.io.FileReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;

import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's Java producer, following the schedule of `experiments.trial.clients.producer.transactions`.
 *
 * Its options, its values and its reports are those of Kafka's VerifiableProducer. In addition it
 * reports each transaction: `transaction_begun`, `transaction_commit_requested`, and how it ended,
 * `transaction_committed`, `transaction_aborted`, `transaction_fenced` or `transaction_failed`. The
 * warm-up records are in a transaction of their own, which is not reported.
 *
 * Janino compiles this file when it is run; it knows no lambda expressions.
 */
public class TransactionalProducer {

    private static final long END_MARGIN_MS = 5000;

    private final KafkaProducer producer;
    private final Map options;
    private final int transactionRecords;
    private final int abortEvery;
    private final int warmUpRecords;
    private final int maxMessages;
    private final double recordsPerMs;
    private final int repeatingKeys;
    private final long endTimeoutMs;
    private long startNs;

    private TransactionalProducer(Map options, Properties settings) {
        this.options = options;
        transactionRecords = number("--transaction-records");
        abortEvery = number("--abort-every");
        warmUpRecords = number("--warm-up-records");
        maxMessages = number("--max-messages");
        recordsPerMs = number("--throughput") / 1000.0;
        repeatingKeys = number("--repeating-keys");
        endTimeoutMs = END_MARGIN_MS
            + Long.parseLong(settings.getProperty("transaction.timeout.ms", "60000"));
        producer = new KafkaProducer(settings, new StringSerializer(), new StringSerializer());
    }

    public static void main(String[] arguments) throws Exception {
        Map options = new HashMap();
        for (int at = 0; at < arguments.length; at += 2) {
            options.put(arguments[at], arguments[at + 1]);
        }
        Properties settings = new Properties();
        FileReader file = new FileReader((String) options.get("--command-config"));
        settings.load(file);
        file.close();
        settings.setProperty("bootstrap.servers", (String) options.get("--bootstrap-server"));
        new TransactionalProducer(options, settings).run();
        System.exit(0);
    }

    private void run() {
        producer.initTransactions();
        startNs = System.nanoTime();
        report("startup_complete", null, null, null);
        producer.beginTransaction();
        send(0, warmUpRecords, new AtomicBoolean());
        producer.commitTransaction();
        int transactions = (maxMessages - warmUpRecords + transactionRecords - 1) / transactionRecords;
        boolean canContinue = true;
        for (int number = 0; number < transactions && canContinue; number++) {
            canContinue = runTransaction(number);
        }
        producer.close(Duration.ofSeconds(5));
    }

    /** Run one transaction; return whether the producer can begin another one. */
    private boolean runTransaction(int number) {
        try {
            producer.beginTransaction();
        } catch (KafkaException error) {
            return false;
        }
        report("transaction_begun", Integer.toString(number), null, null);
        AtomicBoolean hasFailed = new AtomicBoolean();
        int first = warmUpRecords + number * transactionRecords;
        send(first, Math.min(first + transactionRecords, maxMessages), hasFailed);
        KafkaException error = null;
        boolean isAbortPlanned = abortEvery > 0 && (number + 1) % abortEvery == 0;
        if (!isAbortPlanned && !hasFailed.get()) {
            report("transaction_commit_requested", Integer.toString(number), null, null);
            error = end(true);
            if (error == null) {
                report("transaction_committed", Integer.toString(number), null, null);
                return true;
            }
        }
        KafkaException abortError = isFenced(error) ? error : end(false);
        if (abortError == null) {
            report("transaction_aborted", Integer.toString(number), null, error);
            return true;
        }
        String ending = isFenced(abortError) ? "transaction_fenced" : "transaction_failed";
        report(ending, Integer.toString(number), null, abortError);
        return false;
    }

    /** Commit or abort, and repeat that after timeouts; return the error, or null. */
    private KafkaException end(boolean commit) {
        long endMs = System.currentTimeMillis() + endTimeoutMs;
        while (true) {
            try {
                if (commit) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
                return null;
            } catch (TimeoutException error) {
                if (System.currentTimeMillis() > endMs) {
                    return error;
                }
            } catch (KafkaException error) {
                return error;
            }
        }
    }

    private static boolean isFenced(KafkaException error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof ProducerFencedException
                    || cause instanceof InvalidProducerEpochException) {
                return true;
            }
        }
        return false;
    }

    /** Send these records when they are due, and wait until each is settled. */
    private void send(int begin, int end, AtomicBoolean hasFailed) {
        for (int number = begin; number < end; number++) {
            sleepUntil(startNs + (long) (number / recordsPerMs * 1000000));
            String key = repeatingKeys > 0 ? Integer.toString(number % repeatingKeys) : null;
            String value = options.get("--value-prefix") + "." + number;
            Report callback = new Report(value, hasFailed);
            try {
                producer.send(new ProducerRecord((String) options.get("--topic"), key, value), callback);
            } catch (KafkaException error) {
                callback.onCompletion(null, error);
            } catch (IllegalStateException error) {
                callback.onCompletion(null, error);
            }
        }
        producer.flush();
    }

    private static void sleepUntil(long atNs) {
        for (long left = atNs - System.nanoTime(); left > 0; left = atNs - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    private int number(String option) {
        return options.containsKey(option) ? Integer.parseInt((String) options.get(option)) : 0;
    }

    private static void report(
            String name, String value, RecordMetadata metadata, Exception error) {
        StringBuilder line = new StringBuilder("{\"timestamp\":");
        line.append(System.currentTimeMillis()).append(",\"name\":\"").append(name).append('"');
        if (value != null) {
            line.append(",\"value\":\"").append(value).append('"');
        }
        if (metadata != null) {
            line.append(",\"partition\":").append(metadata.partition());
            line.append(",\"offset\":").append(metadata.offset());
        }
        if (error != null) {
            line.append(",\"exception\":\"").append(error.getClass().toString()).append('"');
        }
        line.append('}');
        System.out.println(line.toString());
    }

    /** Reports a record when it is settled. */
    private static class Report implements Callback {

        private final String value;
        private final AtomicBoolean hasFailed;
        private final AtomicBoolean isReported = new AtomicBoolean();

        Report(String value, AtomicBoolean hasFailed) {
            this.value = value;
            this.hasFailed = hasFailed;
        }

        public void onCompletion(RecordMetadata metadata, Exception error) {
            if (!isReported.compareAndSet(false, true)) {
                return;
            }
            if (error == null) {
                report("producer_send_success", value, metadata, null);
            } else {
                hasFailed.set(true);
                report("producer_send_error", value, null, error);
            }
        }
    }
}
