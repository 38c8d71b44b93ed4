//! Whose namespaces are: names that say which process made them, so that those of the dead can be
//! removed by anybody.

use crate::{Error, tools};
use std::fs;
use std::io::ErrorKind;

/// Where named namespaces are.
const FOLDER: &str = "/run/netns";

/// All names begin like this.
const PREFIX: &str = "cavy";

/// A process: its number, and when it started, because numbers are used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Owner {
    process: u32,
    /// In ticks since boot.
    started: u64,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// Without `/proc`.
    pub fn this_process() -> Result<Owner, Error> {
        let process = std::process::id();
        let started = started(process).ok_or_else(|| Error::new("cannot read /proc/self/stat"))?;
        Ok(Owner { process, started })
    }

    /// Its number.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// The name of its switch.
    pub fn switch(&self) -> String {
        self.name("switch")
    }

    /// The name of one of its hosts.
    pub fn host(&self, host: u16) -> String {
        self.name(&format!("h{host}"))
    }

    /// The name of a namespace to try things in.
    pub fn trial(&self) -> String {
        self.name("trial")
    }

    /// The name of where its line is told.
    pub(crate) fn line(&self) -> String {
        self.name("line")
    }

    fn name(&self, what: &str) -> String {
        format!("{PREFIX}-{}-{}-{what}", self.process, self.started)
    }

    /// Who made the namespace of this name; `None` when it is none of ours.
    pub(crate) fn of(name: &str) -> Option<Owner> {
        let mut parts = name.strip_prefix(PREFIX)?.strip_prefix('-')?.splitn(3, '-');
        let process = parts.next()?.parse().ok()?;
        let started = parts.next()?.parse().ok()?;
        parts.next().filter(|what| !what.is_empty())?;
        Some(Owner { process, started })
    }

    /// Is the process still there?
    pub fn lives(&self) -> bool {
        started(self.process) == Some(self.started)
    }

    /// Removes all that it made. What cannot be removed stays for the next who tries.
    pub fn remove(&self) {
        let _ = remove(|owner| owner == self);
    }
}

/// When a process started; `None` when there is none. Field 22 of its `stat`, where the name in
/// parentheses is field 2 and may hold anything.
fn started(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    // A zombie has ended.
    fields.next().filter(|state| !"ZX".contains(*state))?;
    fields.nth(18)?.parse().ok()
}

/// All names of namespaces that are ours, and whose.
///
/// # Errors
/// When the folder of namespaces cannot be read.
pub fn all() -> Result<Vec<(String, Owner)>, Error> {
    let folder = match fs::read_dir(FOLDER) {
        Ok(folder) => folder,
        // Nobody has named a namespace yet.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::new(format!("cannot read {FOLDER}: {error}"))),
    };
    let names = folder.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut all: Vec<_> = names.filter_map(|name| Owner::of(&name).map(|of| (name, of))).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(all)
}

/// Removes the namespaces whose owners are chosen, and with each its links and queues; how many.
///
/// # Errors
/// When one of them cannot be removed; the others are.
pub fn remove(chosen: impl Fn(&Owner) -> bool) -> Result<usize, Error> {
    let names = all()?.into_iter().filter(|(_, owner)| chosen(owner)).map(|(name, _)| name);
    let mut removed = 0;
    let mut trouble = None;
    for name in names {
        match tools::run("ip", &["netns", "del", &name]) {
            Ok(_) => removed += 1,
            // Somebody else who cleans up was faster.
            Err(_) if !fs::exists(format!("{FOLDER}/{name}")).unwrap_or(true) => {}
            Err(error) => trouble = Some(error),
        }
    }
    trouble.map_or(Ok(removed), Err)
}

/// Removes what processes made that are no more; how many namespaces.
///
/// # Errors
/// As [`remove`].
pub fn remove_leftovers() -> Result<usize, Error> {
    remove(|owner| !owner.lives())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_whose_they_are() {
        let owner = Owner { process: 7, started: 123 };
        assert_eq!(Owner::of(&owner.host(3)), Some(owner));
        assert_eq!(Owner::of(&owner.switch()), Some(owner));
        for name in ["cavy", "cavy-7", "cavy-7-123", "cavy-7-123-", "cavy-x-1-h0", "other-7-123-h0"]
        {
            assert_eq!(Owner::of(name), None, "{name}");
        }
    }

    #[test]
    fn a_process_lives_until_its_number_is_another_s() {
        let owner = Owner::this_process().expect("/proc");
        assert!(owner.lives());
        assert!(!Owner { started: owner.started + 1, ..owner }.lives());
        assert!(!Owner { process: u32::MAX, ..owner }.lives());
    }
}
