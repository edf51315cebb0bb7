//! Replaces the addresses in responses that name brokers: decode, change, encode. Everything else in them stays as it
//! is, unknown tagged fields and record batches included.

use bytes::Bytes;
use ottla_wire::frame::{Frame, response_with};
use ottla_wire::messages::{
    DescribeClusterResponse, DescribeQuorumResponse, FetchResponse, FindCoordinatorResponse,
    MetadataResponse, ProduceResponse, ResponseHeader, ShareAcknowledgeResponse, ShareFetchResponse,
};
use ottla_wire::{
    ApiKey, DecodeError, EncodeError, Message, Reader, Response, Text, response_header_version,
};

/// Bytes of the size in front of a frame.
const SIZE: usize = 4;

/// Maps host and port of a broker to the address that clients use for it; `None` keeps the address as it is.
pub(crate) type AddressMap<'a> = dyn FnMut(&str, u16) -> Option<(Text, u16)> + 'a;

/// Why a response could not be rewritten.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RewriteError {
    /// It is not a message of its API and version.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Bytes follow the message.
    #[error("{0} bytes follow the message")]
    TrailingBytes(usize),
    /// The new address does not fit.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// True if responses of this API can name brokers.
pub(crate) fn names_brokers(key: ApiKey) -> bool {
    matches!(
        key,
        ApiKey::METADATA
            | ApiKey::FIND_COORDINATOR
            | ApiKey::DESCRIBE_CLUSTER
            | ApiKey::DESCRIBE_QUORUM
            | ApiKey::PRODUCE
            | ApiKey::FETCH
            | ApiKey::SHARE_FETCH
            | ApiKey::SHARE_ACKNOWLEDGE
    )
}

/// A response, a whole frame with its size, with the addresses that `map` gives; `None` if no address changes.
///
/// # Errors
/// The frame is not a response of that API and version; it should be relayed as it is.
pub(crate) fn rewrite(
    key: ApiKey,
    version: i16,
    frame: &Bytes,
    map: &mut AddressMap,
) -> Result<Option<Frame>, RewriteError> {
    let job = Rewrite { key, version, frame, map };
    match key {
        ApiKey::METADATA => job.run::<MetadataResponse>(),
        ApiKey::FIND_COORDINATOR => job.run::<FindCoordinatorResponse>(),
        ApiKey::DESCRIBE_CLUSTER => job.run::<DescribeClusterResponse>(),
        ApiKey::DESCRIBE_QUORUM => job.run::<DescribeQuorumResponse>(),
        ApiKey::PRODUCE => job.run::<ProduceResponse>(),
        ApiKey::FETCH => job.run::<FetchResponse>(),
        ApiKey::SHARE_FETCH => job.run::<ShareFetchResponse>(),
        ApiKey::SHARE_ACKNOWLEDGE => job.run::<ShareAcknowledgeResponse>(),
        _ => Ok(None),
    }
}

struct Rewrite<'a, 'b> {
    key: ApiKey,
    version: i16,
    frame: &'a Bytes,
    map: &'a mut AddressMap<'b>,
}

impl Rewrite<'_, '_> {
    fn run<M: Response + NamesBrokers>(self) -> Result<Option<Frame>, RewriteError> {
        let content = self.frame.slice(self.frame.len().min(SIZE)..);
        let mut r = Reader::with_base(content, SIZE);
        let header_version = response_header_version(self.key, self.version).unwrap_or(0);
        let header = ResponseHeader::decode(&mut r, header_version)?;
        let mut message = M::decode(&mut r, self.version)?;
        if r.remaining() > 0 {
            return Err(RewriteError::TrailingBytes(r.remaining()));
        }
        let mut changed = false;
        let map = self.map;
        message.each_address(&mut |address| changed |= address.replace(map));
        Ok(if changed { Some(response_with(&header, &message, self.version)?) } else { None })
    }
}

/// The fields of one address in a response.
struct AddressField<'a> {
    host: &'a mut Text,
    port: Port<'a>,
}

enum Port<'a> {
    Signed(&'a mut i32),
    Unsigned(&'a mut u16),
}

impl AddressField<'_> {
    /// Replaces the address; false if it stays. An empty host or port 0 means that there is no broker.
    fn replace(self, map: &mut AddressMap) -> bool {
        let port = match &self.port {
            Port::Signed(port) => u16::try_from(**port).unwrap_or(0),
            Port::Unsigned(port) => **port,
        };
        if port == 0 || self.host.is_empty() {
            return false;
        }
        let Some((host, new)) = map(self.host, port) else { return false };
        let same = *self.host == host && port == new;
        *self.host = host;
        match self.port {
            Port::Signed(port) => *port = i32::from(new),
            Port::Unsigned(port) => *port = new,
        }
        !same
    }
}

/// A message with addresses of brokers.
trait NamesBrokers {
    /// Calls `visit` with each address.
    fn each_address(&mut self, visit: &mut dyn FnMut(AddressField));
}

/// Calls `visit` with the address of each item of a list.
macro_rules! hosts_and_ports {
    ($list:expr, $visit:expr) => {
        for one in &mut $list {
            $visit(AddressField { host: &mut one.host, port: Port::Signed(&mut one.port) });
        }
    };
}

impl NamesBrokers for MetadataResponse {
    fn each_address(&mut self, visit: &mut dyn FnMut(AddressField)) {
        hosts_and_ports!(self.brokers, visit);
    }
}

impl NamesBrokers for FindCoordinatorResponse {
    /// Versions 0 to 3 have one coordinator, the later ones a list.
    fn each_address(&mut self, visit: &mut dyn FnMut(AddressField)) {
        visit(AddressField { host: &mut self.host, port: Port::Signed(&mut self.port) });
        hosts_and_ports!(self.coordinators, visit);
    }
}

impl NamesBrokers for DescribeClusterResponse {
    fn each_address(&mut self, visit: &mut dyn FnMut(AddressField)) {
        hosts_and_ports!(self.brokers, visit);
    }
}

impl NamesBrokers for DescribeQuorumResponse {
    fn each_address(&mut self, visit: &mut dyn FnMut(AddressField)) {
        for node in &mut self.nodes {
            for one in &mut node.listeners {
                visit(AddressField { host: &mut one.host, port: Port::Unsigned(&mut one.port) });
            }
        }
    }
}

impl NamesBrokers for ProduceResponse {
    fn each_address(&mut self, visit: &mut dyn FnMut(AddressField)) {
        hosts_and_ports!(self.node_endpoints, visit);
    }
}

impl NamesBrokers for FetchResponse {
    fn each_address(&mut self, visit: &mut dyn FnMut(AddressField)) {
        hosts_and_ports!(self.node_endpoints, visit);
    }
}

impl NamesBrokers for ShareFetchResponse {
    fn each_address(&mut self, visit: &mut dyn FnMut(AddressField)) {
        hosts_and_ports!(self.node_endpoints, visit);
    }
}

impl NamesBrokers for ShareAcknowledgeResponse {
    fn each_address(&mut self, visit: &mut dyn FnMut(AddressField)) {
        hosts_and_ports!(self.node_endpoints, visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_wire::messages::{self, fetch_response, metadata_response, produce_response};
    use ottla_wire::smallest_frame;
    use ottla_wire::tables::Direction;
    use ottla_wire::{API_TABLE, Records, Tags};

    const BROKER: Text = Text::from_static("kafka-2.example");
    const TAP: Text = Text::from_static("127.0.0.1");

    fn to_the_tap(host: &str, port: u16) -> Option<(Text, u16)> {
        (host == BROKER.as_str() && port == 9092).then_some((TAP, 19093))
    }

    /// A message with an address in it, in every version.
    fn check<M: Response + NamesBrokers + Clone>(make: impl Fn(&Text, i32, i16) -> Option<M>) {
        let mut seen = 0;
        for version in M::VERSIONS.iter() {
            let Some(before) = make(&BROKER, 9092, version) else { continue };
            let after = make(&TAP, 19093, version).unwrap();
            let header = ResponseHeader { correlation_id: 77, unknown_tags: unknown(M::KEY, version) };
            let frame = |message| response_with(&header, message, version).unwrap().to_bytes();
            let rewritten = rewrite(M::KEY, version, &frame(&before), &mut to_the_tap).unwrap();
            assert_eq!(rewritten.unwrap().to_bytes(), frame(&after), "{} {version}", M::NAME);
            let other = make(&Text::from_static("elsewhere"), 9092, version).unwrap();
            let untouched = rewrite(M::KEY, version, &frame(&other), &mut to_the_tap).unwrap();
            assert!(untouched.is_none(), "{} {version}", M::NAME);
            seen += 1;
        }
        assert!(seen > 0, "{}", M::NAME);
    }

    /// Tagged fields that no schema knows, where the version has room for them.
    fn unknown(key: ApiKey, version: i16) -> Tags {
        let mut tags = Tags::default();
        if response_header_version(key, version) == Some(1) {
            tags.push(99, Bytes::from_static(b"kept"));
        }
        tags
    }

    #[test]
    fn metadata_in_every_version() {
        check(|host, port, version| {
            let broker = metadata_response::MetadataResponseBroker {
                node_id: 2,
                host: host.clone(),
                port,
                unknown_tags: unknown(ApiKey::METADATA, version),
                ..Default::default()
            };
            let unknown_tags = unknown(ApiKey::METADATA, version);
            Some(MetadataResponse { brokers: vec![broker], unknown_tags, ..Default::default() })
        });
    }

    #[test]
    fn find_coordinator_in_its_two_forms() {
        check(|host, port, version| {
            if version < 4 {
                let host = host.clone();
                return Some(FindCoordinatorResponse { host, port, ..Default::default() });
            }
            let one = |host: &Text, port| messages::find_coordinator_response::Coordinator {
                host: host.clone(),
                port,
                ..Default::default()
            };
            // The second is not there: its address stays empty.
            let coordinators = vec![one(host, port), one(&Text::default(), -1)];
            Some(FindCoordinatorResponse { coordinators, ..Default::default() })
        });
    }

    #[test]
    fn describe_cluster_in_every_version() {
        check(|host, port, _| {
            let broker = messages::describe_cluster_response::DescribeClusterBroker {
                host: host.clone(),
                port,
                ..Default::default()
            };
            Some(DescribeClusterResponse { brokers: vec![broker], ..Default::default() })
        });
    }

    #[test]
    fn the_listeners_of_describe_quorum() {
        check(|host, port, version| {
            let listener = messages::describe_quorum_response::Listener {
                host: host.clone(),
                port: port as u16,
                ..Default::default()
            };
            let node =
                messages::describe_quorum_response::Node { listeners: vec![listener], ..Default::default() };
            (version >= 2).then(|| DescribeQuorumResponse { nodes: vec![node], ..Default::default() })
        });
    }

    #[test]
    fn endpoints_of_the_share_apis() {
        check(|host, port, _| {
            let host = host.clone();
            let one = messages::share_fetch_response::NodeEndpoint { host, port, ..Default::default() };
            Some(ShareFetchResponse { node_endpoints: vec![one], ..Default::default() })
        });
        check(|host, port, _| {
            let host = host.clone();
            let one = messages::share_acknowledge_response::NodeEndpoint { host, port, ..Default::default() };
            Some(ShareAcknowledgeResponse { node_endpoints: vec![one], ..Default::default() })
        });
    }

    #[test]
    fn endpoints_of_produce() {
        check(|host, port, version| {
            let host = host.clone();
            let one = produce_response::NodeEndpoint { host, port, ..Default::default() };
            (version >= 10).then(|| ProduceResponse { node_endpoints: vec![one], ..Default::default() })
        });
    }

    fn fetched(host: &Text, port: i32, records: &Bytes) -> FetchResponse {
        let partition = fetch_response::PartitionData {
            records: Some(Records::from(records.clone())),
            ..Default::default()
        };
        let topic =
            fetch_response::FetchableTopicResponse { partitions: vec![partition], ..Default::default() };
        let host = host.clone();
        let one = fetch_response::NodeEndpoint { host, port, ..Default::default() };
        FetchResponse { responses: vec![topic], node_endpoints: vec![one], ..Default::default() }
    }

    #[test]
    fn endpoints_of_fetch_beside_records() {
        let records = Bytes::from(vec![7; 5000]);
        check(|host, port, version| (version >= 16).then(|| fetched(host, port, &records)));
    }

    #[test]
    fn records_are_not_copied() {
        let records = Bytes::from(vec![7; 5000]);
        let frame = response_with(&ResponseHeader::default(), &fetched(&BROKER, 9092, &records), 17).unwrap();
        let whole = frame.to_bytes();
        let rewritten = rewrite(ApiKey::FETCH, 17, &whole, &mut to_the_tap).unwrap().unwrap();
        let inside = |chunk: &Bytes| whole.as_ptr_range().contains(&chunk.as_ptr());
        assert!(rewritten.chunks().iter().any(|chunk| chunk.len() == records.len() && inside(chunk)));
    }

    #[test]
    fn frames_without_addresses_are_left_alone() {
        for info in API_TABLE {
            for version in info.response_versions.iter() {
                let frame = smallest_frame(info.key, Direction::Response, version).unwrap();
                let untouched = rewrite(info.key, version, &frame, &mut |_, _| Some((TAP, 1))).unwrap();
                assert!(untouched.is_none(), "{} {version}", info.name);
            }
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let frame = smallest_frame(ApiKey::METADATA, Direction::Response, 9).unwrap();
        let longer = Bytes::from([&frame[..], b"x"].concat());
        let shorter = frame.slice(..frame.len() - 1);
        for wrong in [longer, shorter, Bytes::new()] {
            assert!(rewrite(ApiKey::METADATA, 9, &wrong, &mut to_the_tap).is_err());
        }
        assert!(rewrite(ApiKey::METADATA, 999, &frame, &mut to_the_tap).is_err());
    }
}
