//! What a machine's file remarks on a value: the comment behind it, or the one above it. In presets it says where the value comes from.

/// The comment on the key at `path` in a TOML text, if there is one.
pub fn comment_on(text: &str, path: &str) -> Option<String> {
    let (mut table, mut above) = (String::new(), Vec::new());
    for line in text.lines() {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#') {
            above.push(comment.trim().to_owned());
            continue;
        }
        let (said, behind) = split(line);
        if let Some(name) = said.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = format!("{}.", name.trim());
        } else if let Some((key, _)) = said.split_once('=')
            && format!("{table}{}", key.trim()) == path
        {
            let all = behind.map_or(above, |behind| vec![behind.to_owned()]);
            return Some(all.join(" ")).filter(|all| !all.is_empty());
        }
        above.clear();
    }
    None
}

/// A line without the comment behind it, and that comment. A `#` in a text is none.
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
    fn a_comment_is_behind_its_key_or_above_it_and_not_above_another_one() {
        let text = "# the file\n\nplatform.nics = 2 # dotted\n[core]\nmodel = \"timed\"\nfrequency = \"3GHz\" # [G]\n# first,\n# second\nipc = 1.0\n\n\
                    [memory.l2] # the second\nsize = \"#1MiB\"\n";
        for (path, told) in [
            ("platform.nics", Some("dotted")),
            ("core.model", None),
            ("core.frequency", Some("[G]")),
            ("core.ipc", Some("first, second")),
            ("memory.l2.size", None),
            ("memory.l1d.size", None),
        ] {
            assert_eq!(comment_on(text, path).as_deref(), told, "{path}");
        }
    }
}
