//! How words of a protocol become bytes, and bytes words.

use cavy_core::family::message::Protocol;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The bytes of a protocol's words.
///
/// Encoding appends; decoding is handed exactly what was appended, or garbage from a hostile peer,
/// and answers `None` when it is not a word. It may not panic and may not ask for much more memory
/// than the bytes take.
///
/// A codec may be more than a function. Where a machine names results and does not carry them (its
/// work found documents, say), encode looks the name up in a table that the workers fill, and
/// decode puts what came into the table of the receiver: the codec is shared by all threads of a
/// node.
pub trait Codec<P: Protocol>: Send + Sync + 'static {
    /// Appends a message.
    fn message(&self, message: &P::Message, out: &mut Vec<u8>);
    /// Reads a message.
    fn read_message(&self, bytes: &[u8]) -> Option<P::Message>;
    /// Appends a record.
    fn record(&self, record: &P::Record, out: &mut Vec<u8>);
    /// Reads a record.
    fn read_record(&self, bytes: &[u8]) -> Option<P::Record>;
    /// Appends a request; only recordings need it.
    fn request(&self, request: &P::Request, out: &mut Vec<u8>);
    /// Reads a request.
    fn read_request(&self, bytes: &[u8]) -> Option<P::Request>;
}

/// The codec of protocols whose words serde knows: postcard, whose format is specified and compact.
/// The words must stay as they are for as long as logs of them are kept; see
/// [`Options::format`](crate::Options::format).
#[derive(Clone, Copy, Debug, Default)]
pub struct Postcard;

fn put(value: &impl Serialize, out: &mut Vec<u8>) {
    let before = out.len();
    // Writing to memory fails only for maps of unknown length, which no word has.
    match postcard::to_extend(value, std::mem::take(out)) {
        Ok(written) => *out = written,
        Err(error) => unreachable!("a word that serde cannot write, after {before} bytes: {error}"),
    }
}

fn take<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

impl<P> Codec<P> for Postcard
where
    P: Protocol,
    P::Message: Serialize + DeserializeOwned,
    P::Record: Serialize + DeserializeOwned,
    P::Request: Serialize + DeserializeOwned,
{
    fn message(&self, message: &P::Message, out: &mut Vec<u8>) {
        put(message, out);
    }

    fn read_message(&self, bytes: &[u8]) -> Option<P::Message> {
        take(bytes)
    }

    fn record(&self, record: &P::Record, out: &mut Vec<u8>) {
        put(record, out);
    }

    fn read_record(&self, bytes: &[u8]) -> Option<P::Record> {
        take(bytes)
    }

    fn request(&self, request: &P::Request, out: &mut Vec<u8>) {
        put(request, out);
    }

    fn read_request(&self, bytes: &[u8]) -> Option<P::Request> {
        take(bytes)
    }
}
