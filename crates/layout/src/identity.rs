//! The identity of a data folder, which every file in it repeats.

use crate::geometry::{Geometry, GeometryError};
use crate::read::{put, u16_at, u32_at, u64_at};

const MAGIC: &[u8; 8] = b"OTTLAID\0";
const FORMAT: u16 = 0;
const CHECKSUM: usize = 28;

/// Bytes of an encoded identity.
pub const IDENTITY_LEN: usize = 32;

/// The properties of a data folder that never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// A random number that ties segments, groups and snapshots to this folder.
    pub log_id: u64,
    /// The shard whose log this is.
    pub shard: u16,
    /// Segment size and the arithmetic that follows from it.
    pub geometry: Geometry,
}

/// An identity that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// Not an identity, or not all of it.
    #[error("offset 0: this is not the identity of an Ottla data folder")]
    NotAnIdentity,
    /// Written by a newer version.
    #[error("offset 8: format {0} is newer than this program knows: use the version that wrote it")]
    NewerFormat(u16),
    /// Damaged.
    #[error("offset 28: the checksum does not match: the file is damaged")]
    Checksum,
    /// A segment size that this program would never have written.
    #[error("offset 16: {0}")]
    Geometry(#[from] GeometryError),
}

impl Identity {
    /// The encoded identity.
    pub fn encode(&self) -> [u8; IDENTITY_LEN] {
        let mut bytes = [0; IDENTITY_LEN];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, &FORMAT.to_le_bytes());
        put(&mut bytes, 10, &self.shard.to_le_bytes());
        put(&mut bytes, 12, &[0; 4]);
        put(&mut bytes, 16, &(self.geometry.segment_size() as u32).to_le_bytes());
        put(&mut bytes, 20, &self.log_id.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..CHECKSUM]);
        put(&mut bytes, CHECKSUM, &checksum.to_le_bytes());
        bytes
    }

    /// Reads what [`Identity::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Identity, IdentityError> {
        let broken = IdentityError::NotAnIdentity;
        if bytes.len() != IDENTITY_LEN || !bytes.starts_with(MAGIC) {
            return Err(broken);
        }
        let checksum = u32_at(bytes, CHECKSUM).ok_or(broken.clone())?;
        if crc32c::crc32c(&bytes[..CHECKSUM]) != checksum {
            return Err(IdentityError::Checksum);
        }
        let format = u16_at(bytes, 8).ok_or(broken.clone())?;
        if format != FORMAT {
            return Err(IdentityError::NewerFormat(format));
        }
        Ok(Identity {
            shard: u16_at(bytes, 10).ok_or(broken.clone())?,
            geometry: Geometry::new(u64::from(u32_at(bytes, 16).ok_or(broken.clone())?))?,
            log_id: u64_at(bytes, 20).ok_or(broken)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity { log_id: 0x0102_0304_0506_0708, shard: 3, geometry: Geometry::new(128 << 20).unwrap() }
    }

    #[test]
    fn comes_back_as_written() {
        assert_eq!(Identity::decode(&identity().encode()), Ok(identity()));
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let bytes = identity().encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Identity::decode(&damaged).is_err(), "bit {bit}");
        }
        assert_eq!(Identity::decode(&bytes[..31]), Err(IdentityError::NotAnIdentity));
    }
}
