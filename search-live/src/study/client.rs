//! A client that keeps one connection: as small as it can be, so that it measures the cluster.

use serde_json::Value;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// One connection to a front end, made anew after an error.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    patience: Duration,
    stream: Option<BufReader<TcpStream>>,
}

impl Client {
    /// Of the front end at `address`, which waits so long for an answer.
    pub fn new(address: SocketAddr, patience: Duration) -> Client {
        Client { address, patience, stream: None }
    }

    /// Gives the connection up: one that has rested for longer than a front end waits for a request
    /// is closed there.
    pub fn rest(&mut self) {
        self.stream = None;
    }

    /// Asks; the status and the answer.
    ///
    /// # Errors
    /// When no answer comes. Whether the request was carried out is then not known.
    pub fn ask(&mut self, method: &str, path: &str, body: &str) -> io::Result<(u16, Value)> {
        let answer = self.asked(method, path, body);
        if answer.is_err() {
            self.stream = None;
        }
        answer
    }

    fn asked(&mut self, method: &str, path: &str, body: &str) -> io::Result<(u16, Value)> {
        if self.stream.is_none() {
            let stream = TcpStream::connect_timeout(&self.address, self.patience)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(self.patience))?;
            stream.set_write_timeout(Some(self.patience))?;
            self.stream = Some(BufReader::new(stream));
        }
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let kind = if path.contains("_bulk") { "application/x-ndjson" } else { "application/json" };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: cavy\r\nContent-Type: {kind}\r\nContent-Length: \
             {}\r\n\r\n",
            body.len()
        );
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body.as_bytes());
        stream.get_mut().write_all(&bytes)?;
        let broken = || io::Error::from(io::ErrorKind::InvalidData);
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let status: u16 =
            line.split(' ').nth(1).and_then(|text| text.parse().ok()).ok_or_else(broken)?;
        let mut length = 0;
        loop {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let field = line.trim_end();
            if field.is_empty() {
                break;
            }
            if let Some((name, value)) = field.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().map_err(|_| broken())?;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        let value = match body.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&body)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned())),
        };
        Ok((status, value))
    }
}
