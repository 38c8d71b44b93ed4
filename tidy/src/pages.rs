//! The pages of the repository: what links to what, and which anchors there are.

use crate::File;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// A heading, and the anchor by which links find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// 1 for a page's title.
    pub level: usize,
    /// Its words, without markup.
    pub text: String,
    /// The anchor that GitHub and mdBook give it.
    pub anchor: String,
}

/// What a page has, beside its text.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Path from the root of the repository.
    pub path: String,
    /// Headings, in order.
    pub headings: Vec<Heading>,
    /// Links and images: the heading of level 2 that they stand under, and where they lead.
    pub links: Vec<(String, String)>,
}

impl Page {
    /// Reads a page.
    pub fn of(file: &File) -> Page {
        let mut page = Page { path: file.path.clone(), ..Page::default() };
        let mut heading: Option<(usize, String)> = None;
        let mut section = String::new();
        let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
        for event in Parser::new_ext(&file.text, options) {
            match event {
                Event::Start(Tag::Heading { level, .. }) => {
                    heading = Some((level as usize, String::new()));
                }
                Event::End(TagEnd::Heading(_)) => {
                    let (level, text) = heading.take().unwrap_or_default();
                    if level == 2 {
                        section.clone_from(&text);
                    }
                    let anchor = page.free_anchor(&text);
                    page.headings.push(Heading { level, text, anchor });
                }
                Event::Text(text) | Event::Code(text) => {
                    if let Some((_, words)) = &mut heading {
                        words.push_str(&text);
                    }
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push((section.clone(), dest_url.to_string()));
                }
                Event::Html(html) | Event::InlineHtml(html) => {
                    let named = ["src=\"", "srcset=\"", "href=\""];
                    for (at, name) in named.iter().flat_map(|name| html.match_indices(name)) {
                        let rest = &html[at + name.len()..];
                        let target = rest.split('"').next().unwrap_or_default();
                        page.links.push((section.clone(), target.to_string()));
                    }
                }
                _ => {}
            }
        }
        page
    }

    /// The title: the first heading of level 1, else the path.
    pub fn title(&self) -> &str {
        let title = self.headings.iter().find(|heading| heading.level == 1);
        title.map_or(&self.path, |heading| &heading.text)
    }

    /// The anchor of a heading, with a number when it stands there already.
    fn free_anchor(&self, text: &str) -> String {
        let anchor = anchor(text);
        let taken = |anchor: &str| self.headings.iter().any(|known| known.anchor == anchor);
        if !taken(&anchor) {
            return anchor;
        }
        let numbered = (1..).map(|n| format!("{anchor}-{n}")).find(|one| !taken(one));
        numbered.unwrap_or_default()
    }
}

/// Lower case, a dash for each space, and nothing but letters, digits, `-` and `_`.
pub fn anchor(text: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
    text.trim()
        .to_lowercase()
        .chars()
        .filter(kept)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// The path that a link on the page `from` leads to, and its anchor, which may be empty. `None` for
/// a link that leaves the repository.
pub fn target(from: &str, link: &str) -> Option<(String, String)> {
    let outside = ["https:", "http:", "mailto:", "data:"];
    if outside.iter().any(|scheme| link.starts_with(scheme)) {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    if path.is_empty() {
        return Some((from.to_string(), anchor.to_string()));
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    Some((parts.join("/"), anchor.to_string()))
}
