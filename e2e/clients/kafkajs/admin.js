// What an administrator does.
import kafkajs from 'kafkajs'
import { check, same } from './world.js'

const { ConfigResourceTypes } = kafkajs

export async function admin(world) {
  const [topic, kafka] = [world.run, await world.admin()]
  const configEntries = [{ name: 'retention.ms', value: '3600000' }]
  const wanted = { topics: [{ topic, numPartitions: 2, configEntries }], waitForLeaders: true }
  same(true, await kafka.createTopics(wanted), 'create topic')
  same(false, await kafka.createTopics(wanted), 'create the same topic again') // how kafkajs says TOPIC_ALREADY_EXISTS
  await described(kafka, topic)
  await configs(world, kafka, topic)
  await kafka.createPartitions({ topicPartitions: [{ topic, count: 4 }] })
  await world.until('four partitions', async () => (await partitions(kafka, topic)).length === 4)
  check((await kafka.listTopics()).includes(topic), 'the topic is not in the list')
  const producer = await world.producer()
  const messages = Array.from({ length: 10 }, (_, i) => ({ partition: 0, value: String(i) }))
  await producer.send({ topic, acks: -1, messages })
  await bounds(kafka, topic, '0', '10')
  await group(world, kafka, topic)
  await kafka.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '4' }] })
  await bounds(kafka, topic, '4', '10')
  await kafka.deleteTopics({ topics: [topic] })
  await world.until('the topic is gone', async () => !(await kafka.listTopics()).includes(topic))
  return 'without: incremental alter configs (kafkajs has only the older call)'
}

async function partitions(kafka, topic) {
  const { topics } = await kafka.fetchTopicMetadata({ topics: [topic] })
  return topics[0].partitions
}

async function described(kafka, topic) {
  const { brokers } = await kafka.describeCluster()
  const found = await partitions(kafka, topic)
  same(2, found.length, 'partitions')
  for (const p of found) {
    check(brokers.some(b => b.nodeId === p.leader), `leader ${p.leader} is not in the list of brokers`)
    same([1, 1], [p.replicas.length, p.isr.length], 'replicas and in-sync replicas')
  }
}

async function values(kafka, topic) {
  const { resources } = await kafka.describeConfigs({
    includeSynonyms: false,
    resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }],
  })
  return Object.fromEntries(resources[0].configEntries.map(e => [e.configName, e]))
}

async function configs(world, kafka, topic) {
  const before = await values(kafka, topic)
  same('3600000', before['retention.ms']?.configValue, 'retention.ms')
  check(before['segment.bytes'].isDefault || before['segment.bytes'].configSource === 5, 'segment.bytes is not a default')
  const configEntries = [
    { name: 'retention.ms', value: '7200000' },
    { name: 'max.message.bytes', value: '500000' },
  ]
  await kafka.alterConfigs({ validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }] })
  await world.until('the new values', async () => {
    const now = await values(kafka, topic)
    return now['retention.ms'].configValue === '7200000' && now['max.message.bytes'].configValue === '500000'
  })
}

async function bounds(kafka, topic, low, high) {
  const offsets = await kafka.fetchTopicOffsets(topic)
  const first = offsets.find(o => o.partition === 0)
  same([low, high], [first.low, first.high], 'earliest and latest')
}

async function group(world, kafka, topic) {
  const consumer = await world.consumer(world.group)
  await consumer.subscribe({ topic, fromBeginning: true })
  let read = 0
  await consumer.run({ autoCommit: false, eachMessage: async () => void read++ })
  await world.until('the member to read', () => read >= 5)
  await consumer.commitOffsets([{ topic, partition: 0, offset: '5' }])
  await consumer.disconnect()
  const listed = async () => (await kafka.listGroups()).groups.some(g => g.groupId === world.group)
  check(await listed(), 'the group is not in the list')
  await world.until('the group is empty', async () => {
    const { groups } = await kafka.describeGroups([world.group])
    return groups[0].state === 'Empty' && groups[0].members.length === 0
  })
  same([5], await world.committed(topic, 1), 'committed offset')
  await kafka.deleteGroups([world.group])
  check(!(await listed()), 'the deleted group is in the list')
}
