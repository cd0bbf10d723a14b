//! A compact binary format: numbers of variable length, bytes with a length prefix. The reader checks every length
//! against the remaining input, so that no input causes an allocation larger than itself.

use alloy::primitives::{Address, B256, U256};

/// Error for bytes that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BytesError {
    /// The input ends too early.
    #[error("it is truncated")]
    CutOff,
    /// A value that is not allowed at its position.
    #[error("its {0} is not valid")]
    Invalid(&'static str),
}

/// Writer of values in sequence.
#[derive(Debug, Default)]
pub struct ByteWriter(Vec<u8>);

impl ByteWriter {
    /// Returns all written bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Writes a number with seven bits per byte, lowest bits first.
    pub fn number(&mut self, mut number: u64) {
        while number > 0x7f {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// Writes the length of a list or of bytes.
    pub fn length(&mut self, length: usize) {
        self.number(u64::try_from(length).unwrap_or(u64::MAX));
    }

    /// Writes a flag as a byte that is 0 or 1.
    pub fn flag(&mut self, flag: bool) {
        self.number(flag.into());
    }

    /// Writes bytes with a length prefix.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// Writes 32 bytes without a length.
    pub fn hash(&mut self, hash: B256) {
        self.0.extend_from_slice(hash.as_slice());
    }

    /// Writes 20 bytes without a length.
    pub fn address(&mut self, address: Address) {
        self.0.extend_from_slice(address.as_slice());
    }

    /// Writes a number of up to 32 bytes, without leading zeros.
    pub fn word(&mut self, word: U256) {
        self.bytes(&word.to_be_bytes_trimmed_vec());
    }

    /// Writes a flag, followed by the number if there is one.
    pub fn optional(&mut self, number: Option<u64>) {
        self.flag(number.is_some());
        if let Some(number) = number {
            self.number(number);
        }
    }
}

/// Reader of values in the order in which they were written.
#[derive(Debug, Clone, Copy)]
pub struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    /// Creates a reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Checks that all bytes have been read.
    ///
    /// # Errors
    /// [`BytesError::Invalid`] if bytes are left.
    pub fn finish(self) -> Result<(), BytesError> {
        if self.0.is_empty() { Ok(()) } else { Err(BytesError::Invalid("end")) }
    }

    /// Reads a number; see [`ByteWriter::number`].
    ///
    /// # Errors
    /// [`BytesError`], as for all other methods.
    pub fn number(&mut self) -> Result<u64, BytesError> {
        let mut number = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let [byte] = *self.take::<1>()?;
            let part = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift == 63 && part > 1 {
                break;
            }
            number |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(BytesError::Invalid("number"))
    }

    /// Reads the length of a list whose entries take at least one byte each.
    pub fn length(&mut self) -> Result<usize, BytesError> {
        let length = usize::try_from(self.number()?).map_err(|_| BytesError::CutOff)?;
        if length > self.0.len() { Err(BytesError::CutOff) } else { Ok(length) }
    }

    /// Reads a flag; see [`ByteWriter::flag`].
    pub fn flag(&mut self) -> Result<bool, BytesError> {
        match self.number()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(BytesError::Invalid("flag")),
        }
    }

    /// Reads bytes with a length prefix; see [`ByteWriter::bytes`].
    pub fn bytes(&mut self) -> Result<&'a [u8], BytesError> {
        let length = self.length()?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(BytesError::CutOff)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Reads bytes that must be UTF-8.
    pub fn text(&mut self) -> Result<&'a str, BytesError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| BytesError::Invalid("text"))
    }

    /// Reads 32 bytes; see [`ByteWriter::hash`].
    pub fn hash(&mut self) -> Result<B256, BytesError> {
        Ok(B256::new(*self.take()?))
    }

    /// Reads 20 bytes; see [`ByteWriter::address`].
    pub fn address(&mut self) -> Result<Address, BytesError> {
        Ok(Address::new(*self.take()?))
    }

    /// Reads a number of up to 32 bytes; see [`ByteWriter::word`].
    pub fn word(&mut self) -> Result<U256, BytesError> {
        U256::try_from_be_slice(self.bytes()?).ok_or(BytesError::Invalid("word"))
    }

    /// Reads an optional number; see [`ByteWriter::optional`].
    pub fn optional(&mut self) -> Result<Option<u64>, BytesError> {
        Ok(if self.flag()? { Some(self.number()?) } else { None })
    }

    fn take<const LENGTH: usize>(&mut self) -> Result<&'a [u8; LENGTH], BytesError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(BytesError::CutOff)?;
        self.0 = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_were_written() {
        let mut writer = ByteWriter::default();
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            writer.number(number);
        }
        writer.word(U256::ZERO);
        writer.word(U256::MAX);
        writer.bytes(b"abc");
        writer.hash(B256::repeat_byte(7));
        writer.address(Address::repeat_byte(8));
        writer.optional(None);
        writer.optional(Some(9));
        writer.flag(true);
        let bytes = writer.into_bytes();
        let read = |bytes: &[u8]| -> Result<(), BytesError> {
            let mut reader = ByteReader::new(bytes);
            for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
                assert_eq!(reader.number()?, number);
            }
            assert_eq!((reader.word()?, reader.word()?), (U256::ZERO, U256::MAX));
            assert_eq!(reader.bytes()?, b"abc");
            assert_eq!((reader.hash()?, reader.address()?), (B256::repeat_byte(7), Address::repeat_byte(8)));
            assert_eq!((reader.optional()?, reader.optional()?, reader.flag()?), (None, Some(9), true));
            reader.finish()
        };
        assert_eq!(read(&bytes), Ok(()));
        // A truncated input gives an error and never a wrong value.
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]), Err(BytesError::CutOff), "{end}");
        }
        assert_eq!(read(&[bytes.as_slice(), &[0]].concat()), Err(BytesError::Invalid("end")));
    }

    #[test]
    fn lengths_beyond_the_end_are_refused() {
        assert_eq!(ByteReader::new(&[0xff; 9]).number(), Err(BytesError::CutOff));
        assert_eq!(ByteReader::new(&[0xff; 10]).number(), Err(BytesError::Invalid("number")));
        assert_eq!(ByteReader::new(&[5, 1, 2]).bytes(), Err(BytesError::CutOff));
        assert_eq!(ByteReader::new(&[0xff, 0xff, 0xff, 0xff, 0x7f]).length(), Err(BytesError::CutOff));
        assert_eq!(ByteReader::new(&[2]).flag(), Err(BytesError::Invalid("flag")));
        assert_eq!(ByteReader::new(&[1, 0xff]).text(), Err(BytesError::Invalid("text")));
        assert_eq!(ByteReader::new(&[33; 34]).word(), Err(BytesError::Invalid("word")));
    }
}
