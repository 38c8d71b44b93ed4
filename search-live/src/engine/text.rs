//! How text becomes terms: the words of Unicode's Annex 29 that have a letter or a digit, in lower
//! case.
//!
//! That is what Lucene's standard analyzer does, so that terms, lengths and scores can be compared.

use unicode_segmentation::UnicodeSegmentation as _;

/// Longer words are cut into pieces of so many characters, as Lucene does.
const LONGEST: usize = 255;

/// The terms of a text, in order.
pub fn terms(text: &str) -> Vec<String> {
    let mut terms = Vec::new();
    for word in text.unicode_words() {
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

#[cfg(test)]
mod tests {
    use super::terms;

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
