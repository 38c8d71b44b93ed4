//! The status page: `/metrics` for Prometheus, everything else in words.

use crate::node::Page;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(2);

/// Serves `page` on a thread of its own, one request at a time.
pub(crate) fn serve(listen: SocketAddr, page: Page) -> io::Result<()> {
    let listener = TcpListener::bind(listen)?;
    let serve = move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.set_read_timeout(Some(PATIENCE));
            let _ = stream.set_write_timeout(Some(PATIENCE));
            let mut request = [0; 1_024];
            let Ok(length) = stream.read(&mut request) else { continue };
            let metrics = request[..length].starts_with(b"GET /metrics");
            let body = if metrics { page.metrics() } else { page.status() };
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(body.as_bytes());
        }
    };
    std::thread::Builder::new().name("cavy-status".to_string()).spawn(serve)?;
    Ok(())
}
