//! The identity of a data folder: read, or made for an empty folder.

use crate::error::OpenError;
use crate::medium::Medium;
use crate::names::{IDENTITY, Listing, temporary};
use crate::options::Options;
use ottla_layout::{Geometry, IDENTITY_LEN, Identity};
use std::io;

/// Reads the identity, or makes one for an empty folder.
pub(super) fn read_or_make(
    medium: &dyn Medium,
    options: &Options,
    listing: &Listing,
) -> Result<Identity, OpenError> {
    if !listing.identity {
        return new_identity(medium, options, listing);
    }
    read_identity(medium, options.shard)
}

/// Reads the identity of a folder that should be that of `shard`.
pub(crate) fn read_identity(medium: &dyn Medium, shard: u16) -> Result<Identity, OpenError> {
    let file = medium.open(IDENTITY).map_err(OpenError::medium(IDENTITY, "opening"))?;
    let mut bytes = [0; IDENTITY_LEN + 1];
    let found = file.read_at(&mut bytes, 0).map_err(OpenError::medium(IDENTITY, "reading"))?;
    let identity = Identity::decode(&bytes[..found])
        .map_err(|source| OpenError::Identity { file: IDENTITY.to_owned(), source })?;
    if identity.shard != shard {
        return Err(OpenError::Shard { file: IDENTITY.to_owned(), found: identity.shard, wanted: shard });
    }
    Ok(identity)
}

fn new_identity(medium: &dyn Medium, options: &Options, listing: &Listing) -> Result<Identity, OpenError> {
    if !listing.is_empty() {
        return Err(OpenError::Missing {
            file: IDENTITY.to_owned(),
            why: "the folder holds data, and only the identity says how to read it".to_owned(),
        });
    }
    let log_id = options.log_id.map_or_else(random, Ok);
    let identity = Identity {
        log_id: log_id.map_err(OpenError::medium(IDENTITY, "choosing a random number for"))?,
        shard: options.shard,
        geometry: Geometry::new(options.segment_size)?,
    };
    let write = || {
        let name = temporary(IDENTITY);
        let file = medium.create(&name)?;
        file.write_at(&identity.encode(), 0)?;
        file.sync()?;
        // The name becomes durable with that of the first segment, before anything is accepted.
        medium.rename(&name, IDENTITY)
    };
    write().map_err(OpenError::medium(IDENTITY, "writing"))?;
    Ok(identity)
}

fn random() -> io::Result<u64> {
    getrandom::u64().map_err(|error| io::Error::other(error.to_string()))
}
