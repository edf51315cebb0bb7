//! Kafka's way from a name to a partition of an internal topic (T-10).

/// The partition of the offsets topic that a group belongs to, of `partitions` in all.
pub fn offsets_partition(group_id: &str, partitions: i32) -> i32 {
    let hash = java_string_hash(group_id);
    let positive = if hash == i32::MIN { 0 } else { hash.abs() };
    positive % partitions.max(1)
}

/// Java's `String.hashCode`: over UTF-16 units, wrapping.
fn java_string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_10_the_hash_is_javas() {
        assert_eq!(java_string_hash(""), 0);
        assert_eq!(java_string_hash("hello"), 99_162_322);
        assert_eq!(java_string_hash("polygenelubricants"), i32::MIN);
        assert_eq!(offsets_partition("polygenelubricants", 50), 0);
        assert_eq!(offsets_partition("hello", 50), 22);
    }
}
