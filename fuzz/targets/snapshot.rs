//! The state of a replica as it comes over a channel, for one that comes back. What is not whole is
//! refused; what is read is written again to the same bytes, and takes no more memory than bytes of
//! its length can ask for.

use cavy_node::{Codec, Postcard};
use cavy_txn::dast::{Message, Words};

fn read(bytes: &[u8]) -> Option<Message> {
    Codec::<Words>::read_message(&Postcard, bytes)
}

pub fn run(bytes: &[u8]) {
    let Some(message) = read(bytes) else { return };
    let mut written = Vec::new();
    Codec::<Words>::message(&Postcard, &message, &mut written);
    // A number may be written in more bytes than it needs, so lengths differ and meaning does not.
    assert!(written.len() <= bytes.len(), "{} bytes of {}", written.len(), bytes.len());
    assert_eq!(read(&written).as_ref(), Some(&message));
    for cut in 1..=written.len().min(16) {
        let end = written.len() - cut;
        assert!(read(&written[..end]).is_none(), "read whole from {end} of {}", written.len());
    }
}
