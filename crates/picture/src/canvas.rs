//! Common parts of all pictures: the head, styles, text that is safe in XML, the hatch.

use std::fmt::{self, Write as _};

/// Styles of light ground, and of dark ground where the viewer prefers it. A class sets either the fill or the stroke; `h1` to
/// `h5` are the levels of a heat map, from few to many.
const STYLES: &str = concat!(
    "text,.ink{fill:#000000}.ground{fill:#ffffff}.run{fill:#9ec3ea}.solid{fill:#1f5fa8}.busy{fill:#444444}.due{fill:#b00020}",
    ".unknown{fill:#dddddd}.h1{fill:#d6e6f5}.h2{fill:#a3c8e8}.h3{fill:#64a0d4}.h4{fill:#2b71b0}.h5{fill:#0d3f77}",
    ".edge{stroke:#000000}.base{stroke:#888888}.grid{stroke:#d8d8d8}.limit{stroke:#b00020}.gap{stroke:#ffffff}",
    ".f0{fill:#000000}.f1{fill:#1f6fb4}.f2{fill:#b00020}.f3{fill:#2a8a3a}.f4{fill:#8a4bb0}.f5{fill:#b5651d}.f6{fill:#0b8a8a}",
    ".f7{fill:#777777}",
    ".l0{stroke:#000000}.l1{stroke:#1f6fb4}.l2{stroke:#b00020}.l3{stroke:#2a8a3a}.l4{stroke:#8a4bb0}.l5{stroke:#b5651d}",
    ".l6{stroke:#0b8a8a}.l7{stroke:#777777}",
    "\n@media (prefers-color-scheme:dark){",
    "text,.ink{fill:#e8e8e8}.ground{fill:#161616}.run{fill:#2f629c}.solid{fill:#6aa9ea}.busy{fill:#b8b8b8}.due{fill:#ff7a85}",
    ".unknown{fill:#4a4a4a}.h1{fill:#143150}.h2{fill:#1f4f80}.h3{fill:#3a7dbd}.h4{fill:#79b3e6}.h5{fill:#cfe6fb}",
    ".edge{stroke:#e8e8e8}.base{stroke:#8a8a8a}.grid{stroke:#3c3c3c}.limit{stroke:#ff7a85}.gap{stroke:#161616}",
    ".f0{fill:#e8e8e8}.f1{fill:#6aa9ea}.f2{fill:#ff7a85}.f3{fill:#6cc97c}.f4{fill:#c79be6}.f5{fill:#e0a060}.f6{fill:#4fc4c4}",
    ".f7{fill:#a0a0a0}",
    ".l0{stroke:#e8e8e8}.l1{stroke:#6aa9ea}.l2{stroke:#ff7a85}.l3{stroke:#6cc97c}.l4{stroke:#c79be6}.l5{stroke:#e0a060}",
    ".l6{stroke:#4fc4c4}.l7{stroke:#a0a0a0}}",
);

/// A size of letters and where text stands beside its place.
#[derive(Clone, Copy)]
pub(crate) struct Type {
    size: f64,
    bold: bool,
    anchor: &'static str,
}

pub(crate) const TITLE: Type = Type::plain(16.0).bold();
pub(crate) const HEADING: Type = Type::plain(12.0).bold();
pub(crate) const BODY: Type = Type::plain(12.0);
pub(crate) const SMALL: Type = Type::plain(11.0);
pub(crate) const TICK: Type = Type::plain(10.0);

impl Type {
    const fn plain(size: f64) -> Type {
        Type { size, bold: false, anchor: "start" }
    }

    const fn bold(self) -> Type {
        Type { bold: true, ..self }
    }

    /// Its place is the middle of the text.
    pub(crate) const fn middle(self) -> Type {
        Type { anchor: "middle", ..self }
    }

    /// Its place is the end of the text.
    pub(crate) const fn end(self) -> Type {
        Type { anchor: "end", ..self }
    }

    /// From one line to the next.
    fn line(self) -> f64 {
        (self.size * 1.3).ceil()
    }

    /// The width of a text, rounded up: fonts differ from viewer to viewer.
    pub(crate) fn width(self, content: &str) -> f64 {
        content.chars().count() as f64 * self.letter()
    }

    /// The mean width of a letter.
    fn letter(self) -> f64 {
        self.size * if self.bold { 0.66 } else { 0.6 }
    }

    /// Truncates a text to a width and ends it with dots.
    pub(crate) fn fit(self, content: &str, width: f64) -> String {
        if self.width(content) <= width {
            return content.to_owned();
        }
        let kept = ((width / self.letter()) as usize).saturating_sub(1);
        content.chars().take(kept).chain(['…']).collect()
    }

    /// Breaks a text into lines of a width. A word that is longer than a line is broken too.
    pub(crate) fn wrap(self, content: &str, width: f64) -> Vec<String> {
        let columns = ((width / self.letter()) as usize).max(1);
        let mut lines: Vec<String> = Vec::new();
        for word in content.split_whitespace() {
            let letters: Vec<char> = word.chars().collect();
            for piece in letters.chunks(columns) {
                match lines.last_mut() {
                    Some(last) if last.chars().count() + 1 + piece.len() <= columns => {
                        last.push(' ');
                        last.extend(piece);
                    }
                    _ => lines.push(piece.iter().collect()),
                }
            }
        }
        lines
    }
}

/// Lines of text below each other.
pub(crate) struct Paragraph {
    kind: Type,
    lines: Vec<String>,
}

impl Paragraph {
    pub(crate) fn new(kind: Type, content: &str, width: f64) -> Paragraph {
        Paragraph { kind, lines: kind.wrap(content, width) }
    }

    pub(crate) fn height(&self) -> f64 {
        self.kind.line() * self.lines.len() as f64
    }

    /// Draws the lines from a top down.
    fn draw(&self, out: &mut String, x: f64, top: f64) -> fmt::Result {
        let base = |index: usize| top + self.kind.line() * (index + 1) as f64 - 3.0;
        self.lines.iter().enumerate().try_for_each(|(index, line)| text(out, x, base(index), self.kind, line))
    }
}

/// Draws paragraphs below each other.
pub(crate) fn paragraphs(out: &mut String, x: f64, mut top: f64, all: &[Paragraph]) -> fmt::Result {
    for paragraph in all {
        paragraph.draw(out, x, top)?;
        top += paragraph.height();
    }
    Ok(())
}

/// How high paragraphs are together.
pub(crate) fn height(all: &[Paragraph]) -> f64 {
    all.iter().map(Paragraph::height).sum()
}

/// Properties of a picture, before anything is drawn in it.
pub(crate) struct Sheet<'a> {
    /// Size in pixels.
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// For screen readers: the conclusion.
    pub(crate) title: &'a str,
    /// For screen readers: the content, and how to read it.
    pub(crate) description: &'a str,
    /// The class of the hatch's stripes, where the picture uses one with `fill="url(#hatch)"`.
    pub(crate) hatch: Option<&'static str>,
}

/// Makes a picture.
pub(crate) fn svg(sheet: &Sheet<'_>, draw: impl FnOnce(&mut String) -> fmt::Result) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = sheet.head(&mut out).and_then(|()| draw(&mut out));
    out.push_str("</svg>\n");
    out
}

impl Sheet<'_> {
    fn head(&self, out: &mut String) -> fmt::Result {
        let (width, height) = (self.width, self.height.ceil());
        writeln!(
            out,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" font-family="sans-serif" font-size="12">"#
        )?;
        writeln!(out, "<title>{}</title>", escape(self.title))?;
        writeln!(out, "<desc>{}</desc>", escape(self.description))?;
        writeln!(out, "<style>{STYLES}</style>")?;
        if let Some(stripes) = self.hatch {
            writeln!(
                out,
                r##"<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" class="ground"/><rect width="3" height="6" class="{stripes}"/></pattern></defs>"##
            )?;
        }
        writeln!(out, r##"<rect width="{width}" height="{height}" class="ground"/>"##)
    }
}

/// Writes a text at a place.
pub(crate) fn text(out: &mut String, x: f64, y: f64, kind: Type, content: &str) -> fmt::Result {
    let Type { size, bold, anchor } = kind;
    let weight = if bold { r#" font-weight="bold""# } else { "" };
    let content = escape(content);
    writeln!(out, r#"<text x="{x:.1}" y="{y:.1}" font-size="{size}"{weight} text-anchor="{anchor}">{content}</text>"#)
}

/// Writes a name, shortened to a width; pointing at it shows all of it.
pub(crate) fn name(out: &mut String, x: f64, y: f64, kind: Type, content: &str, width: f64) -> fmt::Result {
    let shown = kind.fit(content, width);
    if shown == content {
        return text(out, x, y, kind, content);
    }
    write!(out, "<g><title>{}</title>", escape(content))?;
    text(out, x, y, kind, &shown)?;
    writeln!(out, "</g>")
}

/// Escapes a text for XML: names of commands, platforms and tasks are arbitrary. Characters that XML forbids become
/// question marks.
pub(crate) fn escape(content: &str) -> String {
    let mut escaped = String::with_capacity(content.len());
    for character in content.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('?'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn any_name_is_safe_in_xml() {
        assert_eq!(escape("a<b>&\"\u{1}\u{ffff}é"), "a&lt;b&gt;&amp;&quot;??é");
    }

    #[test]
    fn long_names_are_shortened_and_kept_for_who_points_at_them() {
        let mut out = String::new();
        name(&mut out, 0.0, 0.0, BODY, "a<b is longer than this", 40.0).unwrap();
        assert!(out.contains("<title>a&lt;b is longer than this</title>") && out.contains(">a&lt;b …</text>"), "{out}");
    }

    proptest! {
        #[test]
        fn lines_are_no_wider_than_asked_and_hold_every_letter(content in "[a-z ]{0,200}", width in 30.0..400.0f64) {
            let lines = SMALL.wrap(&content, width);
            prop_assert!(lines.iter().all(|line| SMALL.width(line) <= width));
            let letters = |text: &str| text.chars().filter(|letter| *letter != ' ').collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&content));
            prop_assert!(SMALL.width(&SMALL.fit(&content, width)) <= width);
        }

        #[test]
        fn any_text_is_read_back_from_xml(content in any::<String>()) {
            let document = format!("<t>{}</t>", escape(&content));
            let read = roxmltree::Document::parse(&document);
            prop_assert!(read.is_ok(), "{document}");
        }
    }
}
