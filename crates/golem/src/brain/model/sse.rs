//! Parser for server-sent events, as far as chat endpoints use them. It extracts the data of each event from bytes in
//! pieces of any size. Event names, ids and comments are ignored, because the data identifies itself.

/// Maximum size of one event's data, in bytes.
const MOST_EVENT: usize = 256 << 10;

/// Incremental event parser.
#[derive(Debug, Default)]
pub(super) struct EventParser {
    line: Vec<u8>,
    data: Vec<u8>,
}

/// Error for an event that exceeds [`MOST_EVENT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of more than 256 KiB")]
pub(super) struct EventTooLarge;

impl EventParser {
    /// Adds bytes and returns the data of every event that they complete.
    ///
    /// # Errors
    /// [`EventTooLarge`] if a line or an event exceeds [`MOST_EVENT`].
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, EventTooLarge> {
        let mut whole = Vec::new();
        for byte in bytes {
            if *byte != b'\n' {
                self.line.push(*byte);
                if self.line.len() > MOST_EVENT {
                    return Err(EventTooLarge);
                }
                continue;
            }
            let mut line = std::mem::take(&mut self.line);
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            if line.is_empty() {
                if !self.data.is_empty() {
                    whole.push(std::mem::take(&mut self.data));
                }
            } else if let Some(data) = line.strip_prefix(b"data:") {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
                if self.data.len() > MOST_EVENT {
                    return Err(EventTooLarge);
                }
            }
        }
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_parsed_from_bytes_in_any_pieces() {
        let text = b": hello\nevent: x\ndata: {\"a\":1}\n\ndata:two\r\ndata: lines\r\n\r\nid: 7\n\ndata: half";
        let all = [b"{\"a\":1}".to_vec(), b"two\nlines".to_vec()];
        assert_eq!(EventParser::default().take(text).unwrap(), all);
        let mut events = EventParser::default();
        let pieces = text.iter().flat_map(|byte| events.take(&[*byte]).unwrap()).collect::<Vec<_>>();
        assert_eq!(pieces, all);
        assert_eq!(EventParser::default().take(&vec![b'x'; MOST_EVENT + 1]), Err(EventTooLarge));
    }
}
