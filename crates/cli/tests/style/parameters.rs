//! Finds functions with tuple patterns among their parameters.

/// Names and parameters of the functions in a source, each with its line number.
pub fn functions(source: &str) -> Vec<(usize, &str, &str)> {
    let mut found = Vec::new();
    for (at, _) in source.match_indices("fn ") {
        let before = &source[source[..at].rfind('\n').map_or(0, |end| end + 1)..at];
        let rest = &source[at + 3..];
        let name = &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())];
        if name.is_empty() || before.contains("//") || before.ends_with(char::is_alphanumeric) {
            continue;
        }
        // Generic parameters may contain the parentheses of a function's type.
        let mut generics = 0;
        let begin = rest.char_indices().find(|(index, c)| {
            match c {
                '<' => generics += 1,
                '>' if !rest[..*index].ends_with('-') => generics -= 1,
                _ => {}
            }
            *c == '(' && generics == 0
        });
        let Some((begin, _)) = begin else { continue };
        let mut depth = 0;
        let end = rest[begin..].char_indices().find(|(_, c)| {
            depth += i32::from(*c == '(') - i32::from(*c == ')');
            depth == 0
        });
        let Some((end, _)) = end else { continue };
        found.push((source[..at].matches('\n').count() + 1, name, &rest[begin + 1..begin + end]));
    }
    found
}

/// Whether a parameter's pattern is a tuple of a type without a name. A pattern follows the begin, or a comma
/// outside all brackets.
pub fn has_tuple_pattern(parameters: &str) -> bool {
    let parameters: String = parameters.chars().filter(|c| !c.is_whitespace()).collect();
    let (mut depth, mut is_begin, mut last) = (0, true, ' ');
    for (at, c) in parameters.char_indices() {
        if is_begin && c == '(' && is_of_unnamed_type(&parameters[at..]) {
            return true;
        }
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if last != '-' => depth -= 1,
            _ => {}
        }
        is_begin = depth == 0 && c == ',' || is_begin && c == '&';
        last = c;
    }
    false
}

/// Whether a tuple pattern has a tuple type with fields.
fn is_of_unnamed_type(pattern: &str) -> bool {
    let of = pattern.split_once("):").map_or("", |(_, of)| of.trim_start_matches('&'));
    let of = of.strip_prefix("mut(").or_else(|| of.strip_prefix('('));
    of.is_some_and(|fields| !fields.starts_with(')'))
}

#[test]
fn tuple_patterns_of_parameters_are_found() {
    let source = "fn one((a, b): (u8, u8)) {}\n    pub fn two<F: Fn(u8) -> u8>(f: F, &(a, b): &(u8, u8)) {}\n\
                  fn three(a: (u8, u8), f: impl Fn((u8, u8), u8) -> u8) -> (u8, u8) {}\n// fn four((a, b): C)\n\
                  fn five(\n    &self,\n    (a, b): &mut (u8, u8),\n) {}\nfn six((a, b): C, (): &()) {}\n";
    let found = functions(source).into_iter().filter(|(.., parameters)| has_tuple_pattern(parameters));
    let found: Vec<(usize, &str)> = found.map(|(line, name, _)| (line, name)).collect();
    assert_eq!(found, [(1, "one"), (2, "two"), (5, "five")]);
}
