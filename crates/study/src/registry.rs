//! What there is: kinds of plans, and sources with their figures. Commands know no more than this.

use crate::kind::{Kind, Prepared};
use crate::plan::read::{self, Parsed, Text};
use crate::plan::{Files, PlanError, nearest};
use crate::source::{Figure, Source};
use crate::subject::Template;
use std::path::Path;

/// All kinds and sources of a program.
pub struct Registry {
    /// Kinds of plans, in the order in which they are listed.
    pub kinds: Vec<Box<dyn Kind>>,
    /// Sources, in the order in which they are listed.
    pub sources: Vec<Source>,
}

/// A figure that was chosen: which source's, and which of its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Index of the source.
    pub source: usize,
    /// Index into its figures.
    pub figure: usize,
}

impl Registry {
    /// Reads the plan in `file`.
    pub fn load(
        &self,
        file: &Path,
        overrides: &[String],
        quick: bool,
    ) -> Result<Box<dyn Prepared>, PlanError> {
        self.load_text(&read::text_of(file)?, file, overrides, quick)
    }

    /// Reads a plan whose `text` comes from `file`; files that it names are relative to that.
    pub fn load_text(
        &self,
        text: &str,
        file: &Path,
        overrides: &[String],
        quick: bool,
    ) -> Result<Box<dyn Prepared>, PlanError> {
        let name = file.display().to_string();
        let files = Files::beside(file);
        self.read(&Text { text, name: &name, files: &files, overrides, quick })
    }

    /// Reads a plan of whatever kind it says that it is.
    pub fn read(&self, plan: &Text<'_>) -> Result<Box<dyn Prepared>, PlanError> {
        let named = |error: PlanError| error.in_file(plan.name);
        let parsed = Parsed::of(plan)?;
        let Some(name) = parsed.kind(plan)? else { return Err(named(self.no_kind(&parsed))) };
        match self.kind(name) {
            Some(kind) => kind.read(plan, parsed),
            None => {
                let mut wrong = PlanError::text(format!("there is no kind of plan `{name}`"));
                let names = self.kinds.iter().map(|kind| kind.about().name);
                if let Some(near) = nearest(name, names) {
                    wrong = wrong.hint(format!("did you mean `{near}`?"));
                }
                Err(named(wrong.hint(self.kinds_in_words())))
            }
        }
    }

    /// The kind called `name`.
    pub fn kind(&self, name: &str) -> Option<&dyn Kind> {
        self.kinds.iter().find(|kind| kind.about().name == name).map(AsRef::as_ref)
    }

    fn kinds_in_words(&self) -> String {
        let each = self.kinds.iter().map(|kind| {
            let about = kind.about();
            format!("{} ({})", about.name, about.says)
        });
        format!("kinds are: {}", each.collect::<Vec<_>>().join(", "))
    }

    /// A plan that does not say its kind. The list of its contestants tells which it could be.
    fn no_kind(&self, parsed: &Parsed<'_>) -> PlanError {
        let wrong = PlanError::text("the plan does not say its `kind`");
        let likely = self
            .kinds
            .iter()
            .map(|kind| kind.about())
            .find(|about| parsed.has(about.contestant.many));
        match likely {
            Some(about) => wrong.hint(format!(
                "it has `{}`: write `kind = \"{}\"` at its top",
                about.contestant.many, about.name
            )),
            None => wrong.hint("write `kind = \"…\"` at its top").hint(self.kinds_in_words()),
        }
    }

    /// All templates, by kind.
    pub fn templates(&self) -> impl Iterator<Item = (&'static str, &'static Template)> {
        let abouts = self.kinds.iter().map(|kind| kind.about());
        abouts.flat_map(|about| about.templates.iter().map(|one| (about.name, one)))
    }

    /// All figures with their full names, such as `persephone.fig3`.
    pub fn figures(&self) -> impl Iterator<Item = (String, Chosen, &'static dyn Figure)> + '_ {
        self.sources.iter().enumerate().flat_map(|(s, source)| {
            source.figures.iter().enumerate().map(move |(f, figure)| {
                let name = format!("{}.{}", source.id, figure.about().id);
                (name, Chosen { source: s, figure: f }, *figure)
            })
        })
    }

    /// Finds the figures named by `names`: `persephone`, `persephone.fig3` or `fig3`; all when
    /// empty. A name that a system and another one's figure share, such as `incast`, is the
    /// system's.
    pub fn choose(&self, names: &[String]) -> Result<Vec<Chosen>, PlanError> {
        let is = |name: &String, full: &str| {
            let (source, figure) = full.split_once('.').unwrap_or((full, ""));
            let of_system = self.sources.iter().any(|source| source.id == name.as_str());
            name == full || name == source || (name == figure && !of_system)
        };
        let all: Vec<(String, Chosen)> =
            self.figures().map(|(name, chosen, _)| (name, chosen)).collect();
        for name in names {
            if all.iter().any(|(full, _)| is(name, full)) {
                continue;
            }
            let mut wrong = PlanError::text(format!("there is no system or figure `{name}`"));
            let words = all.iter().flat_map(|(full, _)| {
                let (source, figure) = full.split_once('.').unwrap_or((full, ""));
                [full.as_str(), source, figure]
            });
            if let Some(near) = nearest(name, words) {
                wrong = wrong.hint(format!("did you mean `{near}`?"));
            }
            return Err(wrong.hint("`cavy list` shows what there is"));
        }
        let chosen = |(full, chosen): &(String, Chosen)| {
            (names.is_empty() || names.iter().any(|name| is(name, full))).then_some(*chosen)
        };
        Ok(all.iter().filter_map(chosen).collect())
    }
}
