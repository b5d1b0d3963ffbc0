//! Finds the functions of a crate, which of them are tests, and faults of the tests.

use std::collections::BTreeSet;
use std::path::Path;

use super::tokens::{Token, tokens};

/// Crates used only by tests: their functions are test helpers.
const HELPERS: &[&str] = &["acceptance", "archive", "faults", "harness", "lockstep", "oracle", "qtest"];
/// `unwrap` and `expect` do not count: they only check that a step before the assertion worked.
const METHODS: &[&str] = &["unwrap_err", "expect_err"];

pub struct Function {
    pub file: String,
    pub name: String,
    pub is_test: bool,
    /// The reason of `#[ignore]`; empty if it has none.
    pub ignored: Option<String>,
    krate: String,
    /// Whether it is part of a test or a helper: assertions in production code do not count.
    in_tests: bool,
    may_fail: bool,
    should_panic: bool,
    has_parameters: bool,
    body: Vec<Token>,
}

/// Collects all functions of the crate in a folder.
pub fn functions(folder: &Path, found: &mut Vec<Function>) {
    let krate = folder.file_name().unwrap().to_str().unwrap().to_owned();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let mut entries: Vec<_> =
            std::fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|is| is == "rs") {
                read(&path, &krate, &std::fs::read_to_string(&path).unwrap(), found);
            }
        }
    }
}

fn is_test_file(path: &Path, krate: &str) -> bool {
    let named = |name: &str| {
        ["tests", "acceptance", "acceptance.rs"].contains(&name)
            || name.ends_with("tests.rs")
            || name.ends_with("_tests")
    };
    HELPERS.contains(&krate) || path.iter().any(|part| part.to_str().is_some_and(named))
}

/// The position after the bracket that closes the one at `at`.
fn after_closing(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0_i32;
    for (place, token) in tokens.iter().enumerate().skip(at) {
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return place + 1;
        }
    }
    tokens.len()
}

/// The first of `signs` from `at` on, outside brackets.
fn outside(tokens: &[Token], mut at: usize, signs: &[char]) -> usize {
    while at < tokens.len() {
        match &tokens[at] {
            Token::Sign(sign) if signs.contains(sign) => return at,
            Token::Sign('(' | '[' | '{') => at = after_closing(tokens, at),
            _ => at += 1,
        }
    }
    at
}

/// Adds the functions and macros of a file.
pub fn read(path: &Path, krate: &str, text: &str, found: &mut Vec<Function>) {
    let tokens = tokens(text);
    let mut in_tests = is_test_file(path, krate);
    let (mut attributes, mut at): (Vec<&[Token]>, usize) = (Vec::new(), 0);
    while at < tokens.len() {
        match &tokens[at] {
            Token::Sign('#') if tokens.get(at + 1) == Some(&Token::Sign('[')) => {
                let end = after_closing(&tokens, at + 1);
                let attribute = &tokens[at + 2..end - 1];
                // The rest of the file belongs to tests: style.rs counts lines by the same rule.
                in_tests |= attribute.len() == 4 && attribute[0].is("cfg") && attribute[2].is("test");
                attributes.push(attribute);
                at = end;
                continue;
            }
            Token::Sign('{' | '}' | ';') => attributes.clear(),
            Token::Word(word) if word == "fn" || word == "macro_rules" => {
                let is_macro = word != "fn";
                let name = tokens.get(at + 1 + usize::from(is_macro)).and_then(Token::word);
                let Some(name) = name else {
                    at += 1;
                    continue;
                };
                let first = outside(&tokens, at + 2, &['{', ';']);
                let body = if tokens.get(first) == Some(&Token::Sign('{')) {
                    tokens[first + 1..after_closing(&tokens, first) - 1].to_vec()
                } else {
                    Vec::new()
                };
                let head = &tokens[at..first.min(tokens.len())];
                let named = |word: &str| attributes.iter().find(|has| has[0].is(word));
                found.push(Function {
                    file: path.display().to_string(),
                    name: name.to_owned(),
                    is_test: attributes.iter().any(|has| has.len() == 1 && has[0].is("test")),
                    ignored: named("ignore").map(|has| match has.last() {
                        Some(Token::Text(reason)) => reason.clone(),
                        _ => String::new(),
                    }),
                    krate: krate.to_owned(),
                    in_tests,
                    may_fail: head
                        .iter()
                        .any(|token| token.word().is_some_and(|word| word.ends_with("Result"))),
                    should_panic: named("should_panic").is_some(),
                    has_parameters: head.get(3).is_some_and(|token| *token != Token::Sign(')')),
                    body,
                });
                attributes.clear();
                // A nested function is a separate function.
                at = first;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
}

/// The names that a body calls: followed by `(`, by `!`, or by `::<`.
fn calls(body: &[Token]) -> impl Iterator<Item = &str> {
    body.windows(2).filter_map(|pair| {
        let called = matches!(pair[1], Token::Sign('(' | '!' | ':'));
        pair[0].word().filter(|_| called)
    })
}

fn asserts_itself(function: &Function, body: &[Token]) -> bool {
    let asserts = |place: usize| {
        let (word, next) = (&body[place], body.get(place + 1));
        match word {
            Token::Word(word) if next == Some(&Token::Sign('!')) => {
                word.contains("assert") || matches!(&**word, "panic" | "unreachable")
            }
            Token::Word(word) => {
                place > 0 && body[place - 1] == Token::Sign('.') && METHODS.contains(&&**word)
            }
            Token::Sign('?') => function.may_fail,
            _ => false,
        }
    };
    (0..body.len()).any(asserts)
}

fn reads_environment(body: &[Token]) -> bool {
    body.windows(4).any(|four| {
        four[0].is("env") && four[1] == Token::Sign(':') && (four[3].is("var") || four[3].is("var_os"))
    })
}

/// A body without code that depends on the environment.
fn without_environment_branches(body: &[Token], switches: &BTreeSet<&str>) -> Vec<Token> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < body.len() {
        if body[at].is("if") {
            let block = outside(body, at, &['{']);
            let condition = &body[at..block];
            if reads_environment(condition) || calls(condition).any(|name| switches.contains(name)) {
                at = after_closing(body, block);
                while body.get(at).is_some_and(|token| token.is("else")) {
                    at = after_closing(body, outside(body, at, &['{']));
                }
                continue;
            }
        }
        kept.push(body[at].clone());
        at += 1;
    }
    kept
}

/// A body without the blocks of closures and nested functions, whose `return` does not leave it.
fn own_statements(body: &[Token]) -> Vec<Token> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < body.len() {
        let before = if at == 0 { &Token::Sign(';') } else { &body[at - 1] };
        let begins = matches!(before, Token::Sign('(' | ',' | '=' | '{' | ';' | '>')) || before.is("move");
        let end = if body[at] == Token::Sign('|') && begins {
            let mut place = at + 1;
            while place < body.len() && body[place] != Token::Sign('|') {
                place += 1;
            }
            Some(place + 1)
        } else if body[at].is("fn") && body.get(at + 1).is_some_and(|token| token.word().is_some()) {
            Some(outside(body, at + 2, &['{']))
        } else {
            None
        };
        if let Some(mut place) = end {
            let returns = body.get(place) == Some(&Token::Sign('-'));
            if returns {
                place = outside(body, place, &['{']);
            }
            at = if body.get(place) == Some(&Token::Sign('{')) { after_closing(body, place) } else { place };
            continue;
        }
        kept.push(body[at].clone());
        at += 1;
    }
    kept
}

/// Names of helpers that assert, directly or through other helpers. A crate can use its own and those of the
/// helper crates.
fn asserting<'a>(helpers: &[&'a Function]) -> BTreeSet<&'a str> {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    loop {
        let before = names.len();
        for helper in helpers.iter().filter(|helper| !names.contains(&&*helper.name)).collect::<Vec<_>>() {
            let called = calls(&helper.body).any(|name| names.contains(name));
            if called || asserts_itself(helper, &helper.body) {
                names.insert(&helper.name);
            }
        }
        if names.len() == before {
            return names;
        }
    }
}

/// Faults of the tests among these functions.
pub fn faults(all: &[Function]) -> Vec<String> {
    let mut wrong = Vec::new();
    let crates: BTreeSet<&str> = all.iter().map(|function| &*function.krate).collect();
    for krate in crates {
        let near = |function: &&Function| function.krate == krate || HELPERS.contains(&&*function.krate);
        let helpers: Vec<&Function> =
            all.iter().filter(near).filter(|function| function.in_tests && !function.is_test).collect();
        let names = asserting(&helpers);
        let switches = helpers.iter().filter(|helper| reads_environment(&helper.body));
        let switches: BTreeSet<&str> = switches.map(|helper| &*helper.name).collect();
        for test in all.iter().filter(|function| function.is_test && function.krate == krate) {
            let body = without_environment_branches(&test.body, &switches);
            let called = calls(&body).any(|name| names.contains(name));
            if !called && !test.should_panic && !asserts_itself(test, &body) {
                wrong.push(format!("{}: {} asserts nothing", test.file, test.name));
            }
            let own = own_statements(&test.body);
            let returns = own.windows(2).any(|pair| {
                // A property may reject single cases.
                pair[0].is("return") && !(test.has_parameters && pair[1].is("Ok"))
            });
            if returns {
                let remedy = "what a run leaves out is ignored with its reason, or left out by name";
                wrong.push(format!("{}: {} returns early; {remedy}", test.file, test.name));
            }
        }
    }
    wrong
}
