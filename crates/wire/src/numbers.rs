//! Arrays of numbers, left in the frame.

use crate::Uuid;
use bytes::Bytes;
use std::fmt;
use std::marker::PhantomData;

/// A number with a fixed size on the wire, big-endian.
pub trait Number: Copy + fmt::Debug + PartialEq {
    /// Its size in bytes.
    const SIZE: usize;
    /// Reads one from exactly `SIZE` bytes.
    fn get(bytes: &[u8]) -> Self;
    /// Appends one.
    fn put(self, out: &mut Vec<u8>);
}

macro_rules! number {
    ($($ty:ty),*) => {$(
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

number!(i8, i16, u16, i32, u32, i64, f64);

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

/// An array of numbers or ids: the bytes of the wire, read one by one when they are asked for.
pub struct Numbers<T> {
    bytes: Bytes,
    of: PhantomData<fn() -> T>,
}

impl<T: Number> Numbers<T> {
    /// A view of big-endian numbers; a cut one at the end is left out.
    pub fn from_wire(bytes: Bytes) -> Numbers<T> {
        let whole = bytes.len() - bytes.len() % T::SIZE;
        Numbers { bytes: bytes.slice(..whole), of: PhantomData }
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() / T::SIZE
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The number at that place.
    pub fn get(&self, place: usize) -> Option<T> {
        self.bytes.chunks_exact(T::SIZE).nth(place).map(T::get)
    }

    /// The numbers in order.
    #[inline]
    pub fn iter(&self) -> NumbersIter<'_, T> {
        NumbersIter { chunks: self.bytes.chunks_exact(T::SIZE), of: PhantomData }
    }

    /// Whether one of them is `number`.
    pub fn contains(&self, number: T) -> bool {
        self.iter().any(|other| other == number)
    }

    /// The numbers as a vector.
    pub fn to_vec(&self) -> Vec<T> {
        self.iter().collect()
    }

    /// The bytes of the wire.
    pub fn as_wire(&self) -> &Bytes {
        &self.bytes
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
        Numbers { bytes: Bytes::from(out), of: PhantomData }
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
        Numbers { bytes: Bytes::new(), of: PhantomData }
    }
}

impl<T> Clone for Numbers<T> {
    fn clone(&self) -> Numbers<T> {
        Numbers { bytes: self.bytes.clone(), of: PhantomData }
    }
}

impl<T> PartialEq for Numbers<T> {
    fn eq(&self, other: &Numbers<T>) -> bool {
        self.bytes == other.bytes
    }
}

impl<T: Number> fmt::Debug for Numbers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}
