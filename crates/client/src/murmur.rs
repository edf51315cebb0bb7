//! The partition of a key: the hash of Kafka's own producers, so that all clients agree on it.

/// The partition for `key` among `partitions` (at least 1).
pub(crate) fn partition_of(key: &[u8], partitions: i32) -> i32 {
    (hash(key) & 0x7fff_ffff).cast_signed() % partitions.max(1)
}

/// MurmurHash2, 32 bits, with the seed that Kafka's producers share.
fn hash(key: &[u8]) -> u32 {
    const MIX: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c_u32 ^ key.len() as u32;
    let (words, tail) = key.as_chunks::<4>();
    for word in words {
        let word = u32::from_le_bytes(*word).wrapping_mul(MIX);
        hash = hash.wrapping_mul(MIX) ^ (word ^ word >> 24).wrapping_mul(MIX);
    }
    if !tail.is_empty() {
        let rest = tail.iter().rev().fold(0_u32, |rest, byte| rest << 8 | u32::from(*byte));
        hash = (hash ^ rest).wrapping_mul(MIX);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(MIX);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    fn agrees_with_kafkas_published_test_vectors() {
        let cases: [(&[u8], i32); 5] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ];
        for (key, expected) in cases {
            assert_eq!(hash(key).cast_signed(), expected, "{}", String::from_utf8_lossy(key));
        }
    }
}
