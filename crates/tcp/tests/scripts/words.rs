//! Scripts and the words that they are written in, whoever plays them.

use cavy_core::Span;
use cavy_tcp::segment::Stamps;
use cavy_tcp::{Flags, Segment};
use std::fs;
use std::path::Path;

/// One conversation.
pub struct Script {
    pub name: String,
    /// With their numbers in the file.
    pub lines: Vec<(usize, String)>,
}

impl Script {
    /// Those of a file.
    pub fn all(file: &str, text: &str) -> Vec<Script> {
        let mut all: Vec<Script> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if let Some(name) = line.strip_prefix("==") {
                all.push(Script { name: format!("{file}: {}", name.trim()), lines: Vec::new() });
            } else if let (false, Some(script)) = (line.is_empty(), all.last_mut()) {
                script.lines.push((index + 1, line.to_string()));
            }
        }
        all
    }

    /// Those of a folder, in the order of their names.
    pub fn all_in(folder: &Path) -> Vec<Script> {
        let mut files: Vec<_> = fs::read_dir(folder)
            .expect("the folder of scripts")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|end| end == "seg"))
            .collect();
        files.sort();
        let scripts = |path: &std::path::PathBuf| {
            let text = fs::read_to_string(path).expect("a script");
            let file = path.file_stem().expect("a name").to_string_lossy().into_owned();
            Script::all(&file, &text)
        };
        files.iter().flat_map(scripts).collect()
    }
}

pub fn number<T: std::str::FromStr>(word: Option<&str>) -> Result<T, String> {
    let word = word.ok_or("a number is missing")?;
    word.replace('_', "").parse().map_err(|_| format!("`{word}` is no number"))
}

pub fn span(word: &str) -> Result<Span, String> {
    let end = word.find(|c: char| c.is_alphabetic()).ok_or(format!("`{word}` has no unit"))?;
    let value: f64 = word[..end].parse().map_err(|_| format!("`{word}` is no time"))?;
    let ns = match &word[end..] {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        unit => return Err(format!("`{unit}` is no unit")),
    };
    Ok(Span::from_ns((value * ns).round() as u64))
}

/// Flags, and whether any will do.
pub fn flags(word: &str) -> Result<(Flags, bool), String> {
    let mut all = Flags(0);
    for letter in word.chars() {
        all = all.with(match letter {
            'S' => Flags::SYN,
            'F' => Flags::FIN,
            'R' => Flags::RST,
            'P' => Flags::PSH,
            'E' => Flags::ECE,
            'W' => Flags::CWR,
            '.' => Flags::ACK,
            '-' => Flags(0),
            '*' => return Ok((all, true)),
            other => return Err(format!("`{other}` is no flag")),
        });
    }
    Ok((all, false))
}

/// `A` or `A:B`, as a number and a length.
pub fn range(word: &str) -> Result<(u32, u32), String> {
    match word.split_once(':') {
        None => Ok((number(Some(word))?, 0)),
        Some((from, to)) => {
            let (from, to): (u32, u32) = (number(Some(from))?, number(Some(to))?);
            Ok((from, to.wrapping_sub(from)))
        }
    }
}

/// What words of segments of the peer are relative to.
#[derive(Clone, Copy)]
pub struct Places {
    /// First numbers of both sides.
    pub own_isn: u32,
    pub peer_isn: u32,
    /// The peer's port, and that of this side.
    pub source: u16,
    pub destination: u16,
    /// The earliest segment of ours that still waits for a line, and the latest.
    pub first: Option<Stamps>,
    pub last: Option<Stamps>,
}

/// A segment of the peer, the length of its octets, and whether it is marked.
pub struct Told {
    pub segment: Segment,
    pub length: u32,
    pub marked: bool,
}

impl Places {
    /// Reads what stands behind `<`.
    pub fn segment(&self, rest: &[&str]) -> Result<Told, String> {
        let own = self.own_isn;
        let flags = flags(rest.first().copied().unwrap_or(""))?.0;
        let (seq, length) = range(rest.get(1).copied().unwrap_or(""))?;
        let place = self.peer_isn.wrapping_add(seq);
        let mut segment = Segment::new(self.source, self.destination, place, flags);
        segment.window = 65_535;
        let mut marked = false;
        let mut words = rest[2..].iter().copied();
        while let Some(word) = words.next() {
            match word {
                "ce" => marked = true,
                "ack" => segment.ack = own.wrapping_add(number(words.next())?),
                "win" => segment.window = number(words.next())?,
                "mss" => segment.mss = Some(number(words.next())?),
                "ws" => segment.scale = Some(number(words.next())?),
                "sackok" => segment.sack_permitted = true,
                "port" => segment.source = number(words.next())?,
                "ts" => {
                    let value: u32 = number(words.next())?;
                    let echo = match words.next().ok_or("an echo is missing")? {
                        "last" => self.last.map_or(0, |stamps| stamps.value),
                        "first" => self.first.map_or(0, |stamps| stamps.value),
                        word => number(Some(word))?,
                    };
                    segment.stamps = Some(Stamps { value, echo });
                }
                "sack" => {
                    for block in words.next().unwrap_or("").split(',') {
                        let (left, right) = block.split_once('-').ok_or("a block is A-B")?;
                        let wide = |word| number(Some(word)).map(|n: u32| own.wrapping_add(n));
                        segment.sacks.push(wide(left)?, wide(right)?);
                    }
                }
                other => return Err(format!("`{other}` is no part of a segment")),
            }
        }
        Ok(Told { segment, length, marked })
    }
}

/// The lines of a handshake of 10 ms by a peer, for `established` and `accepted`.
pub fn greeting(accepted: bool, rest: &[&str]) -> Vec<String> {
    let sack = if rest.contains(&"nosack") { "" } else { "sackok" };
    let stamp = if rest.contains(&"ts") { "ts 100 last" } else { "" };
    let window = rest.iter().position(|word| *word == "win").and_then(|n| rest.get(n + 1));
    let window = window.copied().unwrap_or("65535");
    let says = format!("win {window} mss 1460 ws 0 {sack} {stamp}");
    if accepted {
        let last = format!("< . 1 ack 1 win {window} {stamp}");
        vec!["listen".into(), format!("< S 0 {says}"), "+10ms".into(), last]
    } else {
        vec!["open".into(), "+10ms".into(), format!("< S. 0 ack 1 {says}")]
    }
}
