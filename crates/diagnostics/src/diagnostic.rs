//! Findings about a text: place, reason and hints, rendered with an excerpt of the text.

use std::borrow::Cow;
use std::collections::BTreeMap;

use annotate_snippets::{AnnotationKind, Element, Group, Level, Renderer, Snippet};
use contract::visible;

use super::excerpt;
use super::lint::Lint;
use super::source::{SourceId, SourceSpan, SourceTexts};

/// The maximum number of findings that are rendered.
const MOST_DRAWN: usize = 50;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The text can be used.
    Warning,
    /// The text cannot be used.
    Error,
}

/// One finding about a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// What is wrong, in one sentence without a period.
    pub message: Box<str>,
    /// The place; `None` if the finding is not about a place in a text.
    pub place: Option<SourceSpan>,
    /// The label of the marked text.
    pub label: Box<str>,
    /// Related places, each with its label.
    pub related: Vec<(SourceSpan, String)>,
    /// What to do.
    pub hints: Vec<String>,
    /// Whether the text must not be shown, because it is a secret.
    pub secret: bool,
    /// The lint that explains the finding in `docs/lints.md`, if there is one.
    pub lint: Option<Lint>,
}

impl Diagnostic {
    /// Creates an error.
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            message: message.into().into(),
            place: None,
            label: Box::default(),
            related: Vec::new(),
            hints: Vec::new(),
            secret: false,
            lint: None,
        }
    }

    /// Creates a warning.
    pub fn warning(message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(message) }
    }

    /// Sets the lint that explains the finding in `docs/lints.md`.
    #[must_use]
    pub fn lint(mut self, lint: Lint) -> Self {
        self.lint = Some(lint);
        self
    }

    /// Sets the place.
    #[must_use]
    pub fn at(mut self, origin: SourceSpan) -> Self {
        self.place = Some(origin);
        self
    }

    /// Sets the label of the marked text.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into().into();
        self
    }

    /// Adds a related place.
    #[must_use]
    pub fn related(mut self, origin: SourceSpan, label: impl Into<String>) -> Self {
        self.related.push((origin, label.into()));
        self
    }

    /// Hides the text as a secret: only its place is shown.
    #[must_use]
    pub fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds a hint, if there is one.
    #[must_use]
    pub fn maybe_hint(self, hint: Option<String>) -> Self {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// Returns its place, then the related places, with their labels.
    fn marked_places(&self) -> Vec<MarkedPlace<'_>> {
        let own =
            self.place.map(|place| (place, visible::text(&self.label), AnnotationKind::Primary));
        let related = self
            .related
            .iter()
            .map(|(place, label)| (*place, visible::text(label), AnnotationKind::Context));
        own.into_iter().chain(related).collect()
    }

    /// Adds this finding to `findings`.
    pub fn report(self, findings: &mut Vec<Self>) {
        findings.push(self);
    }
}

/// Findings with the texts that they are about.
#[derive(Clone, Debug, Default, thiserror::Error)]
#[error("{}", self.summary())]
pub struct Diagnostics {
    /// The texts.
    pub sources: SourceTexts,
    /// The findings, in the order in which they were reported.
    pub list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Returns whether there is an error.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// Returns whether there are no findings.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the number of findings, such as `2 errors, 1 warning`.
    pub fn summary(&self) -> String {
        let errors =
            self.list.iter().filter(|diagnostic| diagnostic.severity == Severity::Error).count();
        let parts =
            [(errors, "error"), (self.list.len() - errors, "warning")].map(|(number, word)| {
                match number {
                    0 => String::new(),
                    1 => format!("1 {word}"),
                    _ => format!("{number} {word}s"),
                }
            });
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }

    /// Renders the findings for people, separated by blank lines, with terminal colors. The command
    /// line removes the colors unless a terminal reads them.
    pub fn render(&self) -> String {
        self.draw(&Renderer::styled())
    }

    /// Renders the findings without colors.
    pub fn render_plain(&self) -> String {
        self.draw(&Renderer::plain())
    }

    fn draw(&self, renderer: &Renderer) -> String {
        let mut excerpts = BTreeMap::new();
        let mut drawn: Vec<String> = self
            .list
            .iter()
            .take(MOST_DRAWN)
            .map(|diagnostic| self.draw_one(renderer, diagnostic, &mut excerpts))
            .collect();
        if self.list.len() > MOST_DRAWN {
            drawn.push(format!("… and {} more", self.list.len() - MOST_DRAWN));
        }
        drawn.join("\n\n")
    }

    fn draw_one(
        &self,
        renderer: &Renderer,
        diagnostic: &Diagnostic,
        excerpts: &mut BTreeMap<SourceId, String>,
    ) -> String {
        let places = diagnostic.marked_places();
        let mut sources: Vec<SourceId> = Vec::new();
        for (origin, ..) in &places {
            if !sources.contains(&origin.source) {
                sources.push(origin.source);
            }
        }
        let hides = |source: SourceId| diagnostic.secret || self.sources.is_hidden(source);
        for source in sources.iter().copied().filter(|source| !hides(*source)) {
            let text = &self.sources.get(source).text;
            excerpts.entry(source).or_insert_with(|| excerpt::shown(text));
        }
        let names: Vec<Cow<'_, str>> =
            sources.iter().map(|source| visible::line(&self.sources.get(*source).name)).collect();
        let shown = |(source, name): (&SourceId, _)| {
            let here: Vec<_> =
                places.iter().filter(|(origin, ..)| origin.source == *source).collect();
            match excerpts.get(source).filter(|_| !hides(*source)) {
                Some(text) => marked_excerpt(text, name, &here),
                None => self.position(name, &here),
            }
        };
        let mut elements: Vec<Element<'_>> = sources.iter().zip(&names).map(shown).collect();
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let message = visible::text(&diagnostic.message);
        let mut title = level.primary_title(&*message);
        if let Some(lint) = diagnostic.lint {
            title = title.id(lint.name());
        }
        let hints: Vec<Cow<'_, str>> =
            diagnostic.hints.iter().map(|hint| visible::text(hint)).collect();
        if elements.is_empty() {
            let hints: String = hints.iter().map(|hint| format!("\nhint: {hint}")).collect();
            return renderer.render(&[Group::with_title(title)]) + &hints;
        }
        elements.extend(
            hints.iter().map(|hint| Level::HELP.with_name("hint").message(hint.as_ref()).into()),
        );
        let group: Group<'_> = title.elements(elements);
        renderer.render(&[group])
    }

    /// Returns the place of the first of the positions, for a text that is not shown.
    fn position<'d>(&self, name: &'d str, places: &[&MarkedPlace<'_>]) -> Element<'d> {
        let (line, column) =
            places.first().map_or((1, 1), |(origin, ..)| self.sources.line_and_column(*origin));
        annotate_snippets::Origin::path(name).line(line).char_column(column).into()
    }
}

/// A position with its label, and whether it is the finding's own.
type MarkedPlace<'d> = (SourceSpan, Cow<'d, str>, AnnotationKind);

/// Returns an excerpt of `text` with the places marked.
fn marked_excerpt<'d>(text: &'d str, name: &'d str, places: &[&'d MarkedPlace<'_>]) -> Element<'d> {
    let annotations = places.iter().map(|(origin, label, kind)| {
        kind.span(marked(*origin, text)).label((!label.is_empty()).then_some(label.as_ref()))
    });
    Snippet::source(text).path(name).annotations(annotations).into()
}

/// Returns the range to mark: the first line of the span, and at least one character, so that there
/// is a caret.
fn marked(origin: SourceSpan, text: &str) -> std::ops::Range<usize> {
    let stretch = text.get(origin.range()).unwrap_or_default();
    let end = origin.start + stretch.find('\n').unwrap_or(stretch.len());
    if end > origin.start {
        return origin.start..end;
    }
    let next = text
        .get(origin.start..)
        .and_then(|rest| rest.chars().next())
        .filter(|character| *character != '\n');
    origin.start..origin.start + next.map_or(0, char::len_utf8)
}
