//! Documents and requests to measure with: texts that a machine has, or words by Zipf's law.

use crate::engine::text::terms;
use cavy_core::{Purpose, Stream};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Shorter paragraphs are headings and the like.
const SHORTEST: usize = 40;
/// Words by Zipf's law.
const WORDS: u64 = 50_000;

/// Where documents come from.
#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// Descriptions of all packages that apt knows.
    Packages,
    /// Words by Zipf's law.
    Zipf,
    /// Text files, of a folder and all in it; `.gz` and `.dz` are unpacked.
    Files(PathBuf),
}

impl Source {
    /// Reads `packages`, `zipf`, or a path.
    ///
    /// # Errors
    /// A sentence.
    pub fn read(text: &str) -> Result<Source, String> {
        match text {
            "packages" => Ok(Source::Packages),
            "zipf" => Ok(Source::Zipf),
            path if Path::new(path).exists() => Ok(Source::Files(path.into())),
            path => Err(format!("`{path}` is not `packages`, `zipf` or a path that exists")),
        }
    }
}

/// A document of a corpus.
#[derive(Clone, PartialEq, Debug)]
pub struct Document {
    /// Its id; the same text has the same one in every run.
    pub id: String,
    /// A package, a file, or nothing of interest.
    pub title: String,
    /// What a package is sorted under, the end of a file's name, or one of twenty.
    pub section: String,
    /// A paragraph.
    pub body: String,
}

impl Document {
    /// Both lines of a `_bulk`.
    pub fn lines(&self, index: &str, number: u64) -> String {
        let action = json!({ "index": { "_index": index, "_id": self.id } });
        let (title, section, body) = (&self.title, &self.section, &self.body);
        let source = json!({ "title": title, "section": section, "number": number, "body": body });
        format!("{action}\n{source}\n")
    }
}

/// Hands over documents until there are `most` or no more.
///
/// # Errors
/// When a source cannot be read, or what takes them says so.
pub fn documents(
    source: &Source,
    most: u64,
    seed: u64,
    mut take: impl FnMut(Document) -> io::Result<()>,
) -> io::Result<u64> {
    let mut count = 0;
    let mut each = |document: Document| {
        if count == most {
            return Ok(false);
        }
        count += 1;
        take(document).map(|()| true)
    };
    match source {
        Source::Packages => packages(&dumped()?, &mut each)?,
        Source::Zipf => zipf(most, seed, &mut each)?,
        Source::Files(path) => {
            let mut all = Vec::new();
            files(path, &mut all)?;
            all.sort();
            for file in all {
                if !paragraphs(path, &file, &mut each)? {
                    break;
                }
            }
        }
    }
    Ok(count)
}

fn dumped() -> io::Result<String> {
    let output = Command::new("apt-cache").arg("dumpavail").output()?;
    match output.status.success() && !output.stdout.is_empty() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(io::Error::other("`apt-cache dumpavail` says nothing: run `apt-get update`")),
    }
}

/// A document for each paragraph of each description.
fn packages(text: &str, each: &mut impl FnMut(Document) -> io::Result<bool>) -> io::Result<()> {
    for stanza in text.split("\n\n") {
        let field = |name: &str| {
            let line = stanza.lines().find_map(|line| line.strip_prefix(name))?;
            line.strip_prefix(": ").map(str::to_owned)
        };
        let Some(name) = field("Package") else { continue };
        let version = field("Version").unwrap_or_default();
        let section = field("Section").unwrap_or_default();
        let described = stanza.lines().skip_while(|line| !line.starts_with("Description")).skip(1);
        let mut paragraph =
            field("Description").or_else(|| field("Description-en")).unwrap_or_default();
        let mut number = 0;
        let inside = described.take_while(|line| line.starts_with(' '));
        for line in inside.chain([" ."]) {
            match line.trim() {
                "." => {
                    // The first one is a summary, which says something in any length.
                    let summary = number == 0 && !paragraph.is_empty();
                    if paragraph.len() >= SHORTEST || summary {
                        let id = format!("{name}-{version}-{number}");
                        let body = std::mem::take(&mut paragraph);
                        let (title, section) = (name.clone(), section.clone());
                        if !each(Document { id, title, section, body })? {
                            return Ok(());
                        }
                    }
                    number += 1;
                    paragraph.clear();
                }
                words => {
                    paragraph.push(' ');
                    paragraph.push_str(words);
                }
            }
        }
    }
    Ok(())
}

fn files(path: &Path, all: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.is_file() {
        all.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // Links may lead anywhere, and round in circles.
        match entry.file_type()? {
            kind if kind.is_dir() => files(&entry.path(), all)?,
            kind if kind.is_file() => all.push(entry.path()),
            _ => {}
        }
    }
    Ok(())
}

/// A document for each paragraph of a file; `false` once there are enough.
fn paragraphs(
    root: &Path,
    file: &Path,
    each: &mut impl FnMut(Document) -> io::Result<bool>,
) -> io::Result<bool> {
    let packed = file.extension().is_some_and(|end| end == "gz" || end == "dz");
    let bytes = match packed {
        true => Command::new("gzip").args(["-dc", "--"]).arg(file).output()?.stdout,
        false => fs::read(file)?,
    };
    // Pictures and the like.
    if bytes.iter().take(4_096).any(|byte| *byte == 0) {
        return Ok(true);
    }
    let text = String::from_utf8_lossy(&bytes);
    let own = file.strip_prefix(root).unwrap_or(file).to_string_lossy().into_owned();
    let title = if own.is_empty() { file.to_string_lossy().into_owned() } else { own };
    let plain = title.trim_end_matches(".gz").trim_end_matches(".dz");
    let section = plain.rsplit_once('.').map_or("", |(_, end)| end).to_owned();
    for (number, paragraph) in text.split("\n\n").enumerate() {
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        let body = words.join(" ");
        if body.len() < SHORTEST {
            continue;
        }
        let id = format!("{title}-{number}");
        // An id has at most 512 bytes.
        let id = id.get(id.len().saturating_sub(500)..).unwrap_or(&title).to_owned();
        if !each(Document { id, title: title.clone(), section: section.clone(), body })? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A rank: the first as often as the second and third of twice and three times the rank together.
struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    fn new(count: u64) -> Zipf {
        let mut sum = 0.0;
        let add = |rank: u64| {
            sum += 1.0 / rank as f64;
            sum
        };
        Zipf { sums: (1..=count).map(add).collect() }
    }

    fn draw(&self, draws: &mut Stream) -> usize {
        let whole = self.sums.last().copied().unwrap_or(1.0);
        // 53 bits make every float between 0 and 1 of that grain.
        let share = (draws.bits() >> 11) as f64 / (1_u64 << 53) as f64;
        let at = self.sums.partition_point(|sum| *sum <= share * whole);
        at.min(self.sums.len() - 1)
    }
}

fn zipf(
    most: u64,
    seed: u64,
    each: &mut impl FnMut(Document) -> io::Result<bool>,
) -> io::Result<()> {
    let mut draws = Stream::keyed(seed, 0, Purpose::Machine);
    let words = Zipf::new(WORDS);
    for number in 0..most {
        let mut text = |count: u64| {
            let one = |_| format!("w{}", words.draw(&mut draws));
            (0..count).map(one).collect::<Vec<String>>().join(" ")
        };
        let (title, body) = (text(3), text(20 + number * 7_919 % 80));
        let section = format!("s{}", number * 104_729 % 20);
        let id = format!("{seed}-{number}");
        if !each(Document { id, title, section, body })? {
            return Ok(());
        }
    }
    Ok(())
}

/// How many documents have which words.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Frequencies {
    documents: u64,
    words: BTreeMap<String, u64>,
}

/// A file of requests, a request a line.
pub const FILES: [&str; 6] = ["rare", "middle", "frequent", "and", "or", "broad"];

impl Frequencies {
    /// Counts the words of a document.
    pub fn count(&mut self, body: &str) {
        self.documents += 1;
        let mut all = terms(body);
        all.sort_unstable();
        all.dedup();
        for word in all {
            *self.words.entry(word).or_default() += 1;
        }
    }

    /// Words, those of most documents first.
    fn ranked(&self) -> Vec<(&str, u64)> {
        let mut all: Vec<(&str, u64)> =
            self.words.iter().map(|(word, count)| (word.as_str(), *count)).collect();
        all.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
        all
    }

    /// Requests of a kind of [`FILES`]: words of less than a thousandth, a hundredth, and of more
    /// of all documents; two words that are both there; two or three of which one is; eight to
    /// sixteen of the most frequent, with a count by section.
    ///
    /// # Errors
    /// A sentence, when there are not enough words.
    pub fn requests(
        &self,
        kind: &str,
        index: &str,
        count: usize,
        seed: u64,
    ) -> Result<Vec<String>, String> {
        let ranked = self.ranked();
        let place = FILES.iter().position(|name| *name == kind).unwrap_or(0) as u32;
        let mut draws = Stream::keyed(seed, 1 + place, Purpose::Machine);
        let share = |count: u64| count as f64 / self.documents.max(1) as f64;
        let of = |least: f64, most: f64| -> Vec<&str> {
            let fits = |count: u64| count > 1 && (least..most).contains(&share(count));
            ranked.iter().filter(|(_, count)| fits(*count)).map(|(word, _)| *word).collect()
        };
        let frequent = || of(0.01, 1.1);
        let words = match kind {
            "rare" => of(0.0, 0.001),
            "middle" => of(0.001, 0.01),
            "frequent" => frequent(),
            "and" | "or" => of(0.001, 1.1),
            _ => frequent(),
        };
        let needed = if kind == "broad" { 16 } else { 3 };
        if words.len() < needed {
            let (has, documents) = (words.len(), self.documents);
            return Err(format!(
                "{documents} documents have {has} words for `{kind}` requests, and {needed} are \
                 needed: write more documents"
            ));
        }
        let one = |_| {
            let number = match kind {
                "and" => 2,
                "or" => 2 + draws.below(2),
                "broad" => 8 + draws.below(9),
                _ => 1,
            };
            let mut chosen: Vec<&str> = Vec::new();
            while chosen.len() < number as usize {
                let word = words[draws.below(words.len() as u64) as usize];
                if !chosen.contains(&word) {
                    chosen.push(word);
                }
            }
            let operator = if kind == "and" { "and" } else { "or" };
            let asked = json!({ "body": { "query": chosen.join(" "), "operator": operator } });
            let mut body = json!({ "query": { "match": asked }, "_source": false });
            if kind == "broad" {
                body["aggs"] = json!({ "sections": { "terms": { "field": "section" } } });
            }
            format!("POST /{index}/_search {body}")
        };
        Ok((0..count).map(one).collect())
    }
}

/// Writes `documents.ndjson` and a file of requests of each kind into a folder; how many documents
/// there are.
///
/// # Errors
/// A sentence.
pub fn write(
    folder: &Path,
    source: &Source,
    index: &str,
    (most, requests, seed): (u64, usize, u64),
) -> Result<u64, String> {
    let text = |error: io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(text)?;
    let file = fs::File::create(folder.join("documents.ndjson")).map_err(text)?;
    let mut file = io::BufWriter::new(file);
    let mut frequencies = Frequencies::default();
    let count = documents(source, most, seed, |document| {
        frequencies.count(&document.body);
        let number = frequencies.documents - 1;
        file.write_all(document.lines(index, number).as_bytes())
    });
    let count = count.map_err(|error| error.to_string())?;
    file.flush().map_err(text)?;
    for kind in FILES {
        let all = frequencies.requests(kind, index, requests, seed)?;
        fs::write(folder.join(format!("{kind}.txt")), all.join("\n") + "\n").map_err(text)?;
    }
    Ok(count)
}

/// Makes the index that these documents fit, and sends them, some thousands at a time.
///
/// # Errors
/// A sentence.
pub fn send(folder: &Path, index: &str, to: std::net::SocketAddr) -> Result<u64, String> {
    use io::BufRead as _;
    let path = folder.join("documents.ndjson");
    let file = fs::File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut client = crate::study::client::Client::new(to, std::time::Duration::from_secs(60));
    let mut ask = |method: &str, path: &str, body: &str| match client.ask(method, path, body) {
        Ok((200 | 201, answer)) if answer["errors"] != true => Ok(()),
        Ok((status, answer)) => {
            let shown: String = answer.to_string().chars().take(500).collect();
            Err(format!("{method} {path}: {status} {shown}"))
        }
        Err(error) => Err(format!("{method} {path} at {to}: {error}")),
    };
    let properties = json!({
        "title": { "type": "text" },
        "section": { "type": "keyword" },
        "number": { "type": "long" },
        "body": { "type": "text" },
    });
    let about = json!({ "mappings": { "properties": properties } });
    ask("PUT", &format!("/{index}"), &about.to_string())?;
    let (mut lines, mut some) = (0_u64, String::new());
    for line in io::BufReader::new(file).lines() {
        some.push_str(&line.map_err(|error| format!("{}: {error}", path.display()))?);
        some.push('\n');
        lines += 1;
        if lines % 2 == 0 && some.len() > 2_000_000 {
            ask("POST", "/_bulk", &some)?;
            some.clear();
        }
    }
    if !some.is_empty() {
        ask("POST", "/_bulk", &some)?;
    }
    ask("POST", &format!("/{index}/_refresh"), "")?;
    Ok(lines / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(source: &Source, most: u64, seed: u64) -> Vec<Document> {
        let mut all = Vec::new();
        let taken = documents(source, most, seed, |document| {
            all.push(document);
            Ok(())
        });
        assert_eq!(taken.expect("documents"), all.len() as u64);
        all
    }

    #[test]
    fn words_follow_zipfs_law_and_the_seed() {
        let some = all(&Source::Zipf, 2_000, 1);
        assert_eq!(some, all(&Source::Zipf, 2_000, 1));
        assert_ne!(some, all(&Source::Zipf, 2_000, 2));
        assert_eq!(some[..500], all(&Source::Zipf, 500, 1));
        let mut counts = [0_u64; 10];
        let mut words = 0;
        for word in some.iter().flat_map(|document| document.body.split(' ')) {
            words += 1;
            let rank: usize = word[1..].parse().expect("a rank");
            if rank < counts.len() {
                counts[rank] += 1;
            }
        }
        // Of the harmonic number of 50,000, which is 11.4.
        for (rank, count) in counts.iter().enumerate() {
            let expected = words as f64 / 11.397 / (rank + 1) as f64;
            let apart = (*count as f64 - expected).abs() / expected.sqrt();
            assert!(apart < 5.0, "word {rank}: {count}, and {expected} expected");
        }
    }

    #[test]
    fn paragraphs_of_descriptions_are_documents() {
        let text = "Package: ring\nVersion: 1.2\nSection: net\nDescription: servers on a ring that \
                    answer together\n Each of them holds an arc of it, which is\n some of the \
                    ids.\n .\n Short.\n .\n Another paragraph that is long enough to be one.\nTag: \
                    x\n\nPackage: none\nVersion: 1\n";
        let mut found = Vec::new();
        let each = &mut |document: Document| {
            found.push(document);
            Ok(true)
        };
        packages(text, each).expect("read");
        let ids: Vec<&str> = found.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, ["ring-1.2-0", "ring-1.2-2"]);
        assert_eq!(
            found[0].body,
            "servers on a ring that answer together Each of them holds an arc of it, which is some \
             of the ids."
        );
        assert_eq!((found[1].section.as_str(), found[1].title.as_str()), ("net", "ring"));
        let lines = found[1].lines("texts", 7);
        assert_eq!(lines.lines().count(), 2);
        assert!(lines.starts_with(r#"{"index":{"_index":"texts","_id":"ring-1.2-2"}}"#));
    }

    #[test]
    fn requests_are_of_the_words_that_their_kind_says() {
        let mut frequencies = Frequencies::default();
        let some = all(&Source::Zipf, 5_000, 3);
        some.iter().for_each(|document| frequencies.count(&document.body));
        for kind in FILES {
            let lines = frequencies.requests(kind, "texts", 50, 4).expect("enough words");
            assert_eq!(lines, frequencies.requests(kind, "texts", 50, 4).expect("the same"));
            for line in lines {
                let body = line.strip_prefix("POST /texts/_search ").expect("a request");
                let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
                let text = body["query"]["match"]["body"]["query"].as_str().expect("words");
                let words: Vec<&str> = text.split(' ').collect();
                let share = |word: &&str| frequencies.words[*word] as f64 / 5_000.0;
                let (number, shares) = match kind {
                    "rare" => (1..=1, 0.0..0.001),
                    "middle" => (1..=1, 0.001..0.01),
                    "frequent" => (1..=1, 0.01..1.1),
                    "and" => (2..=2, 0.001..1.1),
                    "or" => (2..=3, 0.001..1.1),
                    _ => (8..=16, 0.01..1.1),
                };
                assert!(number.contains(&words.len()), "{line}");
                assert!(words.iter().map(share).all(|share| shares.contains(&share)), "{line}");
            }
        }
        assert!(Frequencies::default().requests("or", "texts", 1, 1).is_err());
    }
}
