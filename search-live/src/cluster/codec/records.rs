//! What survives a crash.

use super::bytes::{In, Out};
use crate::cluster::content::Live;
use cavy_search::cluster::many::Record;
use cavy_search::cluster::message;
use std::sync::Arc;

/// Writes a record.
pub fn write(record: &Record<Live>, out: &mut Out<'_>) {
    match record {
        Record::Of(index, record) => {
            out.byte(0);
            out.word(*index);
            match record {
                message::Record::Doc(doc) => {
                    out.byte(0);
                    out.doc(doc);
                }
                message::Record::Held(slice) => {
                    out.byte(1);
                    out.slice(*slice);
                }
                message::Record::Map(map) => {
                    out.byte(2);
                    out.map(map);
                }
                message::Record::Target(p) => {
                    out.byte(3);
                    out.word(*p);
                }
                message::Record::Left => out.byte(4),
                message::Record::Kept { held, wanted } => {
                    out.byte(if held.is_some() { 8 } else { 7 });
                    held.iter().for_each(|held| out.slice(*held));
                    out.slice(*wanted);
                }
                message::Record::Life(life) => {
                    out.byte(5);
                    out.long(*life);
                }
                message::Record::Known(server, life) => {
                    out.byte(6);
                    out.word(*server);
                    out.long(*life);
                }
            }
        }
        Record::Catalogue(catalogue) => {
            out.byte(1);
            out.catalogue(catalogue);
        }
    }
}

/// Reads a record.
pub fn read(from: &mut In<'_>) -> Option<Record<Live>> {
    Some(match from.byte()? {
        0 => {
            let index = from.word()?;
            let record = match from.byte()? {
                0 => message::Record::Doc(from.doc()?),
                1 => message::Record::Held(from.slice()?),
                2 => message::Record::Map(Arc::new(from.map()?)),
                3 => message::Record::Target(from.word()?),
                4 => message::Record::Left,
                5 => message::Record::Life(from.long()?),
                6 => message::Record::Known(from.word()?, from.long()?),
                kind @ (7 | 8) => message::Record::Kept {
                    held: if kind == 8 { Some(from.slice()?) } else { None },
                    wanted: from.slice()?,
                },
                _ => return None,
            };
            Record::Of(index, record)
        }
        1 => Record::Catalogue(Arc::new(from.catalogue()?)),
        _ => return None,
    })
}
