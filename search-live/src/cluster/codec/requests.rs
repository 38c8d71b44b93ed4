//! What clients ask, which recordings keep.

use super::bytes::{In, Out};
use crate::cluster::content::Live;
use cavy_core::Span;
use cavy_search::cluster::many::Request;
use cavy_search::cluster::message;

/// Writes a request.
pub fn write(request: &Request<Live>, out: &mut Out<'_>) {
    match request {
        Request::Of(index, request) => {
            out.byte(0);
            out.word(*index);
            match request {
                message::Request::Search { question, within } => {
                    out.byte(if within.is_some() { 6 } else { 0 });
                    within.iter().for_each(|within| out.long(within.as_ns()));
                    out.bytes(question);
                }
                message::Request::Write { id, deleted, body } => {
                    out.byte(1);
                    out.long(*id);
                    out.byte(u8::from(*deleted));
                    out.bytes(body);
                }
                message::Request::Spread { p } => {
                    out.byte(2);
                    out.word(*p);
                }
                message::Request::Look { slice, question } => {
                    out.byte(3);
                    out.slice(*slice);
                    out.bytes(question);
                }
                message::Request::Everywhere(question) => {
                    out.byte(4);
                    out.bytes(question);
                }
                message::Request::Ranges(question) => {
                    out.byte(7);
                    out.bytes(question);
                }
                message::Request::Stay(stays) => {
                    out.byte(5);
                    out.byte(u8::from(*stays));
                }
            }
        }
        Request::Change(change) => {
            out.byte(1);
            out.change(change);
        }
        Request::Spread(index, p) => {
            out.byte(2);
            out.word(*index);
            out.word(*p);
        }
        Request::Read => out.byte(3),
        Request::Leave => out.byte(4),
    }
}

/// Reads a request.
pub fn read(from: &mut In<'_>) -> Option<Request<Live>> {
    Some(match from.byte()? {
        0 => {
            let index = from.word()?;
            let request = match from.byte()? {
                0 => message::Request::Search { question: from.bytes()?, within: None },
                1 => message::Request::Write {
                    id: from.long()?,
                    deleted: from.truth()?,
                    body: from.bytes()?,
                },
                2 => message::Request::Spread { p: from.word()? },
                3 => message::Request::Look { slice: from.slice()?, question: from.bytes()? },
                4 => message::Request::Everywhere(from.bytes()?),
                5 => message::Request::Stay(from.truth()?),
                7 => message::Request::Ranges(from.bytes()?),
                6 => {
                    let within = Some(Span::from_ns(from.long()?));
                    message::Request::Search { question: from.bytes()?, within }
                }
                _ => return None,
            };
            Request::Of(index, request)
        }
        1 => Request::Change(from.change()?),
        2 => Request::Spread(from.word()?, from.word()?),
        3 => Request::Read,
        4 => Request::Leave,
        _ => return None,
    })
}
