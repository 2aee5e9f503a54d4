//! What all pictures have in common: the head, text that is safe in XML, the hatch.

use std::fmt::{self, Write as _};

/// Fills what must be told from a color without one: `fill="url(#hatch)"`.
pub(crate) struct Hatch(pub(crate) &'static str);

/// Makes a picture of a size in pixels on white ground; `hatch` is the color of the hatch, where the picture uses one.
pub(crate) fn svg(
    width: f64,
    height: f64,
    hatch: Option<Hatch>,
    draw: impl FnOnce(&mut String) -> fmt::Result,
) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = head(&mut out, width, height, hatch).and_then(|()| draw(&mut out));
    out.push_str("</svg>\n");
    out
}

fn head(out: &mut String, width: f64, height: f64, hatch: Option<Hatch>) -> fmt::Result {
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="sans-serif" font-size="12">"#
    )?;
    if let Some(Hatch(color)) = hatch {
        writeln!(
            out,
            r##"<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="#ffffff"/><rect width="3" height="6" fill="{color}"/></pattern></defs>"##
        )?;
    }
    writeln!(out, r##"<rect width="{width}" height="{height}" fill="#ffffff"/>"##)
}

/// Writes a text at a place.
pub(crate) fn text(out: &mut String, x: f64, y: f64, attributes: &str, content: &str) -> fmt::Result {
    writeln!(out, r#"<text x="{x:.1}" y="{y:.1}" {attributes}>{}</text>"#, escape(content))
}

/// Makes any text one that may stand in XML: names of commands, platforms and tasks are anybody's. Characters that XML
/// forbids become question marks.
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

    #[test]
    fn any_name_is_safe_in_xml() {
        assert_eq!(escape("a<b>&\"\u{1}\u{ffff}é"), "a&lt;b&gt;&amp;&quot;??é");
    }
}
