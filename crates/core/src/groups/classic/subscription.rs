//! The topics in a consumer's subscription. The broker need not understand what members tell each other, with this one
//! exception: offsets of topics that a live group subscribes to are neither deleted nor expired (T-189, T-190).
//!
//! Every version of a subscription begins alike: a version number of two bytes, a count of four bytes, and that many
//! topic names, each with a length of two bytes. What follows is left alone.

/// The topics, or none if the bytes are not a subscription.
pub(super) fn topics(metadata: &[u8]) -> Option<Vec<String>> {
    let (_version, rest) = metadata.split_first_chunk::<2>()?;
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    let count = usize::try_from(i32::from_be_bytes(*count)).ok()?;
    let mut topics = Vec::new();
    for _ in 0..count {
        let (length, after) = rest.split_first_chunk::<2>()?;
        let length = usize::try_from(i16::from_be_bytes(*length)).ok()?;
        let (name, after) = after.split_at_checked(length)?;
        topics.push(std::str::from_utf8(name).ok()?.to_owned());
        rest = after;
    }
    Some(topics)
}

#[cfg(test)]
mod tests {
    use super::topics;

    #[test]
    fn topics_of_any_version_are_read() {
        let bytes = [0, 3, 0, 0, 0, 2, 0, 1, b'a', 0, 2, b'b', b'c', 0xff, 0xff];
        assert_eq!(topics(&bytes), Some(vec!["a".to_owned(), "bc".to_owned()]));
        assert_eq!(topics(&[0, 0, 0, 0, 0, 0]), Some(vec![]));
    }

    #[test]
    fn other_bytes_are_not_a_subscription() {
        for bytes in [&[][..], &[0, 1], &[0, 0, 0x7f, 0xff, 0xff, 0xff], &[0, 0, 0, 0, 0, 1, 0, 9, b'a']] {
            assert_eq!(topics(bytes), None);
        }
        assert_eq!(topics(&[0, 0, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
