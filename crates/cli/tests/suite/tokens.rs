//! Rust source as words, signs and literals, without comments: enough to find functions, their bodies and
//! their calls.

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    Word(String),
    Sign(char),
    /// Text of a string literal.
    Text(String),
    /// A character or a lifetime, whose content is not needed here.
    Other,
}

impl Token {
    pub fn is(&self, word: &str) -> bool {
        matches!(self, Token::Word(own) if own == word)
    }

    pub fn word(&self) -> Option<&str> {
        match self {
            Token::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// The position after a string whose quotation mark is at `at`, and the string's text.
fn string(text: &[char], mut at: usize) -> (usize, String) {
    let mut held = String::new();
    at += 1;
    while at < text.len() && text[at] != '"' {
        at += usize::from(text[at] == '\\');
        held.extend(text.get(at));
        at += 1;
    }
    (at + 1, held)
}

/// The same for a raw string whose hashes or quotation mark start at `at`; `None` if there is none.
fn raw_string(text: &[char], at: usize) -> Option<(usize, String)> {
    let hashes = text[at..].iter().take_while(|sign| **sign == '#').count();
    let first = at + hashes + 1;
    if text.get(first - 1) != Some(&'"') {
        return None;
    }
    let ends = |place: usize| {
        text[place] == '"' && text[place + 1..].iter().take_while(|sign| **sign == '#').count() >= hashes
    };
    let end = (first..text.len()).find(|place| ends(*place))?;
    Some((end + 1 + hashes, text[first..end].iter().collect()))
}

/// The position after a comment that starts at `at`; `None` if there is none.
fn comment(text: &[char], at: usize) -> Option<usize> {
    match (text[at], text.get(at + 1)) {
        ('/', Some('/')) => {
            Some(text[at..].iter().position(|sign| *sign == '\n').map_or(text.len(), |n| at + n))
        }
        ('/', Some('*')) => {
            let (mut depth, mut place) = (1, at + 2);
            while depth > 0 && place + 1 < text.len() {
                let step = match (text[place], text[place + 1]) {
                    ('/', '*') => 1,
                    ('*', '/') => -1,
                    _ => 0,
                };
                depth += step;
                place += if step == 0 { 1 } else { 2 };
            }
            Some(place)
        }
        _ => None,
    }
}

/// The position after a character literal or a lifetime.
fn quoted(text: &[char], at: usize) -> usize {
    match (text.get(at + 1), text.get(at + 2)) {
        (Some('\\'), _) => {
            (at + 3..text.len()).find(|place| text[*place] == '\'').map_or(text.len(), |n| n + 1)
        }
        (Some(_), Some('\'')) => at + 3,
        _ => at + 1,
    }
}

pub fn tokens(text: &str) -> Vec<Token> {
    let text: Vec<char> = text.chars().collect();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let sign = text[at];
        if let Some(behind) = comment(&text, at) {
            at = behind;
        } else if sign == '"' {
            let (behind, held) = string(&text, at);
            found.push(Token::Text(held));
            at = behind;
        } else if sign == '\'' {
            found.push(Token::Other);
            at = quoted(&text, at);
        } else if sign.is_alphanumeric() || sign == '_' {
            let length = text[at..].iter().take_while(|sign| sign.is_alphanumeric() || **sign == '_').count();
            let word: String = text[at..at + length].iter().collect();
            at += length;
            let raw = if matches!(&*word, "r" | "br" | "cr") { raw_string(&text, at) } else { None };
            if let Some((behind, held)) = raw {
                found.push(Token::Text(held));
                at = behind;
            } else {
                found.push(Token::Word(word));
            }
        } else {
            if !sign.is_whitespace() {
                found.push(Token::Sign(sign));
            }
            at += 1;
        }
    }
    found
}
