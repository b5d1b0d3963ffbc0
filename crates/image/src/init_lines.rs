//! Prepares a recipe's `init` lines for the guest's `init`: the shell prints on the console which command
//! failed and its status, and continues.
//!
//! A check follows each complete command, so the end of each command must be found: a loop may span several
//! lines. The scan follows quotes, substitutions and compound commands. Where it is ambiguous
//! (here-documents, `done` without a loop), all remaining lines count as one command, with one check at its
//! end.

/// Beginning of the console line about a failed `init` line; the line's number follows.
pub const INIT_FAILED: &str = "doorbell: init line ";
/// Version of the generated text: a change rebuilds the images of recipes that have `init` lines.
pub(crate) const INIT_LINES_VERSION: &str = " 2";
/// Length to which a command's text is cut in messages.
const SHOWN_CHARS: usize = 80;
/// `$?` after the check is the same as before it.
const CHECK: &str = "doorbell_init() { [ \"$1\" = 0 ] || echo \"doorbell: init line $2 failed with status $1: $3\"; \
                     return \"$1\"; }\n";

/// Generates the file that `init` runs.
pub(crate) fn checked(lines: &[String]) -> String {
    let mut file = CHECK.to_owned();
    for (first, command) in commands(lines) {
        command.iter().for_each(|line| file.push_str(&format!("{line}\n")));
        let is_code = |line: &&String| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        let Some(text) = command.iter().find(is_code) else { continue };
        let more = if command.iter().filter(is_code).count() > 1 { " ..." } else { "" };
        let shown: String = text.trim().chars().take(SHOWN_CHARS).collect();
        file.push_str(&format!("doorbell_init $? {} '{}{more}'\n", first + 1, shown.replace('\'', "'\\''")));
    }
    file
}

/// Splits the lines into commands, each with the index of its first line.
fn commands(lines: &[String]) -> Vec<(usize, &[String])> {
    let (mut found, mut begin, mut scan) = (Vec::new(), 0, Scan::default());
    for (index, line) in lines.iter().enumerate() {
        scan.line(line);
        if scan.is_complete() {
            found.push((begin, &lines[begin..=index]));
            begin = index + 1;
        }
    }
    if begin < lines.len() {
        found.push((begin, &lines[begin..]));
    }
    found
}

/// A construct that is still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Single,
    Double,
    Backtick,
    /// `(`, including that of a substitution.
    Paren,
    /// `${`
    Parameter,
    Brace,
    If,
    Loop,
    Case,
}

#[derive(Debug)]
struct Scan {
    open: Vec<Open>,
    /// The command continues on the next line.
    continued: bool,
    /// A reserved word is recognized at this position.
    at_command: bool,
    word: String,
    ambiguous: bool,
}

impl Default for Scan {
    fn default() -> Self {
        Scan { open: Vec::new(), continued: false, at_command: true, word: String::new(), ambiguous: false }
    }
}

impl Scan {
    fn is_complete(&self) -> bool {
        self.open.is_empty() && !self.continued && !self.ambiguous
    }

    fn line(&mut self, line: &str) {
        self.continued = false;
        let mut rest = line.chars().peekable();
        let mut before = ' ';
        while let Some(char) = rest.next() {
            let next = rest.peek().copied();
            if char == '\\' && self.top() != Some(Open::Single) {
                self.continued = next.is_none();
                self.word.push('\\');
                rest.next();
            } else if matches!(self.top(), Some(Open::Single | Open::Double | Open::Parameter)) {
                self.quoted(char, before);
            } else if char == '#' && self.word.is_empty() && before != '$' {
                break;
            } else {
                self.plain(char, before, next);
            }
            before = char;
        }
        if !matches!(self.top(), Some(Open::Single | Open::Double | Open::Parameter)) {
            self.end_word(None);
            if !self.continued {
                self.at_command = true;
            }
            let ends = line.trim_end();
            self.continued |= ends.ends_with("&&") || ends.ends_with('|') || ends.ends_with("()");
        }
    }

    fn top(&self) -> Option<Open> {
        self.open.last().copied()
    }

    /// Handles a character inside quotes or `${`.
    fn quoted(&mut self, char: char, before: char) {
        let within = self.top();
        match char {
            '\'' if within == Some(Open::Single) => self.close(Open::Single),
            _ if within == Some(Open::Single) => {}
            '"' if within == Some(Open::Double) => self.close(Open::Double),
            '}' if within == Some(Open::Parameter) => self.close(Open::Parameter),
            '"' => self.open.push(Open::Double),
            '\'' if !self.open.contains(&Open::Double) => self.open.push(Open::Single),
            '`' => self.open.push(Open::Backtick),
            '(' if before == '$' => {
                self.open.push(Open::Paren);
                self.at_command = true;
            }
            '{' if before == '$' => self.open.push(Open::Parameter),
            _ => {}
        }
    }

    /// Handles a character outside quotes.
    fn plain(&mut self, char: char, before: char, next: Option<char>) {
        match char {
            '\'' => self.open_in_word(Open::Single),
            '"' => self.open_in_word(Open::Double),
            '{' if before == '$' => self.open_in_word(Open::Parameter),
            '`' if self.top() == Some(Open::Backtick) => {
                self.end_word(None);
                self.close(Open::Backtick);
            }
            '`' | '(' => {
                self.end_word(Some(char));
                self.open.push(if char == '(' { Open::Paren } else { Open::Backtick });
                self.at_command = true;
            }
            ')' => {
                self.end_word(Some(')'));
                // A pattern may end with `)` without a `(` before it.
                let is_pattern = self.top() == Some(Open::Case);
                if !is_pattern {
                    self.close(Open::Paren);
                }
                self.at_command = is_pattern;
            }
            '<' if next == Some('<') => self.ambiguous = true,
            ';' | '&' | '|' => {
                self.end_word(None);
                self.at_command = true;
            }
            _ if char.is_whitespace() => self.end_word(None),
            _ => self.word.push(char),
        }
    }

    /// A word with quotes is not a reserved word.
    fn open_in_word(&mut self, open: Open) {
        self.word.push('"');
        self.open.push(open);
    }

    fn close(&mut self, open: Open) {
        self.ambiguous |= self.open.pop() != Some(open);
    }

    fn end_word(&mut self, ended_by: Option<char>) {
        let word = std::mem::take(&mut self.word);
        if word.is_empty() {
            return;
        }
        let is_pattern = ended_by == Some(')') && self.top() == Some(Open::Case);
        if !self.at_command || is_pattern {
            return;
        }
        self.at_command =
            matches!(word.as_str(), "if" | "then" | "elif" | "else" | "while" | "until" | "do" | "{" | "!");
        match word.as_str() {
            "if" => self.open.push(Open::If),
            "for" | "while" | "until" => self.open.push(Open::Loop),
            "case" => self.open.push(Open::Case),
            "{" => self.open.push(Open::Brace),
            "fi" => self.close(Open::If),
            "done" => self.close(Open::Loop),
            "esac" => self.close(Open::Case),
            "}" => self.close(Open::Brace),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    /// The first lines of the commands, counted from 1.
    fn begins(text: &str) -> Vec<usize> {
        commands(&lines(text)).iter().map(|(first, _)| first + 1).collect()
    }

    /// Output of the generated file in the host's shell.
    fn run(text: &str) -> String {
        let out = Command::new("sh").arg("-c").arg(checked(&lines(text))).output().unwrap();
        assert!(out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    #[test]
    fn commands_of_several_lines_stay_whole() {
        assert_eq!(begins("a\nb; c\n# done\nd"), [1, 2, 3, 4]);
        assert_eq!(begins("for x in 1 2; do\n  echo done\ndone\nlast"), [1, 4]);
        assert_eq!(begins("if a; then\nb\nelse c\nfi\nwhile d; do e; done\nf"), [1, 5, 6]);
        assert_eq!(begins("case $x in\n a) b ;;\n done) c ;;\nesac\nd"), [1, 5]);
        assert_eq!(begins("a &&\nb\nc |\nd\ne \\\nf\ng"), [1, 3, 5, 7]);
        assert_eq!(begins("f()\n{\na\n}\nf"), [1, 5]);
        assert_eq!(begins("(a\nb)\nx=$(c\nd)\ne `f\ng`\nh"), [1, 3, 5, 7]);
        assert_eq!(begins("echo 'a\nb' \"c\nd\"\ne"), [1, 4]);
        assert_eq!(begins("echo \"$(cat \"$x\")\" ${y#'}'} ${#z} $#\nb"), [1, 2]);
        assert_eq!(begins("echo it\\'s; echo \"it's\"\nb"), [1, 2]);
        assert_eq!(begins("a\ncat <<END\nif\nEND\nb"), [1, 2]);
        assert_eq!(begins("a\ndone\nb"), [1, 2]);
    }

    #[test]
    fn a_failing_line_is_reported_and_the_rest_runs() {
        assert_eq!(
            run("x=1\nfalse\n(exit 3)\necho $x"),
            format!(
                "{INIT_FAILED}2 failed with status 1: false\n{INIT_FAILED}3 failed with status 3: (exit 3)\n1\n"
            )
        );
        let several = "for x in 'a b'; do\n  test -z \"$x\"\ndone\n";
        assert_eq!(run(several), format!("{INIT_FAILED}1 failed with status 1: for x in 'a b'; do ...\n"));
        assert_eq!(run("true\n\n# false\nfalse || true"), "");
        assert!(run("(exit 4)\necho $?").ends_with("\n4\n"), "the status stays for the next line");
    }

    #[test]
    fn the_built_in_recipes_init_lines_are_valid_shell() {
        for builtin in crate::BUILTIN {
            let recipe = crate::Recipe::load(builtin.name).unwrap();
            let own = checked(&recipe.spec.init);
            let out = Command::new("sh").args(["-n", "-c", &own]).output().unwrap();
            assert!(out.status.success(), "{}: {own}", builtin.name);
        }
    }
}
