// Consumer groups.
import { check, same } from './world.js'

// A group member that commits after every batch and remembers what it owned and read.
class Member {
  owned = []
  read = []

  async join(world, topic) {
    this.consumer = await world.consumer(world.group)
    this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload }) => (this.owned = payload.memberAssignment[topic] ?? []))
    this.consumer.on(this.consumer.events.REBALANCING, () => (this.owned = []))
    await this.consumer.subscribe({ topic, fromBeginning: true })
    await this.consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: 1,
      eachBatch: context => this.take(context),
    })
    return this
  }

  async take({ batch, resolveOffset, isRunning, isStale }) {
    if (!isRunning() || isStale()) return
    const { topic, partition, messages } = batch
    const last = messages.at(-1).offset
    // A batch whose commit fails does not count as read: the next owner starts there.
    await this.consumer.commitOffsets([{ topic, partition, offset: String(Number(last) + 1) }])
    this.read.push(...messages.map(m => m.value.toString()))
    resolveOffset(last)
  }
}

export async function groupRebalance(world) {
  const topic = await world.topic('', 4)
  const producer = await world.producer()
  const feed = (from, to) => {
    const messages = Array.from({ length: to - from }, (_, n) => ({ partition: (from + n) % 4, value: String(from + n) }))
    return producer.send({ topic, acks: -1, messages })
  }
  await feed(0, 80)
  const a = await new Member().join(world, topic)
  await world.until('the first member owns all and has read all', () => a.owned.length === 4 && a.read.length >= 80)
  const b = await new Member().join(world, topic)
  await world.until('two partitions for each of two members', () => a.owned.length === 2 && b.owned.length === 2)
  same([0, 1, 2, 3], [...a.owned, ...b.owned].sort(), 'partitions of the two')
  await feed(80, 140)
  await world.until('both have read all', () => a.read.length + b.read.length >= 140)
  await a.consumer.disconnect()
  await world.until('the second member owns all', () => b.owned.length === 4)
  await feed(140, 200)
  await world.until('all is read', () => a.read.length + b.read.length >= 200)
  await b.consumer.disconnect()
  const values = [...a.read, ...b.read].map(Number).sort((x, y) => x - y)
  same(Array.from({ length: 200 }, (_, i) => i), values, 'records read')
  same([50, 50, 50, 50], await world.committed(topic, 4), 'committed offsets')
  check(a.read.length > 0 && b.read.length > 0, 'one member read nothing')
  return `${a.read.length} and ${b.read.length} records`
}
