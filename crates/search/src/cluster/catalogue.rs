//! Which indices a cluster has, and what their fields are.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;

/// An index.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Index {
    /// Never given twice.
    pub number: u32,
    /// Counts changes of `about` from 1.
    pub changes: u64,
    /// p when it was created.
    pub p: u32,
    /// Settings and fields, as whoever asks wants them.
    pub about: Arc<[u8]>,
    /// Names the last change, so that one that is asked for again is not made again.
    pub token: u64,
}

/// All indices.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Catalogue {
    /// Counts changes.
    pub version: u64,
    /// The number of the last index that was created.
    pub last: u32,
    /// By name.
    pub indices: BTreeMap<String, Index>,
    /// Names the last deletion.
    pub token: u64,
}

/// What is to become of the catalogue.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// A new index.
    Create {
        /// Its name.
        name: String,
        /// p to begin with.
        p: u32,
        /// Settings and fields.
        about: Arc<[u8]>,
    },
    /// Other settings or fields.
    Alter {
        /// Which.
        name: String,
        /// Its number, in case another one has its name.
        number: u32,
        /// Changes so far, as whoever asks knows them.
        changes: u64,
        /// What it has from now on.
        about: Arc<[u8]>,
    },
    /// One less.
    Delete {
        /// Which.
        name: String,
    },
}

/// Why the catalogue is not changed so.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    /// There is one of this name.
    Exists,
    /// There is none.
    Missing,
    /// It was changed meanwhile.
    Changed,
    /// There are as many indices as there may be.
    Full,
    /// p is zero or more than there are servers on the smallest ring.
    Spread,
}

/// Indices of a cluster at most.
pub const INDICES: usize = 128;

impl Catalogue {
    /// The index of a number.
    pub fn of(&self, number: u32) -> Option<(&String, &Index)> {
        self.indices.iter().find(|(_, index)| index.number == number)
    }

    /// The catalogue after a change; `None` when that change was made already. Indices have a p of
    /// `p_most` at most.
    ///
    /// # Errors
    /// When it does not fit.
    pub fn after(
        &self,
        change: &Change,
        token: u64,
        p_most: u32,
    ) -> Result<Option<Catalogue>, Refusal> {
        let mut next = self.clone();
        next.version += 1;
        match change {
            Change::Create { name, p, about } => {
                if let Some(index) = self.indices.get(name) {
                    return if index.token == token { Ok(None) } else { Err(Refusal::Exists) };
                }
                if !(1..=p_most).contains(p) {
                    return Err(Refusal::Spread);
                }
                if self.indices.len() >= INDICES {
                    return Err(Refusal::Full);
                }
                next.last += 1;
                let (number, about) = (next.last, about.clone());
                let index = Index { number, changes: 1, p: *p, about, token };
                next.indices.insert(name.clone(), index);
            }
            Change::Alter { name, number, changes, about } => {
                let Some(index) = next.indices.get_mut(name) else { return Err(Refusal::Missing) };
                if index.token == token {
                    return Ok(None);
                }
                if (index.number, index.changes) != (*number, *changes) {
                    return Err(Refusal::Changed);
                }
                index.changes += 1;
                index.about = about.clone();
                index.token = token;
            }
            Change::Delete { name } => {
                if next.indices.remove(name).is_none() {
                    return if self.token == token { Ok(None) } else { Err(Refusal::Missing) };
                }
                next.token = token;
            }
        }
        Ok(Some(next))
    }

    /// What it takes on the wire and in a log.
    pub fn bytes(&self) -> u64 {
        let one = |(name, index): (&String, &Index)| (name.len() + index.about.len() + 40) as u64;
        24 + self.indices.iter().map(one).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_made_once_and_only_where_it_fits() {
        let (name, about) = (String::from("books"), Arc::<[u8]>::from([1].as_slice()));
        let create = Change::Create { name: name.clone(), p: 3, about: about.clone() };
        let none = Catalogue::default();
        assert_eq!(none.after(&create, 7, 2), Err(Refusal::Spread));
        let one = none.after(&create, 7, 3).expect("fits").expect("new");
        assert_eq!(one.after(&create, 7, 3), Ok(None), "asked again");
        assert_eq!(one.after(&create, 8, 3), Err(Refusal::Exists));
        let alter = Change::Alter { name: name.clone(), number: 1, changes: 1, about };
        let two = one.after(&alter, 9, 3).expect("fits").expect("new");
        assert_eq!(two.indices[&name].changes, 2);
        assert_eq!(two.after(&alter, 9, 3), Ok(None), "asked again");
        assert_eq!(two.after(&alter, 10, 3), Err(Refusal::Changed));
        let delete = Change::Delete { name: name.clone() };
        let three = two.after(&delete, 11, 3).expect("fits").expect("new");
        assert_eq!(three.after(&delete, 11, 3), Ok(None), "asked again");
        assert_eq!(three.after(&delete, 12, 3), Err(Refusal::Missing));
        let four = three.after(&create, 13, 3).expect("fits").expect("new");
        assert_eq!(four.indices[&name].number, 2, "a number is never given twice");
    }
}
