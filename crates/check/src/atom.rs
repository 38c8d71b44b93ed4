//! Keys, values and names of a history in eight bytes each.

use hashbrown::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

/// A table whose hash is the same in every run. It is looked up in and never iterated.
pub(crate) type Table<K> = HashMap<K, u32, BuildHasherDefault<DefaultHasher>>;

/// Marks a text; the other bits are its number.
const TEXT: u64 = 1 << 63;

/// A key, a value or a name: a whole number, or a text that [`Texts`] keeps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Atom(u64);

impl Atom {
    /// A whole number; `None` beyond 63 bits.
    pub fn number(n: i64) -> Option<Atom> {
        let atom = Atom(n as u64 & !TEXT);
        (atom.as_number() == n).then_some(atom)
    }

    /// A number that no other atom of the same history has.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    fn as_number(self) -> i64 {
        (self.0 << 1) as i64 >> 1
    }
}

/// The texts of a history, each kept once.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    all: Vec<Box<str>>,
    table: Table<Box<str>>,
}

impl Texts {
    /// The atom of `text`, which stands for itself even if it is all digits.
    ///
    /// # Panics
    /// When there are more than 4 billion different texts.
    pub fn atom(&mut self, text: &str) -> Atom {
        if let Some(at) = self.table.get(text) {
            return Atom(TEXT | u64::from(*at));
        }
        let at = u32::try_from(self.all.len()).expect("fewer texts than 4 billion");
        self.all.push(text.into());
        self.table.insert(text.into(), at);
        Atom(TEXT | u64::from(at))
    }

    /// The atom of a whole number of any size.
    pub fn number(&mut self, n: i64) -> Atom {
        Atom::number(n).unwrap_or_else(|| self.atom(&n.to_string()))
    }

    /// As a reader sees it.
    pub fn show(&self, atom: Atom) -> String {
        if atom.0 & TEXT == 0 {
            return atom.as_number().to_string();
        }
        let text = self.all.get((atom.0 & !TEXT) as usize);
        text.map_or_else(String::new, |text| text.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_come_back() {
        let mut texts = Texts::default();
        for n in [0, 1, -1, (1 << 62) - 1, -(1 << 62), i64::MAX, i64::MIN] {
            let atom = texts.number(n);
            assert_eq!(texts.show(atom), n.to_string());
            assert_eq!(atom, texts.number(n));
        }
        let (a, b, again) = (texts.atom("a"), texts.atom("b"), texts.atom("a"));
        assert_eq!(a, again);
        assert_ne!(a, b);
        assert_ne!(texts.atom("7"), texts.number(7));
    }
}
