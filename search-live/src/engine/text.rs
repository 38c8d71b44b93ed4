//! How text becomes terms: the words of Unicode's Annex 29 that have a letter, a digit or a
//! picture, in lower case.
//!
//! That is what Lucene's standard analyzer does, so that terms, lengths and scores can be compared:
//! a raised 2 is no digit, and a trade mark's sign is a picture. Of 37,339 characters, each between
//! two spaces, OpenSearch 2.19.1 takes 1,308 for something else: letters that are younger than its
//! tables, marks that need a letter, radicals. Words of Thai, Lao, Khmer and Burmese, which have no
//! spaces, are terms of a letter each here, and of a whole run there.

use std::ops::RangeInclusive;
use unicode_segmentation::UnicodeSegmentation as _;

/// Pictures by the tables of Unicode 12, which later ones took back.
const PICTURES: [RangeInclusive<char>; 8] = [
    '\u{2605}'..='\u{2605}',
    '\u{2607}'..='\u{2612}',
    '\u{2616}'..='\u{2685}',
    '\u{2690}'..='\u{2705}',
    '\u{2708}'..='\u{2712}',
    '\u{2765}'..='\u{2767}',
    '\u{1f000}'..='\u{1f0ff}',
    '\u{1f10d}'..='\u{1f10f}',
];

/// Longer words are cut into pieces of so many characters, as Lucene does.
const LONGEST: usize = 255;

/// The terms of a text, in order.
pub fn terms(text: &str) -> Vec<String> {
    let mut terms = Vec::new();
    for word in text.split_word_bounds().filter(|word| says_something(word)) {
        let lower = word.to_lowercase();
        if lower.len() <= LONGEST {
            terms.push(lower);
            continue;
        }
        let letters: Vec<char> = lower.chars().collect();
        terms.extend(letters.chunks(LONGEST).map(|piece| piece.iter().collect::<String>()));
    }
    terms
}

/// Whether a piece between two borders of words is a term.
fn says_something(word: &str) -> bool {
    // Nearly all words are decided here. What belongs to the letter before it begins no word.
    if word.starts_with(char::is_alphabetic) || word.contains(|c: char| c.is_ascii_alphanumeric()) {
        return true;
    }
    !word.is_ascii() && word.chars().any(|c| !c.is_ascii() && speaks(c))
}

/// Whether `c` makes a term of a word, by how words are divided: of the classes that Annex 29 has,
/// only those of letters and digits stay with a Latin letter and leave a Katakana, or the other way
/// round; only pictures stay with a joiner and leave a letter.
fn speaks(c: char) -> bool {
    let stays = |with: char| [with, c].iter().collect::<String>().split_word_bounds().count() == 1;
    let (latin, katakana) = (stays('a'), stays('\u{30ab}'));
    let letter = c.is_alphabetic() && !(latin && katakana);
    let picture = !latin && stays('\u{200d}') || PICTURES.iter().any(|range| range.contains(&c));
    latin != katakana || letter || picture
}

#[cfg(test)]
mod tests {
    use super::terms;

    #[test]
    fn pictures_are_words_and_raised_digits_are_not() {
        assert_eq!(
            terms("Mastermind\u{2122} for GOsa\u{b2}"),
            ["mastermind", "\u{2122}", "for", "gosa"]
        );
        assert_eq!(
            terms("\u{2605} x\u{2190}y \u{bd} \u{1f600}"),
            ["\u{2605}", "x", "y", "\u{1f600}"]
        );
        // Digits of other scripts, letters, and what joins words without being one.
        assert_eq!(terms("\u{664}\u{662} \u{441}\u{43b}\u{43e}_ _ \u{4e00}\u{4e8c}").len(), 4);
        // A mark on a space, and one on a letter.
        assert_eq!(terms(" \u{345} e\u{301}"), ["e\u{301}"]);
    }

    #[test]
    fn words_keep_their_apostrophes_and_points_inside_numbers() {
        assert_eq!(terms("Don't PANIC: 3.14, e-mail!"), ["don't", "panic", "3.14", "e", "mail"]);
        assert!(terms(" -- \n").is_empty());
    }

    #[test]
    fn a_word_without_end_is_cut() {
        let pieces = terms(&"x".repeat(600));
        assert_eq!(pieces.iter().map(String::len).collect::<Vec<_>>(), [255, 255, 90]);
    }
}
