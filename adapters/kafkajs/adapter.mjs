// Verifiable producer and consumer with KafkaJS; see docs/clients.md.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { setImmediate, setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import kafkajs from 'kafkajs'

const { CompressionTypes, Kafka, PartitionAssigners, logLevel } = kafkajs
const { version } = createRequire(import.meta.url)('kafkajs/package.json')
const adapter = JSON.parse(readFileSync(new URL('adapter.json', import.meta.url), 'utf8'))

class InvalidSetting extends Error {}

let stopRequested = false
let requestStop
const stop = new Promise(resolve => {
  requestStop = () => {
    stopRequested = true
    resolve()
  }
})

function parseOptions() {
  const text = { type: 'string' }
  const flag = { type: 'boolean', default: false }
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      'bootstrap-server': text,
      topic: text,
      'max-messages': { ...text, default: '-1' },
      throughput: { ...text, default: '-1' },
      'value-prefix': text,
      'repeating-keys': { ...text, default: '0' },
      'group-id': text,
      'command-config': text,
      verbose: flag, // record_data is always written.
      'enable-autocommit': flag,
    },
  })
  const [role] = positionals
  if (!['producer', 'consumer'].includes(role)) {
    throw new InvalidSetting('the first argument is not producer or consumer')
  }
  for (const name of ['bootstrap-server', 'topic', ...(role === 'consumer' ? ['group-id'] : [])]) {
    if (values[name] === undefined) throw new InvalidSetting(`--${name} is required`)
  }
  // The file may be a FIFO; it is opened once.
  const file = values['command-config']
  return { role, ...values, properties: file ? parseProperties(readFileSync(file, 'utf8')) : {} }
}

function parseProperties(text) {
  const lines = text.split('\n').map(line => line.trim())
  return Object.fromEntries(
    lines
      .filter(line => line && !line.startsWith('#'))
      .map(line => {
        const at = line.includes('=') ? line.indexOf('=') : line.length
        return [line.slice(0, at).trim(), line.slice(at + 1).trim()]
      })
  )
}

const integer = value => {
  if (!/^-?\d+$/.test(value)) throw new Error('not a number')
  return Number(value)
}
const oneOf = values => value => {
  if (!(value in values)) throw new Error(`not one of ${Object.keys(values).join(', ')}`)
  return values[value]
}
const boolean = oneOf({ true: true, false: false })
const assignors = list =>
  list.split(',').map(name =>
    oneOf({
      roundrobin: PartitionAssigners.roundRobin,
      RoundRobinAssignor: PartitionAssigners.roundRobin,
    })(name.trim().split('.').at(-1))
  )

// For each of Kafka's names: the object that has the library's setting, its name, and a parser.
const CLIENT = {
  'client.id': ['kafka', 'clientId', String],
  'metadata.max.age.ms': ['role', 'metadataMaxAge', integer],
  'request.timeout.ms': ['kafka', 'requestTimeout', integer],
  retries: ['retry', 'retries', integer],
  'retry.backoff.max.ms': ['retry', 'maxRetryTime', integer],
  'retry.backoff.ms': ['retry', 'initialRetryTime', integer],
}
const PRODUCER = {
  ...CLIENT,
  acks: ['call', 'acks', oneOf({ all: -1, '-1': -1, 1: 1, 0: 0 })],
  'compression.type': [
    'call',
    'compression', // The other codecs need further packages.
    oneOf({ none: CompressionTypes.None, gzip: CompressionTypes.GZIP }),
  ],
  'enable.idempotence': ['role', 'idempotent', boolean],
  'max.in.flight.requests.per.connection': ['role', 'maxInFlightRequests', integer],
}
const CONSUMER = {
  ...CLIENT,
  'auto.commit.interval.ms': ['call', 'autoCommitInterval', integer],
  'auto.offset.reset': ['subscription', 'fromBeginning', oneOf({ earliest: true, latest: false })],
  'client.rack': ['role', 'rackId', String],
  'enable.auto.commit': ['call', 'autoCommit', boolean],
  'fetch.max.bytes': ['role', 'maxBytes', integer],
  'fetch.max.wait.ms': ['role', 'maxWaitTimeInMs', integer],
  'fetch.min.bytes': ['role', 'minBytes', integer],
  'heartbeat.interval.ms': ['role', 'heartbeatInterval', integer],
  'isolation.level': [
    'role',
    'readUncommitted',
    oneOf({ read_committed: false, read_uncommitted: true }),
  ],
  'max.partition.fetch.bytes': ['role', 'maxBytesPerPartition', integer],
  'partition.assignment.strategy': ['role', 'partitionAssigners', assignors],
  'session.timeout.ms': ['role', 'sessionTimeout', integer],
}

function librarySettings(properties, known) {
  const settings = { kafka: {}, role: {}, call: {}, retry: {}, subscription: {} }
  for (const [name, value] of Object.entries(properties)) {
    if (!(name in known)) throw new InvalidSetting(`unknown property ${name}=${value}`)
    const [part, key, parse] = known[name]
    try {
      settings[part][key] = parse(value)
    } catch (error) {
      throw new InvalidSetting(`invalid property ${name}=${value}: ${error.message}`)
    }
  }
  return settings
}

function kafkaClient(options, settings) {
  return new Kafka({
    brokers: options['bootstrap-server'].split(','),
    logLevel: logLevel.INFO,
    logCreator: () => entry => process.stderr.write(`${JSON.stringify(entry)}\n`),
    ...settings.kafka,
  })
}

function line(name, fields) {
  return { timestamp: Date.now(), name, ...fields }
}

/** Write whole lines at once: writes to files and pipes are synchronous. */
function emit(...lines) {
  process.stdout.write(lines.map(one => `${JSON.stringify(one)}\n`).join(''))
}

function emitStartup(options, forced) {
  // adapter.json has the defaults of one release; another may have others.
  const defaults = version === adapter.version ? Object.entries(adapter[options.role]) : []
  const settings = {
    ...Object.fromEntries(defaults.filter(([, value]) => value !== '')),
    ...forced,
    ...options.properties,
  }
  emit(line('startup_complete', { client: 'kafkajs', version, settings }))
}

/** The present time in ns since the epoch, with the precision of a number (256 ns). */
function nowNs() {
  return Math.round((performance.timeOrigin + performance.now()) * 1000) * 1000
}

async function* dueRecords(options) {
  const [count, rate] = [Number(options['max-messages']), Number(options.throughput)]
  const start = performance.now()
  for (let number = 0; number !== count; number++) {
    const leftMs = rate > 0 ? start + (number * 1000) / rate - performance.now() : 0
    if (leftMs > 0) await Promise.race([setTimeout(leftMs), stop])
    else await setImmediate() // Lets the client work where records are late.
    if (stopRequested) return
    yield number
  }
}

async function produce(options) {
  const settings = librarySettings(options.properties, PRODUCER)
  const { idempotent } = settings.role
  const forced = {}
  if (idempotent && ![undefined, -1].includes(settings.call.acks)) {
    throw new InvalidSetting('enable.idempotence=true requires acks=all')
  }
  if (Object.keys(settings.retry).length > 0) {
    // The library's own default; it is lost where another setting of retries is given.
    settings.role.retry = { retries: idempotent ? Number.MAX_SAFE_INTEGER : 5, ...settings.retry }
  }
  if (idempotent) forced.retries = String(Number.MAX_SAFE_INTEGER)
  const call = { acks: -1, ...settings.call, topic: options.topic }
  if (settings.kafka.requestTimeout) call.timeout = settings.kafka.requestTimeout
  let producer
  try {
    producer = kafkaClient(options, settings).producer(settings.role)
  } catch (error) {
    throw new InvalidSetting(error.message)
  }
  await producer.connect()
  emitStartup(options, forced)
  const inFlight = new Set()
  for await (const number of dueRecords(options)) {
    const sent = send(producer, call, options, number).finally(() => inFlight.delete(sent))
    inFlight.add(sent)
  }
  await Promise.all(inFlight)
  await producer.disconnect()
  emit(line('shutdown_complete'))
}

/**
 * Give one record to the client, and report its outcome.
 *
 * A call of its own for each record: the library reports the outcome of a call, and an attempt that
 * follows an error may choose another partition. It does not batch calls: a broker handles one
 * request of a connection at a time, about 100 a second with acks=all.
 */
async function send(producer, call, options, number) {
  const keys = Number(options['repeating-keys'])
  const key = keys > 0 ? String(number % keys) : null
  const prefix = options['value-prefix']
  const value = prefix === undefined ? String(number) : `${prefix}.${number}`
  const record = { topic: options.topic, key, value, sent_ns: nowNs() }
  let results
  try {
    results = await producer.send({ ...call, messages: [{ key, value }] })
  } catch (error) {
    const { name: exception, message } = error
    const code = [error.code, error.cause?.code].find(one => one > 0)
    const outcome = { ...record, acked_ns: nowNs(), exception, message, code }
    emit(line('producer_send_error', outcome))
    return
  }
  // With acks=0 there is no result.
  const { partition, baseOffset } = results[0] ?? { partition: -1, baseOffset: '-1' }
  const place = { partition, offset: Number(baseOffset) }
  emit(line('producer_send_success', { ...record, acked_ns: nowNs(), ...place }))
}

async function consume(options) {
  const settings = librarySettings(options.properties, CONSUMER)
  const { topic } = options
  const call = { autoCommit: options['enable-autocommit'], ...settings.call }
  const { autoCommit } = call
  if (Object.keys(settings.retry).length > 0) settings.role.retry = settings.retry
  const consumer = kafkaClient(options, settings).consumer({
    groupId: options['group-id'],
    ...settings.role,
  })
  reportAssignments(consumer)
  const crash = new Promise((_, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload: { error, restart } }) => {
      if (!restart) reject(error) // Otherwise the library starts it again.
    })
  })
  if (autoCommit) {
    consumer.on(consumer.events.COMMIT_OFFSETS, ({ payload }) => reportCommit(payload.topics))
  }
  await consumer.connect()
  emitStartup(options, { 'enable.auto.commit': String(autoCommit) })
  await consumer.subscribe({ topics: [topic], ...settings.subscription })
  await consumer.run({
    ...call,
    eachBatch: async ({ batch, resolveOffset, commitOffsetsIfNecessary }) => {
      report(topic, batch)
      const last = batch.lastOffset()
      resolveOffset(last)
      if (autoCommit) return
      const offset = String(BigInt(last) + 1n)
      const topics = [{ topic, partitions: [{ partition: batch.partition, offset }] }]
      try {
        await commitOffsetsIfNecessary({ topics })
      } catch (error) {
        reportCommit(topics, error)
        throw error // The library joins the group again, or reads on.
      }
      reportCommit(topics)
    },
  })
  await Promise.race([stop, crash])
  await consumer.disconnect()
  emit(line('shutdown_complete'))
}

function report(topic, batch) {
  const text = data => data?.toString() ?? null
  const { partition } = batch
  const received_ns = nowNs()
  const records = batch.messages.map(message =>
    line('record_data', {
      topic,
      partition,
      offset: Number(message.offset),
      key: text(message.key),
      value: text(message.value),
      received_ns,
    })
  )
  const count = records.length
  if (count === 0) return
  const [minOffset, maxOffset] = [records[0].offset, records[count - 1].offset]
  const partitions = [{ topic, partition, count, minOffset, maxOffset }]
  emit(...records, line('records_consumed', { count, partitions }))
}

function reportCommit(topics, error = null) {
  const offsets = topics.flatMap(({ topic, partitions }) =>
    partitions.map(({ partition, offset }) => ({
      topic,
      partition: Number(partition), // The library's event has texts.
      offset: Number(offset),
    }))
  )
  const success = error === null
  emit(line('offsets_committed', { success, error: success ? null : error.message, offsets }))
}

function reportAssignments(consumer) {
  let assigned = []
  const revoke = () => {
    if (assigned.length > 0) emit(line('partitions_revoked', { partitions: assigned }))
    assigned = []
  }
  consumer.on(consumer.events.REBALANCING, revoke)
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    revoke() // A member whose session has expired joins again without a rebalance.
    assigned = Object.entries(payload.memberAssignment).flatMap(([topic, partitions]) =>
      partitions.map(partition => ({ topic, partition }))
    )
    emit(line('partitions_assigned', { partitions: assigned }))
  })
}

try {
  const options = parseOptions()
  // Not before: until then a signal ends a program that waits for its FIFO.
  process.on('SIGTERM', requestStop)
  process.on('SIGINT', requestStop)
  await (options.role === 'producer' ? produce(options) : consume(options))
} catch (error) {
  const invalid = error instanceof InvalidSetting || error.code?.startsWith?.('ERR_PARSE_ARGS')
  process.stderr.write(`${invalid ? error.message : error.stack}\n`)
  process.exit(invalid ? 2 : 1)
}
