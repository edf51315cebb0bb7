//! Reads fixed-width fields from bytes that may be damaged, and never panics.

/// Copies `N` bytes from `offset`, or `None` past the end.
pub(crate) fn array<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    array(bytes, offset).map(u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    array(bytes, offset).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    array(bytes, offset).map(u64::from_le_bytes)
}

pub(crate) fn i64_at(bytes: &[u8], offset: usize) -> Option<i64> {
    array(bytes, offset).map(i64::from_le_bytes)
}

/// Writes `value` at `offset` of a header that is long enough by construction.
pub(crate) fn put(header: &mut [u8], offset: usize, value: &[u8]) {
    if let Some(place) = header.get_mut(offset..offset + value.len()) {
        place.copy_from_slice(value);
    }
}
