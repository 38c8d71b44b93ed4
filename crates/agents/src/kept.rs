//! The file in which a coordinate survives.
//!
//! It is written anew next to itself, brought to the disk and put in place, so that a crash leaves
//! the old one or the new one. A file that is torn, altered, of another version or another space
//! counts as none: an agent then begins where its address is said to be.

use cavy_coords::agent::Kept;
use cavy_coords::wire::Said;
use ring::digest::{SHA256, digest};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

const MAGIC: [u8; 8] = *b"cavycrd1";
const BODY: usize = 8 + 2 + 1 + 1 + 16 + 8;
const SUM: usize = 8;
/// Bytes of the file.
pub const FILE_BYTES: usize = BODY + SUM;

fn sum(body: &[u8]) -> [u8; SUM] {
    let digest = digest(&SHA256, body);
    *digest.as_ref().first_chunk().unwrap_or(&[0; SUM])
}

/// The file's bytes.
pub fn bytes(space: u16, kept: &Kept) -> [u8; FILE_BYTES] {
    let mut bytes = [0; FILE_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&space.to_be_bytes());
    bytes[10] = u8::from(kept.address.is_some());
    bytes[12..16].copy_from_slice(&kept.said.latitude.to_be_bytes());
    bytes[16..20].copy_from_slice(&kept.said.longitude.to_be_bytes());
    bytes[20..22].copy_from_slice(&kept.said.height.to_be_bytes());
    bytes[22..24].copy_from_slice(&kept.said.error.to_be_bytes());
    bytes[24..28].copy_from_slice(&kept.said.system.to_be_bytes());
    let (latitude, longitude) = kept.address.unwrap_or((0, 0));
    bytes[28..32].copy_from_slice(&latitude.to_be_bytes());
    bytes[32..36].copy_from_slice(&longitude.to_be_bytes());
    let end = sum(&bytes[..BODY]);
    bytes[BODY..].copy_from_slice(&end);
    bytes
}

/// What the bytes of a file say of this space; `None` when they are not a whole file.
pub fn read(space: u16, bytes: &[u8]) -> Option<Kept> {
    let bytes: &[u8; FILE_BYTES] = bytes.try_into().ok()?;
    let good = bytes[..8] == MAGIC
        && bytes[8..10] == space.to_be_bytes()
        && sum(&bytes[..BODY]) == bytes[BODY..];
    let four = |at: usize| *bytes[at..].first_chunk::<4>().unwrap_or(&[0; 4]);
    let two = |at: usize| *bytes[at..].first_chunk::<2>().unwrap_or(&[0; 2]);
    let said = Said {
        latitude: i32::from_be_bytes(four(12)),
        longitude: i32::from_be_bytes(four(16)),
        height: u16::from_be_bytes(two(20)),
        error: u16::from_be_bytes(two(22)),
        system: u32::from_be_bytes(four(24)),
    };
    let place = (i32::from_be_bytes(four(28)), i32::from_be_bytes(four(32)));
    good.then_some(Kept { said, address: (bytes[10] == 1).then_some(place) })
}

/// Reads the file at `path`; `None` when there is none that is whole.
///
/// # Errors
/// When there is a file and the system does not let it be read, or it is somebody else's, which
/// would be overwritten; and when there is no folder in which it could be.
pub fn load(path: &Path, space: u16) -> io::Result<Option<Kept>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::read_dir(folder(path))?;
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if !bytes.is_empty() && !bytes.starts_with(&MAGIC[..MAGIC.len().min(bytes.len())]) {
        return Err(io::Error::other("it is no coordinate, and would be overwritten"));
    }
    Ok(read(space, &bytes))
}

/// Writes the file, whole or not at all.
///
/// # Errors
/// When the system does not let it be written; the file of before is still there.
pub fn store(path: &Path, space: u16, kept: &Kept) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(&bytes(space, kept))?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    File::open(folder(path))?.sync_all()
}

fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kept() -> Kept {
        let said = Said {
            latitude: 515_000_000,
            longitude: -1_000_000,
            height: 44,
            error: 3_000,
            system: 7,
        };
        Kept { said, address: Some((515_000_000, -1_270_000)) }
    }

    #[test]
    fn a_file_comes_back_and_one_that_is_not_whole_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("coordinate");
        assert_eq!(load(&path, 3).expect("no file"), None);
        for kept in [kept(), Kept { address: None, ..kept() }] {
            store(&path, 3, &kept).expect("stored");
            assert_eq!(load(&path, 3).expect("read"), Some(kept));
            assert_eq!(load(&path, 4).expect("read"), None, "another space");
        }
        let whole = bytes(3, &kept());
        for length in 0..FILE_BYTES {
            assert_eq!(read(3, &whole[..length]), None, "{length}");
        }
        for bit in 0..FILE_BYTES * 8 {
            let mut altered = whole;
            altered[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(3, &altered), None, "bit {bit}");
        }
        assert!(store(&folder.path().join("no/such"), 3, &kept()).is_err());
    }

    /// The offsets of docs/reference/coords-wire.md, byte by byte.
    #[test]
    fn a_file_is_laid_out_as_the_reference_says() {
        let said = Said { latitude: 1, longitude: -2, height: 3, error: 4, system: 5 };
        let kept = Kept { said, address: Some((6, -7)) };
        let expected = [
            &b"cavycrd1"[..],
            &[1, 2, 1, 0],
            &[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe, 0, 3, 0, 4, 0, 0, 0, 5],
            &[0, 0, 0, 6, 0xff, 0xff, 0xff, 0xf9],
        ]
        .concat();
        let bytes = bytes(0x0102, &kept);
        assert_eq!((&bytes[..36], bytes.len()), (&expected[..], 44));
        assert_eq!(bytes[36..], digest(&SHA256, &expected).as_ref()[..8]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            prop_assert_eq!(read(0, &bytes), None);
        }
    }
}
