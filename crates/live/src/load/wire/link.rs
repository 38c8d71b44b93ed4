//! A connection as it is, or encrypted, and how it is opened.

use mio::net::TcpStream;
use std::io::{Read, Result, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// How connections to a server are opened.
pub(super) enum Opener {
    /// Bytes go as they are.
    Plain,
    /// By TLS.
    #[cfg(feature = "tls")]
    Encrypted(super::tls::Tls),
}

impl Opener {
    /// A connection that is ready for the first request; waits for it, each time at most
    /// `patience`.
    pub fn open(&self, address: SocketAddr, patience: Duration) -> Result<Link> {
        let stream = std::net::TcpStream::connect_timeout(&address, patience)?;
        stream.set_nodelay(true)?;
        match self {
            Opener::Plain => {
                stream.set_nonblocking(true)?;
                Ok(Link::Plain(TcpStream::from_std(stream)))
            }
            #[cfg(feature = "tls")]
            Opener::Encrypted(tls) => Ok(Link::Encrypted(Box::new(tls.greet(stream, patience)?))),
        }
    }

    /// A connection that is being made. It tells when it can be written to.
    pub fn begin(&self, address: SocketAddr) -> Result<Link> {
        let stream = TcpStream::connect(address)?;
        let _ = stream.set_nodelay(true);
        match self {
            Opener::Plain => Ok(Link::Plain(stream)),
            #[cfg(feature = "tls")]
            Opener::Encrypted(tls) => Ok(Link::Encrypted(Box::new(tls.wrap(stream)?))),
        }
    }
}

/// A connection that never blocks.
pub(super) enum Link {
    /// Bytes go as they are.
    Plain(TcpStream),
    /// By TLS.
    #[cfg(feature = "tls")]
    Encrypted(Box<super::tls::Encrypted>),
}

impl Link {
    /// What tells when there is something to read, or room to write.
    pub fn socket(&mut self) -> &mut TcpStream {
        match self {
            Link::Plain(stream) => stream,
            #[cfg(feature = "tls")]
            Link::Encrypted(encrypted) => encrypted.socket(),
        }
    }
}

impl Read for Link {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        match self {
            Link::Plain(stream) => stream.read(into),
            #[cfg(feature = "tls")]
            Link::Encrypted(encrypted) => encrypted.read(into),
        }
    }
}

impl Write for Link {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self {
            Link::Plain(stream) => stream.write(bytes),
            #[cfg(feature = "tls")]
            Link::Encrypted(encrypted) => encrypted.write(bytes),
        }
    }

    /// Writes what was taken and is not yet on its way, as far as the socket has room.
    fn flush(&mut self) -> Result<()> {
        match self {
            Link::Plain(stream) => stream.flush(),
            #[cfg(feature = "tls")]
            Link::Encrypted(encrypted) => encrypted.flush(),
        }
    }
}
