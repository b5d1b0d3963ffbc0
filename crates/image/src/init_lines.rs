//! The `init` lines of a recipe as the guest's `init` reads them: the shell says on the console which command failed, and with
//! which status, and goes on.
//!
//! A check stands behind each command that is whole, so that it must be known where one ends: a loop may have several lines. The
//! scan follows quotes, substitutions and compound commands. Where it is in doubt (here-documents, `done` without a loop), all
//! remaining lines count as one command, which is checked at its end.

/// What the guest prints before the number of a line that failed.
pub const INIT_FAILED: &str = "doorbell: init line ";
/// Counts changes in what is made of the lines: images of recipes that have some are built again.
pub(crate) const INIT_LINES_VERSION: &str = " 2";
/// A command's text is cut to this length in messages.
const SHOWN_CHARS: usize = 80;
/// `$?` is the same behind the check as before it.
const CHECK: &str = "doorbell_init() { [ \"$1\" = 0 ] || echo \"doorbell: init line $2 failed with status $1: $3\"; \
                     return \"$1\"; }\n";

/// The file that `init` reads.
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

/// The commands, each with the index of its first line.
fn commands(lines: &[String]) -> Vec<(usize, &[String])> {
    let (mut found, mut begin, mut scan) = (Vec::new(), 0, Scan::default());
    for (index, line) in lines.iter().enumerate() {
        scan.line(line);
        if scan.is_whole() {
            found.push((begin, &lines[begin..=index]));
            begin = index + 1;
        }
    }
    if begin < lines.len() {
        found.push((begin, &lines[begin..]));
    }
    found
}

/// What the shell is inside of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Single,
    Double,
    Backtick,
    /// `(`, also of a substitution.
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
    /// The command goes on in the next line.
    goes_on: bool,
    /// A reserved word may stand here.
    at_command: bool,
    word: String,
    in_doubt: bool,
}

impl Default for Scan {
    fn default() -> Self {
        Scan { open: Vec::new(), goes_on: false, at_command: true, word: String::new(), in_doubt: false }
    }
}

impl Scan {
    fn is_whole(&self) -> bool {
        self.open.is_empty() && !self.goes_on && !self.in_doubt
    }

    fn line(&mut self, line: &str) {
        self.goes_on = false;
        let mut rest = line.chars().peekable();
        let mut before = ' ';
        while let Some(char) = rest.next() {
            let next = rest.peek().copied();
            if char == '\\' && self.top() != Some(Open::Single) {
                self.goes_on = next.is_none();
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
            if !self.goes_on {
                self.at_command = true;
            }
            let ends = line.trim_end();
            self.goes_on |= ends.ends_with("&&") || ends.ends_with('|') || ends.ends_with("()");
        }
    }

    fn top(&self) -> Option<Open> {
        self.open.last().copied()
    }

    /// Inside of quotes, or of `${`.
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

    /// Where commands are read.
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
                // The end of a pattern has no parenthesis before it.
                let is_pattern = self.top() == Some(Open::Case);
                if !is_pattern {
                    self.close(Open::Paren);
                }
                self.at_command = is_pattern;
            }
            '<' if next == Some('<') => self.in_doubt = true,
            ';' | '&' | '|' => {
                self.end_word(None);
                self.at_command = true;
            }
            _ if char.is_whitespace() => self.end_word(None),
            _ => self.word.push(char),
        }
    }

    /// A word with quotes is no reserved one.
    fn open_in_word(&mut self, open: Open) {
        self.word.push('"');
        self.open.push(open);
    }

    fn close(&mut self, open: Open) {
        self.in_doubt |= self.open.pop() != Some(open);
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

    /// The first lines of commands, from 1.
    fn begins(text: &str) -> Vec<usize> {
        commands(&lines(text)).iter().map(|(first, _)| first + 1).collect()
    }

    /// What a shell of the host prints.
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
    fn the_built_in_recipes_have_commands_that_are_whole() {
        for builtin in crate::BUILTIN {
            let recipe = crate::Recipe::load(builtin.name).unwrap();
            let own = checked(&recipe.spec.init);
            let out = Command::new("sh").args(["-n", "-c", &own]).output().unwrap();
            assert!(out.status.success(), "{}: {own}", builtin.name);
        }
    }
}
