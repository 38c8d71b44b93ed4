//! A client of the front end: words go out, replies come in.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Lists within lists that are read, and bytes of one text: nobody sends more to what asks here.
const DEPTH_MAX: u32 = 8;
const BYTES_MAX: i64 = 64 << 20;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reply {
    Text(String),
    Error(String),
    Int(i64),
    Nil,
    List(Vec<Reply>),
}

impl Reply {
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }

    /// In a few words.
    pub fn short(&self) -> String {
        let text = match self {
            Reply::Text(text) | Reply::Error(text) => text.clone(),
            Reply::Int(number) => number.to_string(),
            Reply::Nil => "nothing".into(),
            Reply::List(replies) => match replies.iter().find(|reply| reply.is_error()) {
                Some(error) => error.short(),
                None => format!("{} replies", replies.len()),
            },
        };
        text.chars().take(80).collect()
    }
}

pub(super) struct Client {
    stream: BufReader<TcpStream>,
    out: Vec<u8>,
}

impl Client {
    /// Connects, and waits for no reply longer than `patience`.
    pub fn connect(
        address: SocketAddr,
        password: Option<&str>,
        patience: Duration,
    ) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        stream.set_nodelay(true)?;
        let mut client = Client { stream: BufReader::new(stream), out: Vec::new() };
        if let Some(password) = password {
            client.say(&["AUTH", password]);
            client.flush()?;
            if let Reply::Error(text) = client.reply()? {
                return Err(io::Error::other(text));
            }
        }
        Ok(client)
    }

    /// Adds a request to what goes out.
    pub fn say<T: AsRef<str>>(&mut self, words: &[T]) {
        // Into memory, which does not fail.
        let _ = write!(self.out, "*{}\r\n", words.len());
        for word in words {
            let word = word.as_ref();
            let _ = write!(self.out, "${}\r\n{word}\r\n", word.len());
        }
    }

    /// Sends what was said.
    pub fn flush(&mut self) -> io::Result<()> {
        let sent = self.stream.get_mut().write_all(&self.out);
        self.out.clear();
        sent
    }

    /// The next reply.
    pub fn reply(&mut self) -> io::Result<Reply> {
        self.nested(0)
    }

    fn nested(&mut self, depth: u32) -> io::Result<Reply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let wrong = || io::Error::other(format!("no reply: {line:?}"));
        if depth > DEPTH_MAX || line.is_empty() || !line.is_char_boundary(1) {
            return Err(wrong());
        }
        let (kind, rest) = line.split_at(1);
        let number = || rest.parse::<i64>().map_err(|_| wrong());
        let length = || number().and_then(|n| if n <= BYTES_MAX { Ok(n) } else { Err(wrong()) });
        Ok(match kind {
            "+" => Reply::Text(rest.into()),
            "-" => Reply::Error(rest.into()),
            ":" => Reply::Int(number()?),
            "$" | "*" if length()? < 0 => Reply::Nil,
            "$" => {
                let mut bytes = vec![0; length()? as usize + 2];
                self.stream.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Reply::Text(String::from_utf8_lossy(&bytes).into_owned())
            }
            "*" => {
                let all = (0..length()?).map(|_| self.nested(depth + 1));
                Reply::List(all.collect::<io::Result<_>>()?)
            }
            _ => return Err(wrong()),
        })
    }

    /// One request, and its reply.
    pub fn call(&mut self, words: &[String]) -> io::Result<Reply> {
        self.say(words);
        self.flush()?;
        self.reply()
    }

    /// Requests as one transaction, and what EXEC says. Everything goes out at once.
    pub fn transaction(&mut self, requests: &[Vec<String>]) -> io::Result<Reply> {
        self.say(&["MULTI"]);
        for words in requests {
            self.say(words);
        }
        self.say(&["EXEC"]);
        self.flush()?;
        for _ in 0..requests.len() + 1 {
            self.reply()?;
        }
        self.reply()
    }
}
