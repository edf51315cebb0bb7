//! Arrays of numbers that share the frame's buffer.

use crate::Uuid;
use bytes::Bytes;
use std::fmt;
use std::marker::PhantomData;

/// A number with a fixed size on the wire, big-endian.
pub trait Number: Copy + fmt::Debug + PartialEq {
    /// Its size in bytes.
    const SIZE: usize;
    /// Decodes a number from exactly `SIZE` bytes.
    fn get(bytes: &[u8]) -> Self;
    /// Appends the number.
    fn put(self, out: &mut Vec<u8>);
}

/// Invokes `$apply!` with the numbers of the protocol: name of the reading and writing methods, Rust type,
/// documentation.
macro_rules! for_each_number {
    ($apply:ident) => {
        $apply! {
            i8: i8, "A signed byte.";
            i16: i16, "A signed number of two bytes.";
            u16: u16, "An unsigned number of two bytes.";
            i32: i32, "A signed number of four bytes.";
            u32: u32, "An unsigned number of four bytes.";
            i64: i64, "A signed number of eight bytes.";
            f64: f64, "A floating point number of eight bytes.";
        }
    };
}
pub(crate) use for_each_number;

macro_rules! impl_number {
    ($($name:ident: $ty:ty, $doc:literal;)*) => {$(
        impl Number for $ty {
            const SIZE: usize = size_of::<$ty>();
            #[inline]
            fn get(bytes: &[u8]) -> Self {
                let mut raw = [0; size_of::<$ty>()];
                raw.copy_from_slice(bytes);
                <$ty>::from_be_bytes(raw)
            }
            #[inline]
            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}

for_each_number!(impl_number);

impl Number for Uuid {
    const SIZE: usize = 16;
    #[inline]
    fn get(bytes: &[u8]) -> Self {
        let mut raw = [0; 16];
        raw.copy_from_slice(bytes);
        Uuid(raw)
    }
    #[inline]
    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

/// An array of numbers or ids in their encoding. Each number is decoded when it is read. Short arrays, which are the
/// most frequent, are stored inline; longer ones share the frame's buffer.
pub struct Numbers<T> {
    bytes: Repr,
    of: PhantomData<fn() -> T>,
}

/// The most bytes that are stored inline. With this limit the enum is as large as `Bytes`.
const MAX_INLINE: usize = 23;

#[derive(Clone)]
enum Repr {
    Short(u8, [u8; MAX_INLINE]),
    Long(Bytes),
}

impl Repr {
    /// The bytes inline, if they are few enough.
    fn short(bytes: &[u8]) -> Option<Repr> {
        let mut place = [0; MAX_INLINE];
        place.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Repr::Short(bytes.len() as u8, place))
    }

    fn as_slice(&self) -> &[u8] {
        match self {
            Repr::Short(length, bytes) => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Repr::Long(bytes) => bytes,
        }
    }
}

impl<T: Number> Numbers<T> {
    /// Sets the array to the big-endian numbers in the first `size` bytes of `from`, a part of the frame. A short array
    /// is copied inline.
    #[inline]
    pub(crate) fn set(&mut self, frame: &Bytes, from: &[u8], size: usize) {
        match (&mut self.bytes, from.first_chunk()) {
            // One copy of fixed size. The bytes after the array are never read.
            (Repr::Short(length, place), Some(bytes)) if size <= MAX_INLINE => {
                (*length, *place) = (size as u8, *bytes);
            }
            _ => {
                let bytes = from.get(..size).unwrap_or_default();
                self.bytes = Repr::short(bytes).unwrap_or_else(|| Repr::Long(frame.slice_ref(bytes)));
            }
        }
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.as_wire().len() / T::SIZE
    }

    /// Whether the array is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.as_wire().is_empty()
    }

    /// The number at that index.
    pub fn get(&self, place: usize) -> Option<T> {
        self.as_wire().chunks_exact(T::SIZE).nth(place).map(T::get)
    }

    /// The numbers in order.
    #[inline]
    pub fn iter(&self) -> NumbersIter<'_, T> {
        NumbersIter { chunks: self.as_wire().chunks_exact(T::SIZE), of: PhantomData }
    }

    /// Whether one of them is `number`.
    pub fn contains(&self, number: T) -> bool {
        self.iter().any(|other| other == number)
    }

    /// The numbers as a vector.
    pub fn to_vec(&self) -> Vec<T> {
        self.iter().collect()
    }

    /// Appends the encoded numbers.
    #[inline]
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match &self.bytes {
            // One copy of fixed size.
            Repr::Short(length, bytes) => {
                let end = out.len() + usize::from(*length);
                out.extend_from_slice(bytes);
                out.truncate(end);
            }
            Repr::Long(bytes) => out.extend_from_slice(bytes),
        }
    }

    /// The encoded numbers.
    pub fn as_wire(&self) -> &[u8] {
        self.bytes.as_slice()
    }
}

/// The numbers of an array, in order.
pub struct NumbersIter<'a, T> {
    chunks: std::slice::ChunksExact<'a, u8>,
    of: PhantomData<fn() -> T>,
}

impl<T: Number> Iterator for NumbersIter<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.chunks.next().map(T::get)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.chunks.size_hint()
    }
}

impl<T: Number> ExactSizeIterator for NumbersIter<'_, T> {}

impl<'a, T: Number> IntoIterator for &'a Numbers<T> {
    type Item = T;
    type IntoIter = NumbersIter<'a, T>;

    fn into_iter(self) -> NumbersIter<'a, T> {
        self.iter()
    }
}

impl<T: Number> FromIterator<T> for Numbers<T> {
    fn from_iter<I: IntoIterator<Item = T>>(numbers: I) -> Numbers<T> {
        let numbers = numbers.into_iter();
        let mut out = Vec::with_capacity(numbers.size_hint().0 * T::SIZE);
        for number in numbers {
            number.put(&mut out);
        }
        let short = Repr::short(&out);
        Numbers { bytes: short.unwrap_or_else(|| Repr::Long(Bytes::from(out))), of: PhantomData }
    }
}

impl<T: Number> From<Vec<T>> for Numbers<T> {
    fn from(numbers: Vec<T>) -> Numbers<T> {
        numbers.into_iter().collect()
    }
}

impl<T: Number> From<&[T]> for Numbers<T> {
    fn from(numbers: &[T]) -> Numbers<T> {
        numbers.iter().copied().collect()
    }
}

impl<T: Number, const N: usize> From<[T; N]> for Numbers<T> {
    fn from(numbers: [T; N]) -> Numbers<T> {
        numbers.into_iter().collect()
    }
}

impl<T> Default for Numbers<T> {
    fn default() -> Numbers<T> {
        Numbers { bytes: Repr::Short(0, [0; MAX_INLINE]), of: PhantomData }
    }
}

impl<T> Clone for Numbers<T> {
    fn clone(&self) -> Numbers<T> {
        Numbers { bytes: self.bytes.clone(), of: PhantomData }
    }
}

impl<T> PartialEq for Numbers<T> {
    fn eq(&self, other: &Numbers<T>) -> bool {
        self.bytes.as_slice() == other.bytes.as_slice()
    }
}

impl<T: Number> fmt::Debug for Numbers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Numbers;
    use bytes::Bytes;

    #[test]
    fn short_arrays_are_held_in_place_and_long_ones_shared() {
        assert_eq!(size_of::<Numbers<i32>>(), size_of::<Bytes>());
        let frame = Bytes::from_iter(0..100_u8);
        let (mut short, mut long) = (Numbers::<i32>::default(), Numbers::<i16>::default());
        short.set(&frame, &frame[10..], 20);
        assert_eq!((short.len(), short.get(0)), (5, Some(0x0a0b_0c0d)));
        assert_ne!(short.as_wire().as_ptr(), frame[10..].as_ptr());
        long.set(&frame, &frame[10..], 24);
        assert_eq!((long.len(), long.get(11)), (12, Some(0x2021)));
        assert_eq!(long.as_wire().as_ptr(), frame[10..].as_ptr());
        short.set(&frame, &frame[96..], 4);
        assert_eq!(short.to_vec(), [0x6061_6263]);
        assert_eq!(long, long.iter().collect());
    }
}
