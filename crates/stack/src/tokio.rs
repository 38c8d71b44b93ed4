//! The same for programs on tokio.

use crate::Stack;
use crate::stream::{Listener, Stream};
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

impl Stack {
    /// Opens a connection from an address of the prefix.
    ///
    /// # Errors
    /// As [`Stack::connect`].
    pub async fn connect_async(&self, from: Ipv4Addr, to: SocketAddrV4) -> io::Result<Stream> {
        let stream = self.start(from, to)?;
        poll_fn(|cx| {
            let mut engine = stream.shared.engine.lock();
            match engine.is_open(stream.host, stream.name) {
                Some(done) => Poll::Ready(done),
                None => {
                    engine.wait(stream.host, stream.name, cx.waker(), false);
                    Poll::Pending
                }
            }
        })
        .await?;
        Ok(stream)
    }
}

impl Listener {
    /// The next connection, and who opened it. One task at a time may wait.
    ///
    /// # Errors
    /// When the stack has ended.
    pub async fn accept_async(&self) -> io::Result<(Stream, SocketAddrV4)> {
        poll_fn(|cx| {
            let mut engine = self.shared.engine.lock();
            match self.take(&mut engine) {
                Some(done) => Poll::Ready(done),
                None => {
                    engine.door(self.door).waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut engine = self.shared.engine.lock();
        match engine.read(self.host, self.name, into.initialize_unfilled()) {
            Some(done) => Poll::Ready(done.map(|octets| into.advance(octets))),
            None => {
                engine.wait(self.host, self.name, cx.waker(), true);
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut engine = self.shared.engine.lock();
        match engine.write(self.host, self.name, from) {
            Some(done) => Poll::Ready(done),
            None => {
                engine.wait(self.host, self.name, cx.waker(), false);
                Poll::Pending
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shutdown(Shutdown::Write);
        Poll::Ready(Ok(()))
    }
}
