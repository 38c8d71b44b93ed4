//! The plainest client, and one that keeps a history.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    Text(String),
    Error(String),
    Int(i64),
    Nil,
    List(Vec<Reply>),
}

pub struct Client(BufReader<TcpStream>);

impl Client {
    pub fn connect(port: u16) -> io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.set_nodelay(true)?;
        Ok(Client(BufReader::new(stream)))
    }

    pub fn send(&mut self, words: &[&str]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", words.len());
        for word in words {
            let _ = write!(bytes, "${}\r\n{word}\r\n", word.len());
        }
        self.0.get_mut().write_all(bytes.as_bytes())
    }

    pub fn reply(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let (kind, rest) = line.split_at(1);
        let number = || rest.parse::<i64>().map_err(|_| io::Error::other(line.to_string()));
        Ok(match kind {
            "+" => Reply::Text(rest.into()),
            "-" => Reply::Error(rest.into()),
            ":" => Reply::Int(number()?),
            "$" if number()? < 0 => Reply::Nil,
            "$" => {
                let mut bytes = vec![0; number()? as usize + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Reply::Text(String::from_utf8_lossy(&bytes).into_owned())
            }
            "*" if number()? < 0 => Reply::Nil,
            "*" => Reply::List((0..number()?).map(|_| self.reply()).collect::<io::Result<_>>()?),
            _ => return Err(io::Error::other(line.to_string())),
        })
    }

    pub fn ask(&mut self, line: &str) -> io::Result<Reply> {
        self.send(&line.split(' ').collect::<Vec<_>>())?;
        self.reply()
    }

    /// MULTI, the lines, EXEC.
    pub fn exec(&mut self, lines: &[String]) -> io::Result<Reply> {
        self.send(&["MULTI"])?;
        for line in lines {
            self.send(&line.split(' ').collect::<Vec<_>>())?;
        }
        self.send(&["EXEC"])?;
        for _ in 0..lines.len() + 1 {
            self.reply()?;
        }
        self.reply()
    }
}
