//! Patterns to avoid in comments, messages, names and pages, each with its replacement: plain technical English.

/// Words, and sequences of words, that a data book would not contain.
const AVOIDED: &[(&[&str], &str)] = &[
    (
        &[
            "so many",
            "so much",
            "so few",
            "for want of",
            "anew",
            "lest",
            "beside",
            "besides",
            "dear",
            "begun",
        ],
        "a plain adverb or preposition: this number of, because of, again, so that … not, next to, expensive, started",
    ),
    (
        &["whoever", "whomever", "nobody", "somebody", "anybody", "everybody"],
        "the part or the person: core, device, user",
    ),
    (&["heed", "heeds", "heeded", "goes on", "go on", "went on", "going on", "gone on"], "follow, continue"),
    (&["stands", "stood", "lies"], "is"),
    (
        &["told", "tells", "heard", "hears", "said", "asks", "asked", "asking", "wants", "knows", "knew"],
        "report, receive, request",
    ),
];
/// Words that start a noun phrase without a noun.
const STARTS: &[&str] = &["What", "Who", "Whose", "Whom", "Those", "Of"];
/// Plural nouns before *a* for *per*: "misses a packet".
const COUNTED: &[&str] = &[
    "frames",
    "packets",
    "bytes",
    "bits",
    "instructions",
    "operations",
    "ops",
    "misses",
    "hits",
    "requests",
    "cycles",
    "clocks",
    "interrupts",
    "transactions",
    "branches",
    "descriptors",
    "nanoseconds",
    "picoseconds",
    "microseconds",
    "seconds",
    "queries",
    "messages",
    "tokens",
    "flits",
];
const PER: &[&str] = &[
    "second",
    "packet",
    "frame",
    "cycle",
    "core",
    "hart",
    "queue",
    "instruction",
    "line",
    "byte",
    "page",
    "request",
    "port",
    "card",
    "channel",
    "bank",
    "clock",
    "segment",
    "transaction",
    "point",
    "run",
    "access",
    "thread",
    "node",
    "microsecond",
    "millisecond",
    "message",
    "batch",
    "descriptor",
    "block",
    "way",
    "set",
    "slice",
    "event",
];
/// Names of functions, types and modules that are participles or pronouns.
const NAMES: &[&str] = &[
    "told",
    "asked",
    "known",
    "held",
    "seen",
    "heard",
    "said",
    "gone",
    "begun",
    "beside",
    "alone",
    "lent",
    "elsewhere",
    "whoever",
    "nobody",
    "noted",
];

/// The text without quoted code and names with dots, underscores or braces.
fn prose(text: &str) -> String {
    let outside: String = text.split('`').step_by(2).collect::<Vec<_>>().join("x");
    let is_word = |word: &str| {
        !word.trim_end_matches(['.', ',', ':', ';']).contains(['.', '_', '{', '=', '/', '[', '<', '\\'])
    };
    outside
        .split_whitespace()
        .map(|word| if is_word(word) { word } else { "x" })
        .collect::<Vec<_>>()
        .join(" ")
}

/// The avoided patterns in a text of one or more sentences, each with its replacement.
pub fn avoided(text: &str) -> Vec<String> {
    let prose = prose(text);
    let words: Vec<String> = prose
        .split(' ')
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase())
        .filter(|word| !word.is_empty())
        .collect();
    let spaced = format!(" {} ", words.join(" "));
    let mut found = Vec::new();
    for (patterns, instead) in AVOIDED {
        let hits = patterns.iter().filter(|pattern| spaced.contains(&format!(" {pattern} ")));
        found.extend(hits.map(|pattern| format!("\"{pattern}\": {instead}")));
    }
    for three in prose.split(' ').collect::<Vec<_>>().windows(3) {
        let [counted, article, unit] = three else { unreachable!("windows of three") };
        let unit = unit.trim_end_matches(|c: char| !c.is_alphanumeric());
        if ["a", "an"].contains(article) && COUNTED.contains(counted) && PER.contains(&unit) {
            found.push(format!("\"{counted} {article} {unit}\": {counted} per {unit}"));
        }
    }
    for sentence in sentences(&prose) {
        let start = sentence.split(' ').next().unwrap_or_default();
        if STARTS.contains(&start) && !sentence.ends_with('?') && !sentence.starts_with("Of course") {
            found.push(format!("a sentence that starts with \"{start}\": start with the subject"));
        }
    }
    found
}

fn sentences(prose: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut rest = prose;
    while let Some(end) = rest.find(". ").into_iter().chain(rest.find("? ")).chain(rest.find("! ")).min() {
        all.push(&rest[..=end]);
        rest = &rest[end + 2..];
    }
    all.push(rest);
    all
}

/// Whether a declared name is a participle or a pronoun, or ends in one.
pub fn is_avoided_name(name: &str) -> bool {
    let lower = name.to_lowercase();
    let verbs = ["told", "heard", "said", "whoever", "nobody"];
    let parts: Vec<&str> = lower.split('_').collect();
    NAMES.contains(&lower.as_str())
        || parts.iter().any(|part| verbs.contains(part) || ["anew", "lest", "begun"].contains(part))
}

/// Texts of a Rust file with their line numbers: comment paragraphs, and string literals with a space.
pub fn texts_of_rust(source: &str) -> Vec<(usize, String)> {
    let mut texts: Vec<(usize, String)> = Vec::new();
    let mut in_comment = false;
    for (number, line) in source.lines().enumerate() {
        let line = line.trim_start();
        if let Some(comment) = line.strip_prefix("//") {
            let text = comment.trim_start_matches(['/', '!']).trim();
            match texts.last_mut() {
                Some((_, paragraph)) if in_comment && !text.is_empty() => {
                    paragraph.push(' ');
                    paragraph.push_str(text);
                }
                _ => texts.push((number + 1, text.to_owned())),
            }
            in_comment = !text.is_empty();
            continue;
        }
        in_comment = false;
        if let Some((_, comment)) = line.split_once(" // ") {
            texts.push((number + 1, comment.to_owned()));
        }
        let strings = line.replace("\\\"", "'");
        let literals = strings.split('"').skip(1).step_by(2).filter(|literal| literal.contains(' '));
        texts.extend(literals.map(|literal| (number + 1, literal.to_owned())));
    }
    texts
}

/// Names that a Rust file declares, with their line numbers.
pub fn names_of_rust(source: &str) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    for (number, line) in source.lines().enumerate() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        for pair in words.windows(2) {
            if ["fn", "struct", "enum", "trait", "type", "mod", "const", "static"].contains(&pair[0]) {
                let is_part = |c: char| c.is_alphanumeric() || c == '_';
                names
                    .push((number + 1, pair[1].split(|c| !is_part(c)).next().unwrap_or_default().to_owned()));
            }
        }
    }
    names
}

/// Paragraphs of a page with their line numbers, without code blocks.
pub fn texts_of_page(page: &str) -> Vec<(usize, String)> {
    let mut texts: Vec<(usize, String)> = Vec::new();
    let (mut in_code, mut in_paragraph) = (false, false);
    for (number, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let is_text = !in_code
            && !line.starts_with("    ")
            && !line.trim_start().starts_with("```")
            && !line.trim().is_empty();
        let starts_block = ['|', '#', '-', '*'].iter().any(|mark| line.trim_start().starts_with(*mark));
        match texts.last_mut() {
            Some((_, paragraph)) if is_text && in_paragraph && !starts_block => {
                paragraph.push(' ');
                paragraph.push_str(line.trim());
            }
            _ if is_text => {
                texts.push((number + 1, line.trim().trim_start_matches(['|', '#', '-', '*', ' ']).to_owned()))
            }
            _ => {}
        }
        in_paragraph = is_text && !line.starts_with('|');
    }
    texts
}

/// Comments of a TOML file or a script with their line numbers: paragraphs of comment lines, and comments after
/// code. A `#` in a string starts no comment.
pub fn texts_of_hash_comments(source: &str) -> Vec<(usize, String)> {
    let mut texts: Vec<(usize, String)> = Vec::new();
    let (mut in_comment, mut in_long_string) = (false, false);
    for (number, line) in source.lines().enumerate() {
        let marks = line.matches("\"\"\"").count() + line.matches("'''").count();
        if in_long_string || marks % 2 == 1 {
            in_long_string ^= marks % 2 == 1;
            in_comment = false;
            continue;
        }
        let Some((code, comment)) = hash_comment(line) else {
            in_comment = false;
            continue;
        };
        let is_line = code.trim().is_empty() && !comment.is_empty();
        match texts.last_mut() {
            Some((_, paragraph)) if in_comment && is_line => {
                paragraph.push(' ');
                paragraph.push_str(comment);
            }
            _ if !comment.is_empty() => texts.push((number + 1, comment.to_owned())),
            _ => {}
        }
        in_comment = is_line;
    }
    texts
}

/// A line's code and the comment after it.
fn hash_comment(line: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') => return Some((&line[..at], line[at + 1..].trim())),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
    }
    None
}

#[test]
fn each_pattern_is_found_and_plain_text_is_not() {
    for text in [
        "Of a played trace, what counts",
        "It ends. Those of a cycle that stay empty",
        "misses a packet",
        "so many frames",
        "the block that was told before",
        "Who comes next waits for it.",
        "the line goes on",
    ] {
        assert_eq!(avoided(text).len(), 1, "{text}: {:?}", avoided(text));
    }
    for text in [
        "Sections that only network files may have.",
        "misses per packet; a hart reads `beside.traces` or beside.traces",
        "What does it cost? The latency of one hop.",
    ] {
        assert!(avoided(text).is_empty(), "{text}: {:?}", avoided(text));
    }
    assert!(
        is_avoided_name("Told") && is_avoided_name("what_was_said") && !is_avoided_name("known_packages")
    );
    let rust = "/// First\n/// second.\nfn a() { b(\"no space\", \"x y\") } // why it\n\n//! Head.\n";
    let texts: Vec<String> = texts_of_rust(rust).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["First second.", "why it", "no space", "x y", "Head."]);
    assert_eq!(names_of_rust(rust), [(3, "a".to_owned())]);
    let toml = "# One\n# two.\n#\n# Three.\na = \"b # c\" # four\n# Five.\nd = \"\"\"\n# text\n\"\"\"\n";
    let texts: Vec<String> = texts_of_hash_comments(toml).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["One two.", "Three.", "four", "Five."]);
    let page = "# Title\n\nOne\ntwo.\n\n```\ncode\n```\n    code\n| a | b |\n";
    let texts: Vec<String> = texts_of_page(page).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["Title", "One two.", "a | b |"]);
}
