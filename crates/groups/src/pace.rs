//! How long a window is and when it may begin: by answers, and not by the clock alone.
//!
//! What is under way at the two ends of a window makes its number of answers differ by two or three
//! from what was worked off in it, however long it is. So a window must hold enough answers, and a
//! service that answers eight times a second needs longer ones than one that answers a thousand
//! times. Requests that were under way when the manner of windows changed were served in both
//! manners: until the last of them is answered, nothing may be counted ([slowpoke 2.7] drops 2 s,
//! or twice as many answers as there are clients).

use cavy_core::Span;

/// How windows are laid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Length of a window.
    pub window: Span,
    /// Time before a window of another manner.
    pub settle: Span,
}

impl Pace {
    /// At least `self`: for closed clients who get `per_s` answers a second together, with at least
    /// `answers` in a window, but no window longer than `window_max`. By Little's law an answer
    /// takes as long as all clients need to be answered once.
    #[must_use]
    pub fn at_least(self, per_s: f64, clients: u32, answers: u32, window_max: Span) -> Pace {
        let span = |count: u32| Span::from_ns((f64::from(count) * 1e9 / per_s.max(1e-3)) as u64);
        Pace {
            window: self.window.max(span(answers).min(window_max)),
            settle: self.settle.max(span(clients).min(window_max)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_answers_a_second_make_windows_long() {
        let least = Pace { window: Span::from_ms(1_000), settle: Span::from_ms(250) };
        let most = Span::from_ms(20_000);
        let of = |per_s| least.at_least(per_s, 24, 100, most);
        assert_eq!(of(1_000.0), least);
        let slow = of(8.0);
        assert_eq!((slow.window, slow.settle), (Span::from_ms(12_500), Span::from_ms(3_000)));
        // Nobody is answered: it ends all the same.
        assert_eq!(of(0.0), Pace { window: most, settle: most });
    }
}
