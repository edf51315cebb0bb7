// What every scenario needs: a client, topics, waiting, and reading to the end.
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import kafkajs from 'kafkajs'

const { Kafka, logLevel } = kafkajs

// Retries that kafkajs makes itself: quick, and for about half a minute.
export const RETRY = { initialRetryTime: 50, maxRetryTime: 500, retries: 60 }

// TLS and SASL, when the runner asks for them.
function security() {
  const { E2E_USER: username, E2E_PASSWORD: password, E2E_CA: ca } = process.env
  if (!username) return {}
  return { ssl: { ca: [readFileSync(ca)] }, sasl: { mechanism: 'scram-sha-512', username, password } }
}

export class World {
  constructor(bootstrap, run) {
    this.run = run
    this.group = `${run}-g`
    this.deadline = Date.now() + 40_000
    this.open = []
    this.kafka = new Kafka({
      brokers: [bootstrap],
      ...security(),
      clientId: 'e2e-kafkajs',
      retry: RETRY,
      logLevel: logLevel.WARN,
      logCreator: () => ({ namespace, log }) => note(`${namespace}: ${log.message} ${log.error ?? ''}`),
    })
  }

  // Connects a producer, consumer or admin client and disconnects it when the scenario is over.
  async use(client) {
    await client.connect()
    this.open.push(client)
    return client
  }

  async close() {
    await Promise.allSettled(this.open.map(client => client.disconnect()))
  }

  admin() {
    return this.use(this.kafka.admin())
  }

  producer(options = {}) {
    return this.use(this.kafka.producer({ allowAutoTopicCreation: false, ...options }))
  }

  transactional() {
    return this.producer({
      transactionalId: `${this.run}-t`,
      idempotent: true,
      maxInFlightRequests: 1,
      transactionTimeout: 30_000,
    })
  }

  consumer(groupId, options = {}) {
    const limits = { maxWaitTimeInMs: 200, heartbeatInterval: 300, sessionTimeout: 10_000, rebalanceTimeout: 10_000 }
    return this.use(this.kafka.consumer({ groupId, allowAutoTopicCreation: false, ...limits, ...options }))
  }

  // Creates a topic named by the run id and the suffix.
  async topic(suffix, numPartitions) {
    const topic = this.run + suffix
    const admin = await this.admin()
    await admin.createTopics({ topics: [{ topic, numPartitions }], waitForLeaders: true })
    return topic
  }

  // Asks until the question answers true, or the scenario's time is over.
  async until(what, ask) {
    while (!(await ask())) {
      if (Date.now() > this.deadline) throw new Error(`${what}: not seen in time`)
      await pause(50)
    }
  }

  // Reads from the beginning, in a group of its own (kafkajs has no reader without one), until `enough` says so.
  async read(topic, readUncommitted, enough) {
    this.readers = (this.readers ?? 0) + 1
    const consumer = await this.consumer(`${this.run}-reader-${this.readers}`, { readUncommitted })
    await consumer.subscribe({ topic, fromBeginning: true })
    let done = false
    let wrong
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        try {
          done = (await enough(partition, message)) || done
        } catch (error) {
          wrong = error
        }
      },
    })
    await this.until(`reading ${topic} to its end`, () => done || wrong)
    await consumer.disconnect()
    if (wrong) throw wrong
  }

  // The values of each partition up to its record `end`.
  async readToEnd(topic, partitions, readUncommitted) {
    const values = Array.from({ length: partitions }, () => [])
    let missing = partitions
    await this.read(topic, readUncommitted, (partition, message) => {
      const value = message.value.toString()
      if (value === 'end') missing--
      else values[partition].push(value)
      return missing === 0
    })
    return values
  }

  // The committed offset of each partition.
  async committed(topic, partitions) {
    const admin = await this.admin()
    const [found] = await admin.fetchOffsets({ groupId: this.group, topics: [topic] })
    return Array.from({ length: partitions }, (_, p) => Number(found.partitions.find(x => x.partition === p)?.offset ?? -1))
  }
}

export function note(text) {
  process.stderr.write(`${text}\n`)
}

export function pause(ms) {
  return new Promise(resolve => setTimeout(resolve, ms))
}

export function check(good, complaint) {
  if (!good) throw new Error(complaint)
}

export function same(want, got, what) {
  const [w, g] = [JSON.stringify(want), JSON.stringify(got)]
  check(w === g, `${what}: got ${g.slice(0, 300)}, should be ${w.slice(0, 300)}`)
}

// One line to the proxy in front of the broker; answers the number in its answer.
export function proxy(command) {
  const [host, port] = process.env.E2E_PROXY_CONTROL.split(':')
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), host, () => socket.write(`${command}\n`))
    let answer = ''
    socket.on('error', reject)
    socket.on('data', bytes => {
      answer += bytes
      if (!answer.includes('\n')) return
      socket.destroy()
      note(`proxy: ${answer.trim()}`)
      resolve(Number(answer.trim().split(' ')[1]))
    })
  })
}
