//! Frames of released clients that are not as the protocol has them, each known by name. Any other such frame fails the
//! run.

use bytes::Bytes;
use ottla_wire::ApiKey;

/// Bytes of the size in front of a frame.
const SIZE: usize = 4;

/// A mistake of a client: bytes behind the end of a request.
pub(super) struct Mistake {
    /// The client's name in clients.toml.
    pub(super) client: &'static str,
    key: ApiKey,
    /// The first version that has it; the later ones have it too.
    from: i16,
    /// What stands behind the message.
    left: &'static [u8],
    /// What it comes from, for docs/evidence/traffic.md.
    pub(super) why: &'static str,
}

/// The mistakes there are.
const MISTAKES: [Mistake; 1] = [Mistake {
    client: "confluent-kafka",
    key: ApiKey::METADATA,
    from: 9,
    left: &[1, 0, 0],
    why: "librdkafka encodes the topic count with four bytes instead of one when it requests no topics or all topics, so three \
          bytes follow the message (<https://github.com/confluentinc/librdkafka/issues/5049>). Apache Kafka and Ottla ignore them.",
}];

/// The known mistake in a request of a client, and the frame without it.
pub(super) fn corrected(
    client: &str,
    key: ApiKey,
    version: i16,
    frame: &Bytes,
) -> Option<(&'static Mistake, Bytes)> {
    let is_it = |mistake: &&Mistake| {
        mistake.client == client
            && mistake.key == key
            && version >= mistake.from
            && frame.ends_with(mistake.left)
    };
    let mistake = MISTAKES.iter().find(is_it)?;
    let content = frame.get(SIZE..frame.len() - mistake.left.len())?;
    let size = i32::try_from(content.len()).ok()?;
    Some((mistake, [&size.to_be_bytes()[..], content].concat().into()))
}
