//! The words of the protocol as bytes: little-endian, a letter for each kind of word.
//!
//! Reading takes any bytes: what is none of these words is refused, and never asks for more memory
//! than a small multiple of the bytes that came.
//!
//! **Reading order.** [`bytes`] (numbers and strings), [`parts`] (what several words are made of),
//! then a file for each kind of word: [`messages`], [`records`], [`requests`].

mod bytes;
mod messages;
mod parts;
mod records;
mod requests;

use super::content::{Live, Made};
use bytes::{In, Out};
use cavy_node::Codec;
use cavy_search::cluster::many::{Message, Record, Request, Words};
use std::sync::Arc;

/// The codec of one node; a server's has the findings that it has made.
#[derive(Clone, Debug, Default)]
pub struct Binary {
    made: Arc<Made>,
}

impl Binary {
    /// Of a node whose findings are in `made`.
    pub fn new(made: Arc<Made>) -> Binary {
        Binary { made }
    }
}

/// All of the bytes, or nothing.
fn whole<'a, T>(bytes: &'a [u8], read: impl Fn(&mut In<'a>) -> Option<T>) -> Option<T> {
    let mut from = In(bytes);
    read(&mut from).filter(|_| from.0.is_empty())
}

impl Codec<Words<Live>> for Binary {
    fn message(&self, message: &Message<Live>, out: &mut Vec<u8>) {
        messages::write(&self.made, message, &mut Out(out));
    }

    fn read_message(&self, bytes: &[u8]) -> Option<Message<Live>> {
        match bytes {
            // Documents that are copied: the kind of word, the index, and what it says of it.
            [0, _, _, _, _, 7, ..] => self.made.taken.count(|| whole(bytes, messages::read)),
            _ => whole(bytes, messages::read),
        }
    }

    fn record(&self, record: &Record<Live>, out: &mut Vec<u8>) {
        records::write(record, &mut Out(out));
    }

    fn read_record(&self, bytes: &[u8]) -> Option<Record<Live>> {
        whole(bytes, records::read)
    }

    fn request(&self, request: &Request<Live>, out: &mut Vec<u8>) {
        requests::write(request, &mut Out(out));
    }

    fn read_request(&self, bytes: &[u8]) -> Option<Request<Live>> {
        whole(bytes, requests::read)
    }
}

#[cfg(test)]
mod tests;
