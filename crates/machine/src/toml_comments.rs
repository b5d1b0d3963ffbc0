//! Comments on the values of a machine file: on the value's line, or on the lines above. In presets a comment
//! gives the source of the value.

/// The comment on the key at `path` in a TOML text, if there is one.
pub fn comment_on(text: &str, path: &str) -> Option<String> {
    let (mut table, mut above) = (String::new(), Vec::new());
    for line in text.lines() {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#') {
            above.push(comment.trim().to_owned());
            continue;
        }
        let (content, trailing) = split(line);
        if let Some(name) = content.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = format!("{}.", name.trim());
        } else if let Some((key, _)) = content.split_once('=')
            && format!("{table}{}", key.trim()) == path
        {
            let all = trailing.map_or(above, |comment| vec![comment.to_owned()]);
            return Some(all.join(" ")).filter(|all| !all.is_empty());
        }
        above.clear();
    }
    None
}

/// Splits a line into its content and its comment. A `#` in a string begins no comment.
fn split(line: &str) -> (&str, Option<&str>) {
    let mut is_text = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => is_text = !is_text,
            '#' if !is_text => return (line[..at].trim(), Some(line[at + 1..].trim())),
            _ => {}
        }
    }
    (line, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_is_on_the_line_of_its_key_or_directly_above() {
        let text = "# the file\n\nplatform.nics = 2 # dotted\n[core]\nmodel = \"timed\"\nfrequency = \"3GHz\" # [G]\n# first,\n# second\nipc = 1.0\n\n\
                    [memory.l2] # the second\nsize = \"#1MiB\"\n";
        for (path, expected) in [
            ("platform.nics", Some("dotted")),
            ("core.model", None),
            ("core.frequency", Some("[G]")),
            ("core.ipc", Some("first, second")),
            ("memory.l2.size", None),
            ("memory.l1d.size", None),
        ] {
            assert_eq!(comment_on(text, path).as_deref(), expected, "{path}");
        }
    }
}
