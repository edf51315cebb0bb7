//! The hosts of ACLs (S-206, KIP-1276).

use ottla_types::acl::WILDCARD;
use std::net::IpAddr;

/// The clients that the host of an ACL stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostPattern {
    /// Every client.
    Every,
    /// The clients of one address.
    Address(IpAddr),
    /// The clients whose addresses begin with the same bits.
    Block(IpAddr, u8),
    /// No client.
    Nothing,
}

impl HostPattern {
    /// Reads the text of a host. Text that is neither an address nor a block matches nothing, as in Kafka.
    pub(super) fn parse(text: &str) -> HostPattern {
        if text == WILDCARD {
            return HostPattern::Every;
        }
        let pattern = match text.split_once('/') {
            None => text.parse().ok().map(HostPattern::Address),
            Some((address, bits)) => parse_block(address, bits),
        };
        match pattern {
            Some(HostPattern::Address(address) | HostPattern::Block(address, _)) if is_mapped(address) => {
                HostPattern::Nothing
            }
            Some(pattern) => pattern,
            None => HostPattern::Nothing,
        }
    }

    pub(super) fn matches(self, client: IpAddr) -> bool {
        match self {
            HostPattern::Every => true,
            HostPattern::Address(address) => address == client,
            HostPattern::Block(network, bits) => is_within(client, network, bits),
            HostPattern::Nothing => false,
        }
    }
}

fn parse_block(address: &str, bits: &str) -> Option<HostPattern> {
    let address: IpAddr = address.parse().ok()?;
    let plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let bits: u8 = if plain { bits.parse().ok()? } else { return None };
    let most = if address.is_ipv4() { 32 } else { 128 };
    (bits <= most).then_some(HostPattern::Block(address, bits))
}

/// Whether an IPv6 address stands for an IPv4 one. Clients over IPv4 are seen as IPv4, so it matches none.
fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

fn is_within(client: IpAddr, network: IpAddr, bits: u8) -> bool {
    let differing = match (client, network) {
        (IpAddr::V4(client), IpAddr::V4(network)) => u128::from(client.to_bits() ^ network.to_bits()) << 96,
        (IpAddr::V6(client), IpAddr::V6(network)) => client.to_bits() ^ network.to_bits(),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return false,
    };
    differing.leading_zeros() >= u32::from(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(host: &str, client: &str) -> bool {
        HostPattern::parse(host).matches(client.parse().unwrap())
    }

    #[test]
    fn s_206_hosts_are_addresses_or_blocks() {
        for (host, client, expected) in [
            ("*", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("10.0.0.77/24", "10.0.0.1", true),
            ("10.0.0.0/24", "10.0.1.1", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("10.0.0.1/32", "10.0.0.1", true),
            ("10.0.0.1/33", "10.0.0.1", false),
            ("10.0.0.1/", "10.0.0.1", false),
            ("10.0.0.1/+8", "10.0.0.1", false),
            ("::/0", "10.0.0.1", false),
            ("::/0", "2001:db8::1", true),
            ("2001:db8::/32", "2001:db8:1::5", true),
            ("2001:db8::/32", "2001:db9::5", false),
            ("0:0:0:0:0:0:0:1", "::1", true),
            ("::ffff:10.0.0.1", "10.0.0.1", false),
            ("::ffff:10.0.0.0/104", "10.0.0.1", false),
            ("broker.example", "10.0.0.1", false),
            ("", "10.0.0.1", false),
        ] {
            assert_eq!(matches(host, client), expected, "{host} {client}");
        }
    }
}
