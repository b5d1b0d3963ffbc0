//! Escaping of text for HTML.

use std::fmt;

/// Displays text escaped for an element's content or a quoted attribute.
pub(crate) struct Esc<T>(pub T);

impl<T: fmt::Display> fmt::Display for Esc<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.to_string().chars() {
            match c {
                '&' => out.write_str("&amp;")?,
                '<' => out.write_str("&lt;")?,
                '>' => out.write_str("&gt;")?,
                '"' => out.write_str("&quot;")?,
                '\'' => out.write_str("&#39;")?,
                // HTML cannot represent these; a browser would drop or replace them anyway.
                c if c.is_control() && !matches!(c, '\n' | '\t' | '\r') => out.write_str("\u{fffd}")?,
                c => write!(out, "{c}")?,
            }
        }
        Ok(())
    }
}

/// A line of Markdown: escaped, with text between backquotes as code.
pub(crate) struct Prose<'a>(pub &'a str);

impl fmt::Display for Prose<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some((before, (code, after))) =
            rest.split_once('`').and_then(|(before, opened)| Some((before, opened.split_once('`')?)))
        {
            write!(out, "{}<code>{}</code>", Esc(before), Esc(code))?;
            rest = after;
        }
        write!(out, "{}", Esc(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(
            Esc("<a href=\"x\" title='y'>&amp;</a>").to_string(),
            "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt;"
        );
        assert_eq!(Esc("µs\tok\n").to_string(), "µs\tok\n");
        assert_eq!(
            Prose("<by> `a < b` and `c`, 5`").to_string(),
            "&lt;by&gt; <code>a &lt; b</code> and <code>c</code>, 5`"
        );
        assert_eq!(Esc("a\0b\u{1b}[1m").to_string(), "a\u{fffd}b\u{fffd}[1m");
    }
}
