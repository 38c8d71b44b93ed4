//! Which of the causes of a slow tail to look at first, by what a user can say of a service.
//!
//! Answers are yes or no to questions that need no measurement. A cause that needs what was denied
//! is out; the others are ranked by how much speaks for them, each with its evidence.

pub mod capture;
pub mod causes;
pub mod evidence;
pub mod log;
pub mod spans;

use causes::{CAUSES, Cause, QUESTIONS, Question};
use std::collections::BTreeMap;

/// What is known: by the key of a question, yes or no, and who says so.
#[derive(Clone, Debug, Default)]
pub struct Answers(BTreeMap<&'static str, Answer>);

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Yes or no.
    pub yes: bool,
    /// Where it comes from: words for a reader, such as "you said so".
    pub says: String,
}

/// A question by its key.
pub fn question(key: &str) -> Option<&'static Question> {
    QUESTIONS.iter().find(|question| question.key == key)
}

impl Answers {
    /// Notes an answer; the first one to a question stands.
    pub fn note(&mut self, question: &'static Question, yes: bool, says: String) {
        self.0.entry(question.key).or_insert(Answer { yes, says });
    }

    /// The answer to a question.
    pub fn of(&self, key: &str) -> Option<&Answer> {
        self.0.get(key)
    }

    /// Is nothing known at all?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What speaks for one cause.
#[derive(Clone, Debug)]
pub struct Suspicion {
    /// The cause.
    pub cause: &'static Cause,
    /// Points for it, of [`Cause::points_max`].
    pub points: u32,
    /// Sentences for it.
    pub evidence: Vec<String>,
    /// What would decide: questions that are open.
    pub open: Vec<&'static Question>,
}

/// All causes that are not ruled out, the likeliest first.
pub fn suspect(answers: &Answers) -> Vec<Suspicion> {
    let mut found: Vec<Suspicion> =
        CAUSES.iter().filter_map(|cause| weigh(cause, answers)).collect();
    // Causes with as many points stay in the order in which they are listed.
    found.sort_by_key(|one| std::cmp::Reverse(one.points));
    found
}

/// Causes that an answer rules out, each with the answer.
pub fn ruled_out(answers: &Answers) -> Vec<(&'static Cause, &Answer)> {
    let denied = |cause: &'static Cause| {
        let needed = cause.signs.iter().filter(|sign| sign.needed);
        let mut answered = needed.filter_map(|sign| answers.of(sign.question));
        answered.find(|answer| !answer.yes).map(|answer| (cause, answer))
    };
    CAUSES.iter().filter_map(denied).collect()
}

fn weigh(cause: &'static Cause, answers: &Answers) -> Option<Suspicion> {
    let mut one = Suspicion { cause, points: 0, evidence: Vec::new(), open: Vec::new() };
    for sign in cause.signs {
        match answers.of(sign.question) {
            Some(answer) if answer.yes => {
                one.points += sign.points;
                one.evidence.push(format!("{} ({})", sign.evidence, answer.says));
            }
            Some(_) if sign.needed => return None,
            Some(_) => {}
            None => one.open.extend(question(sign.question)),
        }
    }
    Some(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(yes: &[&str], no: &[&str]) -> Answers {
        let mut answers = Answers::default();
        for (keys, says) in [(yes, true), (no, false)] {
            for key in keys {
                let question = question(key).expect(key);
                answers.note(question, says, "you said so".to_string());
            }
        }
        answers
    }

    fn first(yes: &[&str], no: &[&str]) -> &'static str {
        suspect(&told(yes, no))[0].cause.system
    }

    #[test]
    fn each_cause_is_found_by_its_own_signs() {
        for cause in CAUSES {
            let signs: Vec<&str> = cause.signs.iter().map(|sign| sign.question).collect();
            assert_eq!(first(&signs, &[]), cause.system);
        }
    }

    #[test]
    fn what_is_denied_rules_out() {
        let systems: Vec<&str> =
            suspect(&told(&[], &["mixed"])).iter().map(|one| one.cause.system).collect();
        assert!(!systems.contains(&"persephone") && systems.len() == CAUSES.len() - 1);
        let answers = told(&["busy"], &["mixed", "links"]);
        let out: Vec<&str> = ruled_out(&answers).iter().map(|(cause, _)| cause.system).collect();
        assert_eq!(out, ["persephone"], "what a cause does not need rules out nothing");
    }

    #[test]
    fn without_answers_nothing_speaks_for_anything_and_all_questions_are_open() {
        for one in suspect(&Answers::default()) {
            assert!(one.points == 0 && one.evidence.is_empty());
            assert_eq!(one.open.len(), one.cause.signs.len(), "every sign asks a known question");
        }
    }

    #[test]
    fn every_question_matters_to_a_cause() {
        for question in QUESTIONS {
            let asks = |cause: &Cause| cause.signs.iter().any(|sign| sign.question == question.key);
            assert!(CAUSES.iter().any(asks), "{}", question.key);
        }
    }
}
